// SPDX-License-Identifier: BSD-3-Clause
// Source: OME-NGFF 0.4 and 0.5; zarr-specs 2 and 3.1.
#include "zarr/zarr_layout.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "places.hpp"
#include "tessera/core/error.hpp"
#include "tessera/core/version.hpp"
#include "zarr/zarr_choice.hpp"
#include "zarr/zarr_sink.hpp"

namespace tessera::io {
namespace {

constexpr std::int64_t kPictureChunk = 512, kVolumeChunk = 64;  // a side
constexpr std::int64_t kPictureShard = 2048, kVolumeShard = 128;
constexpr std::int64_t kManyChunks = 64;         // of a level, beyond which files hold several
constexpr std::int64_t kMostSamples = 16 << 20;  // of a file in all channels, which one rank holds
constexpr double kAlike = 1.5;                   // spacings that differ by less are halved together

Index3 sides(const Index3& size, std::int64_t picture, std::int64_t volume) {
  const std::int64_t side = size[0] > 1 ? volume : picture;
  return {std::min(size[0], side), std::min(size[1], side), std::min(size[2], side)};
}

void cut(ZarrLevel& level, int format, std::int64_t channels) {
  constexpr std::int64_t kLeast = 32;  // a side
  const auto samples = [&](const Index3& box) { return box[0] * box[1] * box[2] * channels; };
  level.chunk = sides(level.size, kPictureChunk, kVolumeChunk);
  while (samples(level.chunk) > kMostSamples &&
         *std::max_element(level.chunk.begin(), level.chunk.end()) > kLeast)
    for (std::int64_t& side : level.chunk)
      if (side > kLeast) side = (side + 1) / 2;
  level.file = level.chunk;
  const Index3 count = level.files();
  if (format == 2 || count[0] * count[1] * count[2] <= kManyChunks) return;
  Index3 shard = level.chunk;
  for (std::size_t d = 0; d < 3; ++d) {
    const std::int64_t most = (level.size[0] > 1 ? kVolumeShard : kPictureShard) / level.chunk[d];
    shard[d] = level.chunk[d] * std::max<std::int64_t>(1, std::min(count[d], most));
  }
  if (samples(shard) <= kMostSamples) level.file = shard;
}

// The next level: means of two samples along the axes whose spacing is about the smallest; a last one without a
// partner is left out, so that every sample lies where scale and translation say.
bool halve(const ZarrLevel& from, const std::array<bool, 3>& deep, ZarrLevel& to) {
  if (from.size == from.chunk) return false;  // it is one chunk
  double least = HUGE_VAL;
  for (std::size_t d = 0; d < 3; ++d)
    if (deep[d] && from.size[d] > 1) least = std::min(least, from.scale[d]);
  to = from;
  for (std::size_t d = 0; d < 3; ++d) {
    to.step[d] = deep[d] && from.size[d] > 1 && from.scale[d] < kAlike * least ? 2 : 1;
    to.size[d] = from.size[d] / to.step[d];
    to.place[d] += 0.5 * static_cast<double>(to.step[d] - 1) * from.scale[d];
    to.scale[d] *= static_cast<double>(to.step[d]);
  }
  return true;
}

std::array<double, 3> first_places(const ImageRecord& record) {
  PlaceTexts places = record.metadata.text;
  if (numbers_of(places, kTranslation, 3).empty()) places.emplace_back(kTranslation, "0 0 0");
  move_place(places, record.space);
  const std::vector<double> at = numbers_of(places, kTranslation, 3);
  return {at[0], at[1], at[2]};
}

constexpr const char* kColors[] = {"FF0000", "00FF00", "0000FF", "FF00FF", "00FFFF", "FFFF00"};

}  // namespace

Index3 ZarrLevel::files() const {
  Index3 out{};
  for (std::size_t d = 0; d < 3; ++d) out[d] = (size[d] + file[d] - 1) / file[d];
  return out;
}

ZarrLayout::ZarrLayout(const ImageRecord& record)
    : record_(record), format_(record.version == "0.4" ? 2 : 3) {
  TESSERA_VALIDATE(record.version.empty() || record.version == "0.4" || record.version == "0.5", "OME-Zarr ",
                   record.version, " is not written (0.4 and 0.5 are) choose one of them");
  codecs_ = {has_codec(ZarrCodec::blosc) ? ZarrCodec::blosc
             : format_ == 3              ? ZarrCodec::gzip
                                         : ZarrCodec::zlib};
  const ImageSpace& space = record_.space;
  std::array<bool, 3> deep{};
  ZarrLevel level;
  level.size = space.box.extents();
  level.place = first_places(record_);
  for (std::size_t d = 0; d < 3; ++d) {
    deep[d] = level.size[d] > 1;
    level.scale[d] = space.grid[d].spacing > 0 ? space.grid[d].spacing : 1;
  }
  cut(level, format_, space.channels);
  levels_.push_back(level);
  for (ZarrLevel next; halve(levels_.back(), deep, next);) {
    cut(next, format_, space.channels);
    levels_.push_back(next);
  }
}

std::string ZarrLayout::type() const { return concat(record_.bits < 32 ? "uint" : "float", record_.bits); }

template <class T>
ZarrLayout::Json ZarrLayout::of_axes(const T& channel, const std::array<T, 3>& others) const {
  Json out = Json::array();
  if (record_.space.channels > 1) out.push_back(channel);
  for (std::size_t d = record_.space.box.extent(0) > 1 ? 0 : 1; d < 3; ++d) out.push_back(others[d]);
  return out;
}

std::string ZarrLayout::key(std::size_t level, std::int64_t channel, const Index3& file) const {
  std::string out = concat(level, format_ == 3 ? "/c" : "");
  for (const auto& n : of_axes(channel, file)) out += concat('/', n.get<std::int64_t>());
  return out;
}

std::vector<std::pair<std::string, std::string>> ZarrLayout::array_metadata(std::size_t k) const {
  const ZarrLevel& level = levels_[k];
  const std::int64_t one = 1;
  const Json shape = of_axes(record_.space.channels, level.size), chunk = of_axes(one, level.chunk);
  const bool blosc = codecs_[0] == ZarrCodec::blosc, floats = record_.bits >= 32;
  const Json zero = floats ? Json(0.0) : Json(0);
  if (format_ == 2) {
    const Json packed = blosc ? Json{{"id", "blosc"},
                                     {"cname", "lz4"},
                                     {"clevel", 5},
                                     {"shuffle", element() > 1 ? 1 : 0},
                                     {"blocksize", 0}}
                              : Json{{"id", "zlib"}, {"level", 5}};
    const Json about{{"zarr_format", 2},
                     {"shape", shape},
                     {"chunks", chunk},
                     {"dtype", concat(element() > 1 ? '<' : '|', floats ? 'f' : 'u', element())},
                     {"compressor", packed},
                     {"fill_value", zero},
                     {"order", "C"},
                     {"filters", nullptr},
                     {"dimension_separator", "/"}};
    return {{concat(k, "/.zarray"), about.dump(1)}};
  }
  const Json bytes = element() > 1 ? Json{{"name", "bytes"}, {"configuration", {{"endian", "little"}}}}
                                   : Json{{"name", "bytes"}};
  const Json packed = blosc ? Json{{"name", "blosc"},
                                   {"configuration",
                                    {{"typesize", element()},
                                     {"cname", "lz4"},
                                     {"clevel", 5},
                                     {"shuffle", element() > 1 ? "shuffle" : "noshuffle"},
                                     {"blocksize", 0}}}}
                            : Json{{"name", "gzip"}, {"configuration", {{"level", 5}}}};
  Json codecs = Json::array({bytes, packed});
  if (sharded(k))
    codecs = Json::array({Json{
        {"name", "sharding_indexed"},
        {"configuration",
         {{"chunk_shape", chunk},
          {"codecs", codecs},
          {"index_codecs", Json::array({Json{{"name", "bytes"}, {"configuration", {{"endian", "little"}}}},
                                        Json{{"name", "crc32c"}}})},
          {"index_location", "end"}}}}});
  const std::array<std::string, 3> names{"z", "y", "x"};
  const Json about{
      {"zarr_format", 3},
      {"node_type", "array"},
      {"shape", shape},
      {"data_type", type()},
      {"chunk_grid", {{"name", "regular"}, {"configuration", {{"chunk_shape", of_axes(one, level.file)}}}}},
      {"chunk_key_encoding", {{"name", "default"}, {"configuration", {{"separator", "/"}}}}},
      {"fill_value", zero},
      {"codecs", codecs},
      {"dimension_names", of_axes(std::string("c"), names)},
      {"attributes", Json::object()}};
  return {{concat(k, "/zarr.json"), about.dump(1)}};
}

ZarrLayout::Json ZarrLayout::multiscales(const std::string& name) const {
  std::array<Json, 3> axes;
  for (std::size_t d = 0; d < 3; ++d) {
    const ImageSpace::Axis& axis = record_.space.grid[d];
    axes[d] = {{"name", std::string(1, "zyx"[d])}, {"type", "space"}};
    if (axis.spacing > 0 && !axis.unit.empty()) axes[d]["unit"] = ome_unit(axis.unit);
  }
  Json sets = Json::array();
  for (std::size_t k = 0; k < levels_.size(); ++k) {
    Json moves = Json::array({Json{{"type", "scale"}, {"scale", of_axes(1.0, levels_[k].scale)}}});
    if (levels_[k].place != std::array<double, 3>{})
      moves.push_back({{"type", "translation"}, {"translation", of_axes(0.0, levels_[k].place)}});
    sets.push_back({{"path", std::to_string(k)}, {"coordinateTransformations", moves}});
  }
  Json one;
  if (format_ == 2) one["version"] = "0.4";
  one["name"] = name;
  one["axes"] = of_axes(Json{{"name", "c"}, {"type", "channel"}}, axes);
  one["datasets"] = sets;
  one["type"] = "mean";
  return Json::array({one});
}

ZarrLayout::Json ZarrLayout::omero(const std::vector<std::array<double, 2>>& range) const {
  Json channels = Json::array();
  const ImageSpace& space = record_.space;
  for (std::size_t c = 0; c < static_cast<std::size_t>(space.channels); ++c) {
    const bool named = c < space.channel_names.size();
    const double top = record_.bits == 8 ? 255 : record_.bits == 16 ? 65535 : range[c][1];
    channels.push_back({{"label", named ? space.channel_names[c] : concat("channel ", c)},
                        {"color", space.channels == 1 ? "FFFFFF" : kColors[c % std::size(kColors)]},
                        {"active", true},
                        {"window",
                         {{"min", record_.bits < 32 ? 0 : range[c][0]},
                          {"max", top},
                          {"start", range[c][0]},
                          {"end", range[c][1]}}}});
  }
  Json out;
  if (format_ == 2) out["version"] = "0.4";
  out["channels"] = channels;
  out["rdefs"] = {{"model", space.channels == 1 ? "greyscale" : "color"}};
  return out;
}

ZarrLayout::Json ZarrLayout::ours() const {
  Json out{{"version", tessera::version()}};
  if (record_.says_scale) {
    out["factor"] = record_.factor;
    out["offset"] = record_.offset;
    if (record_.curve.kind() == ToneCurve::Kind::srgb)
      out["curve"] = "srgb";
    else if (!record_.curve.none())
      out["gamma"] = record_.curve.gamma();
  }
  if (!record_.space.channel_names.empty()) out["channel_names"] = record_.space.channel_names;
  if (!record_.space.orientation.empty()) out["orientation"] = record_.space.orientation;
  Json text = Json::array();
  PlaceTexts texts = record_.metadata.text;
  move_place(texts, record_.space);
  for (const auto& [key, value] : texts)
    if (key != kTranslation) text.push_back(Json::array({key, value}));
  if (!text.empty()) out["text"] = text;
  return out;
}

std::vector<std::pair<std::string, std::string>> ZarrLayout::group_metadata(
    const std::string& name, const std::vector<std::array<double, 2>>& range) const {
  constexpr auto kReplace = Json::error_handler_t::replace;  // text of files need not be UTF-8
  if (format_ == 2) {
    const Json attributes{{"multiscales", multiscales(name)}, {"omero", omero(range)}, {kOurs, ours()}};
    return {{".zgroup", "{\n \"zarr_format\": 2\n}"}, {".zattrs", attributes.dump(1, ' ', false, kReplace)}};
  }
  const Json ome{{"version", "0.5"}, {"multiscales", multiscales(name)}, {"omero", omero(range)}};
  const Json about{
      {"zarr_format", 3}, {"node_type", "group"}, {"attributes", {{"ome", ome}, {kOurs, ours()}}}};
  return {{"zarr.json", about.dump(1, ' ', false, kReplace)}};
}

}  // namespace tessera::io
