// SPDX-License-Identifier: BSD-3-Clause
// Arrays of Zarr stores as images, with what OME-NGFF says of them.
#include <algorithm>
#include <array>
#include <cmath>
#include <memory>

#include "array_axes.hpp"
#include "array_copy.hpp"
#include "formats.hpp"
#include "places.hpp"
#include "tessera/core/error.hpp"
#include "tile_pieces.hpp"
#include "zarr/zarr_array.hpp"
#include "zarr/zarr_choice.hpp"
#include "zarr/zarr_sink.hpp"

namespace tessera::io {
namespace {

class ZarrSource final : public ImageSource {
 public:
  ZarrSource(const std::string& file, const std::string& part)
      : where_(part.empty() ? file : concat(file, ":", part)),
        choice_(choose_zarr(file, part)),
        array_(choice_.array) {
    const ZarrMeta& meta = array_.meta();
    start_.assign(meta.shape.size(), 0);
    Extents shape;  // of the axes that are left
    AxisLabels labels{{}, choice_.says.empty() ? "the names of its dimensions" : choice_.says};
    std::vector<std::size_t> left;
    for (std::size_t d = 0; d < meta.shape.size(); ++d) {
      const ZarrAxis* const axis = d < choice_.axes.size() ? &choice_.axes[d] : nullptr;
      if (axis && axis->picked >= 0) start_[d] = axis->picked;
      if (axis && axis->picked >= 0) continue;
      left.push_back(d);
      shape.push_back(meta.shape[d]);
      labels.names.push_back(!axis ? "" : axis->letter == '-' ? axis->name : std::string(1, axis->letter));
    }
    TESSERA_VALIDATE(choice_.says.empty() || says_axes(labels, shape.size()), "cannot read ", where_,
                     ": its axes are ", axis_names(),
                     " (rows, y, and columns, x, are needed, each once) name fewer "
                     "positions, or write them again");
    const ArrayAxes axes = array_axes(where_, shape, labels);
    for (std::size_t k = 0; k < 4; ++k)
      if (axes.of[k] >= 0) axis_[k] = static_cast<int>(left[static_cast<std::size_t>(axes.of[k])]);
    info_ = {ImageSpace(Box({0, 0, 0}, {extent(1), extent(2), extent(3)}), extent(0))};
    info_.type = meta.type;
    info_.full_scale = full_scale(meta.type);
    describe();
    read_ours();
    note(axes.note);
    note(choice_.note);
    look_at_files();
  }

  Metadata metadata() override {
    Metadata out;
    std::vector<double> places;
    for (std::size_t k = 1; k < 4; ++k)
      places.push_back(axis_[k] < 0 || choice_.axes.empty() ? 0 : choice_.axes[as_axis(k)].translation);
    if (choice_.placed && places != std::vector<double>(3, 0))
      out.text.emplace_back(kTranslation, number_text(places));
    if (choice_.ours.is_object() && choice_.ours.contains("text") && choice_.ours["text"].is_array())
      for (const nlohmann::json& pair : choice_.ours["text"])
        if (pair.is_array() && pair.size() == 2 && pair[0].is_string() && pair[1].is_string() &&
            (whole_grid() || !is_place(pair[0].get<std::string>())))
          out.text.emplace_back(pair[0].get<std::string>(), pair[1].get<std::string>());
    return out;
  }

  std::vector<std::pair<std::string, std::string>> about() override {
    const ZarrMeta& meta = array_.meta();
    std::string text;
    for (const ZarrCodec codec : meta.codecs) text += concat(text.empty() ? "" : ", ", codec_name(codec));
    if (text.empty()) text = "not packed";
    text += concat(", chunks of ", shape_text(meta.chunk));
    if (!meta.shard.empty()) text += concat(" in shards of ", shape_text(meta.shard));
    return {{"array", concat(choice_.array.folder, " ", shape_text(meta.shape), ", Zarr format ",
                             choice_.array.format)},
            {"packed", text}};
  }

  std::vector<Box> pieces(const Box& box, std::int64_t bytes) const override {
    Index3 chunk{};
    for (std::size_t d = 0; d < 3; ++d) chunk[d] = axis_[d + 1] < 0 ? 1 : array_.meta().chunk[as_axis(d + 1)];
    return chunk_pieces(box, info_.channels, chunk, bytes);
  }

  void read(const Box& box, double* planar) override { fill(dense_view(planar, box, info_.channels)); }
  void read_floats(const Box& box, float* planar) override { fill(dense_view(planar, box, info_.channels)); }
  void fill(const ArrayView& to) override {
    if (to.box.empty()) return;
    Extents start = start_, count(start_.size(), 1), stride(start_.size(), 0);
    for (std::size_t k = 0; k < 4; ++k) {
      if (axis_[k] < 0) continue;
      const std::size_t d = as_axis(k);
      start[d] = k == 0 ? 0 : to.box.lo()[k - 1];
      count[d] = k == 0 ? to.channels : to.box.extent(k - 1);
      stride[d] = k == 0 ? to.channel_stride : to.stride[k - 1];
    }
    if (to.type == ElementType::float64)
      array_.read(start, count, stride, static_cast<double*>(to.data));
    else
      array_.read(start, count, stride, static_cast<float*>(to.data));
  }

 private:
  using Extents = std::vector<std::int64_t>;
  std::size_t as_axis(std::size_t k) const { return static_cast<std::size_t>(axis_[k]); }
  std::int64_t extent(std::size_t k) const { return axis_[k] < 0 ? 1 : array_.meta().shape[as_axis(k)]; }
  std::string axis_names() const {
    std::string out;
    for (const ZarrAxis& axis : choice_.axes) out += concat(out.empty() ? "" : ", ", axis.name);
    return out;
  }
  // The finest level with all slices, rows and columns: what places in our text speak of.
  bool whole_grid() const {
    return choice_.finest && std::none_of(choice_.axes.begin(), choice_.axes.end(), [](const ZarrAxis& axis) {
             return axis.picked >= 0 && std::string_view("zyx").find(axis.letter) != std::string_view::npos;
           });
  }
  void note(const std::string& text) {
    if (!text.empty()) info_.note += concat(info_.note.empty() ? "" : "; ", text);
  }

  // Spacings of 1 without a unit are what writers put where nobody said any.
  void describe() {
    if (choice_.says.empty()) return;
    bool said = false;
    for (std::size_t k = 1; k < 4; ++k)
      if (axis_[k] >= 0) {
        const ZarrAxis& axis = choice_.axes[as_axis(k)];
        said = said || !axis.unit.empty() || (axis.scale > 0 && axis.scale != 1);
      }
    for (std::size_t k = 1; said && k < 4; ++k)
      if (axis_[k] >= 0 && choice_.axes[as_axis(k)].scale > 0) {
        info_.grid[k - 1].spacing = choice_.axes[as_axis(k)].scale;
        info_.grid[k - 1].unit = choice_.axes[as_axis(k)].unit;
      }
    std::vector<std::string> names = choice_.channel_names;
    for (const ZarrAxis& axis : choice_.axes)  // one of them is read
      if (axis.letter == 'c' && axis.picked >= 0 && axis.picked < std::ssize(names))
        names = {names[static_cast<std::size_t>(axis.picked)]};
    if (std::ssize(names) == info_.channels) info_.channel_names = names;
  }

  // What tessera wrote says which values were 0 and 1, and whether somebody named the channels.
  void read_ours() {
    const nlohmann::json& ours = choice_.ours;
    if (!ours.is_object()) return;
    if (!ours.contains("channel_names")) info_.channel_names.clear();
    const auto number = [&](const char* key, double otherwise) {
      return ours.contains(key) && ours[key].is_number() ? ours[key].get<double>() : otherwise;
    };
    info_.orientation = text(ours, "orientation");
    if (!ours.contains("factor")) return;
    info_.says_scale = true;
    info_.full_scale = number("factor", 0);
    info_.offset = number("offset", 0);
    const double gamma = number("gamma", 1);
    info_.light = {StoredLight::Says::curve,
                   gamma >= 0.2 && gamma <= 5 ? ToneCurve::power(gamma) : ToneCurve(), "its attributes"};
    if (text(ours, "curve") == "srgb") info_.light.curve = ToneCurve::srgb();
    TESSERA_VALIDATE(std::isfinite(info_.full_scale) && info_.full_scale > 0 && std::isfinite(info_.offset),
                     where_, ": its attributes factor and offset are ", info_.full_scale, " and ",
                     info_.offset,
                     " (its values of what is 1 and 0 inside, factor above 0) correct or remove them");
  }
  static std::string text(const nlohmann::json& object, const char* key) {
    return object.contains(key) && object[key].is_string() ? object[key].get<std::string>() : "";
  }

  // A chunk without a file is its fill value: of a store that was copied in part nothing else tells.
  void look_at_files() {
    const ZarrArray::Files files = array_.files();
    TESSERA_VALIDATE(files.found > 0, "cannot read ", where_, " (none of its chunks is stored, ",
                     choice_.array.folder, "/", array_.meta().key(Extents(start_.size(), 0)),
                     " and others) was the store copied whole?");
    if (files.found == files.looked) return;
    note(concat(
        files.looked - files.found, " of its ", files.looked,
        files.looked < files.all ? concat(" files that were looked at (of ", files.all, ")") : " files",
        " are not stored: they are its fill value, ", array_.meta().fill));
  }

  std::string where_;
  ZarrChoice choice_;
  ZarrArray array_;
  Extents start_;                            // positions along axes that are none of the image
  std::array<int, 4> axis_{-1, -1, -1, -1};  // channels, slices, rows, columns
};

}  // namespace

ImageFormat zarr_format() {
  ImageFormat f;
  f.name = "OME-Zarr";
  f.suffixes = {".ome.zarr", ".zarr"};
  f.parts = true;
  f.folder_mark = zarr_mark;
  f.open = [](const std::string& file, const std::string& part) {
    return std::make_unique<ZarrSource>(file, part);
  };
  f.list = list_zarr;
  f.create = create_zarr;
  f.shared = true;
  f.bits = {8, 16, 32, 64};
  f.volumes = true;
  f.picture = false;
  return f;
}

}  // namespace tessera::io
