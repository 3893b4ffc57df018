// SPDX-License-Identifier: BSD-3-Clause
// Source: zarr-specs, versions 2 and 3.1; codecs bytes, transpose, blosc, gzip, zstd, crc32c, sharding_indexed 1.0.
#include "zarr/zarr_meta.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <numeric>

#include "array_axes.hpp"
#include "half.hpp"
#include "tessera/core/error.hpp"
#include "tessera/io/posix_file.hpp"

namespace tessera::io {
namespace {

using Json = nlohmann::json;
constexpr std::int64_t kMostMetadata = 64 << 20;  // bytes
constexpr std::int64_t kMostChunk =
    std::numeric_limits<std::int32_t>::max() - 1024;  // bytes, as blosc has it
constexpr std::size_t kMostAxes = 16;

struct Reading {
  const std::string& folder;
  [[noreturn]] void refuse(const std::string& problem, const std::string& why,
                           const std::string& what) const {
    throw InputError(concat("cannot read ", folder, ": ", problem, " (", why, ") ", what));
  }
  // What the array is to be made with where its codecs or types are not known.
  [[noreturn]] void unknown(const std::string& problem, const std::string& known) const {
    refuse(problem, known, "write it again with zarr");
  }
};

Json parsed(const std::string& file) {
  const InputFile in(file);
  TESSERA_VALIDATE(in.size() <= kMostMetadata, "cannot read ", file, " (it has ", in.size(),
                   " bytes, metadata have at most ", kMostMetadata, ") is it the right file?");
  std::string text(static_cast<std::size_t>(in.size()), '\0');
  in.read(0, in.size(), text.data());
  Json out = Json::parse(text, nullptr, false);
  TESSERA_VALIDATE(out.is_object(), "cannot read ", file, " (it is no object of JSON) copy the store again");
  return out;
}

const Json& member(const Json& object, const char* key) {
  static const Json none;
  const auto found = object.is_object() ? object.find(key) : object.end();
  return object.is_object() && found != object.end() ? *found : none;
}

std::string text_of(const Json& value) { return value.is_string() ? value.get<std::string>() : ""; }

std::vector<std::int64_t> lengths_of(const Json& list, const Reading& r, const char* what) {
  std::vector<std::int64_t> out;
  if (list.is_array() && list.size() <= kMostAxes)
    for (const Json& n : list)
      if (n.is_number_unsigned() || (n.is_number_integer() && n.get<std::int64_t>() > 0))
        out.push_back(n.get<std::int64_t>());
  if (!list.is_array() || out.size() != list.size() || out.empty() ||
      std::any_of(out.begin(), out.end(), [](std::int64_t n) { return n <= 0; }))
    r.refuse(concat("its ", what, " is ", list.dump().substr(0, 80)),
             concat("1 to ", kMostAxes, " lengths above 0 are needed"), "write it again");
  return out;
}

std::int64_t product(const std::vector<std::int64_t>& lengths, std::int64_t bytes, std::int64_t most,
                     const Reading& r, const char* what) {
  for (const std::int64_t n : lengths)
    if (__builtin_mul_overflow(bytes, n, &bytes) || bytes > most)
      r.refuse(concat("its ", what, " ", shape_text(lengths), " has more than ", most, " bytes"),
               "no reader holds that", "write it in smaller chunks");
  return bytes;
}

// <u2, >f4, |b1 of format 2; uint16 of format 3.
void read_type(const Json& value, ZarrMeta& m, const Reading& r) {
  std::string type = text_of(value);
  if (type.size() == 3 && std::strchr("<>|", type[0])) {
    m.swapped = type[0] == '>' && std::endian::native == std::endian::little;
    const char* const kind = type[1] == 'u'   ? "uint"
                             : type[1] == 'i' ? "int"
                             : type[1] == 'f' ? "float"
                             : type[1] == 'b' ? "bool"
                                              : "";
    const int bytes = type[2] - '0';
    type = kind == std::string("bool") ? (bytes == 1 ? "bool" : "") : kind[0] ? concat(kind, 8 * bytes) : "";
  }
  static constexpr std::pair<const char*, int> kKnown[] = {
      {"bool", 1},  {"uint8", 1},  {"int8", 1},  {"uint16", 2},  {"int16", 2},   {"uint32", 4},
      {"int32", 4}, {"uint64", 8}, {"int64", 8}, {"float16", 2}, {"float32", 4}, {"float64", 8}};
  for (const auto& [name, bytes] : kKnown)
    if (type == name) {
      m.type = type;
      m.element = bytes;
      return;
    }
  r.refuse("its type is " + value.dump().substr(0, 60),
           "bool, integers of 8 to 64 bits, float16, float32 and float64 are known", "convert it");
}

double bits_as_float(std::uint64_t bits, std::int64_t bytes) {
  if (bytes == 2) return half_value(static_cast<std::uint16_t>(bits));
  if (bytes == 4) return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
  return std::bit_cast<double>(bits);
}

double fill_of(const Json& value, const ZarrMeta& m, const Reading& r) {
  if (value.is_null()) return 0;
  if (value.is_boolean()) return value.get<bool>() ? 1 : 0;
  if (value.is_number()) return value.get<double>();
  const std::string text = text_of(value);
  if (text == "NaN") return std::numeric_limits<double>::quiet_NaN();
  if (text == "Infinity" || text == "-Infinity") return text[0] == '-' ? -HUGE_VAL : HUGE_VAL;
  if (text.starts_with("0x") && text.size() == 2 + 2 * static_cast<std::size_t>(m.element) &&
      text.find_first_not_of("0123456789abcdefABCDEF", 2) == std::string::npos)
    return bits_as_float(std::stoull(text.substr(2), nullptr, 16), m.element);
  r.refuse("its fill_value is " + value.dump().substr(0, 60), "a number is needed", "write it again");
}

ZarrCodec codec_named(const std::string& name, const Reading& r) {
  static constexpr std::pair<const char*, ZarrCodec> kKnown[] = {
      {"gzip", ZarrCodec::gzip}, {"zlib", ZarrCodec::zlib},   {"numcodecs.zlib", ZarrCodec::zlib},
      {"zstd", ZarrCodec::zstd}, {"blosc", ZarrCodec::blosc}, {"crc32c", ZarrCodec::crc32c}};
  for (const auto& [known, codec] : kKnown)
    if (name == known) {
      if (!has_codec(codec))
        throw InputError(concat("cannot read ", r.folder, ": it needs ", codec_advice(codec)));
      return codec;
    }
  r.unknown(concat("it is packed by ", name.empty() ? "a codec without a name" : name),
            "blosc, zstd, gzip, zlib and crc32c are known");
}

// Codecs of format 3: of an array to an array, to bytes, and of bytes.
struct Chain {
  std::vector<std::size_t> order;
  bool swapped = false;
  const Json* sharding = nullptr;  // its configuration
  std::vector<ZarrCodec> bytes;
};

std::vector<std::size_t> order_of(const Json& settings, const std::vector<std::size_t>& before,
                                  const Reading& r) {
  const Json& list = member(settings, "order");
  std::vector<std::size_t> out;
  if (list.is_array() && list.size() == before.size())
    for (const Json& k : list)
      if (k.is_number_unsigned() && k.get<std::uint64_t>() < before.size())
        out.push_back(before[k.get<std::size_t>()]);
  std::vector<std::size_t> sorted = out;
  std::sort(sorted.begin(), sorted.end());
  if (out.size() != before.size() || std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end())
    r.refuse("its codec transpose has the order " + list.dump().substr(0, 60), "each axis once is needed",
             "write it again");
  return out;
}

Chain chain_of(const Json& codecs, std::size_t axes, const Reading& r) {
  Chain out;
  out.order.resize(axes);
  std::iota(out.order.begin(), out.order.end(), 0U);
  bool in_bytes = false;
  if (!codecs.is_array()) r.unknown("it has no list of codecs", "format 3 needs one");
  for (const Json& one : codecs) {
    const std::string name = one.is_string() ? one.get<std::string>() : text_of(member(one, "name"));
    const Json& settings = member(one, "configuration");
    if (name == "transpose" && !in_bytes) {
      out.order = order_of(settings, out.order, r);
    } else if (name == "bytes" && !in_bytes) {
      const std::string endian = text_of(member(settings, "endian"));
      out.swapped = endian == "big" && std::endian::native == std::endian::little;
      in_bytes = true;
    } else if (name == "sharding_indexed" && !in_bytes) {
      out.sharding = &settings;
      in_bytes = true;
    } else if (in_bytes) {
      out.bytes.push_back(codec_named(name, r));
    } else {
      r.unknown(concat("its codec ", name.empty() ? "without a name" : name),
                "transpose, bytes and sharding_indexed are known where arrays become bytes");
    }
  }
  if (!in_bytes)
    r.unknown("none of its codecs makes bytes of an array", "bytes or sharding_indexed is needed");
  return out;
}

void read_sharding(const Chain& outer, ZarrMeta& m, const Reading& r) {
  const Json& settings = *outer.sharding;
  m.shard = m.chunk;
  m.chunk = lengths_of(member(settings, "chunk_shape"), r, "shards' chunk_shape");
  bool divides = m.chunk.size() == m.shard.size();
  for (std::size_t d = 0; divides && d < m.chunk.size(); ++d) divides = m.shard[d] % m.chunk[d] == 0;
  if (!divides)
    r.refuse(concat("its chunks are ", shape_text(m.chunk), ", its shards ", shape_text(m.shard)),
             "shards hold whole chunks", "write it again");
  std::vector<std::size_t> plain(m.chunk.size());
  std::iota(plain.begin(), plain.end(), 0U);
  const Chain inner = chain_of(member(settings, "codecs"), m.chunk.size(), r);
  const Chain index = chain_of(member(settings, "index_codecs"), m.chunk.size() + 1, r);
  if (inner.sharding || index.sharding || outer.order != plain)
    r.unknown("its shards hold shards, or are turned", "chunks in shards as they stand are known");
  const auto fixed = [](ZarrCodec c) { return c != ZarrCodec::crc32c; };
  if (index.swapped || std::any_of(index.bytes.begin(), index.bytes.end(), fixed))
    r.unknown("the index of its shards is packed", "little-endian bytes and crc32c are known");
  const Json& place = member(settings, "index_location");
  if (!place.is_null() && place != "start" && place != "end")
    r.unknown("the index of its shards stands at " + place.dump(), "start and end are known");
  m.index_first = place == "start";
  if (!outer.bytes.empty()) r.unknown("its shards are packed once more", "shards of packed chunks are known");
  m.index_codecs = index.bytes;
  m.order = inner.order;
  m.swapped = inner.swapped;
  m.codecs = inner.bytes;
}

void read_format_3(const Json& about, ZarrMeta& m, const Reading& r) {
  const Json& grid = member(about, "chunk_grid");
  if (member(grid, "name") != "regular")
    r.unknown("its chunk_grid is " + member(grid, "name").dump().substr(0, 40), "regular is known");
  m.chunk = lengths_of(member(member(grid, "configuration"), "chunk_shape"), r, "chunk_shape");
  read_type(member(about, "data_type"), m, r);
  const Json& keys = member(about, "chunk_key_encoding");
  const bool plain = keys.is_string() ? keys == "default" : member(keys, "name") == "default";
  if (!plain && member(keys, "name") != "v2")
    r.unknown("its chunk_key_encoding is " + keys.dump().substr(0, 40), "default and v2 are known");
  const std::string separator = text_of(member(member(keys, "configuration"), "separator"));
  m.separator = separator.empty() ? (plain ? '/' : '.') : separator[0];
  if (separator.size() > 1 || (m.separator != '/' && m.separator != '.'))
    r.unknown("its separator is " + separator, "/ and . are known");
  m.key_prefix = plain ? concat("c", m.separator) : "";
  if (const Json& more = member(about, "storage_transformers"); more.is_array() && !more.empty())
    r.unknown("it has storage_transformers", "none are known");
  const Chain chain = chain_of(member(about, "codecs"), m.chunk.size(), r);
  m.order = chain.order;
  m.swapped = chain.swapped;
  m.codecs = chain.bytes;
  if (chain.sharding) read_sharding(chain, m, r);
  m.swapped = m.swapped && m.element > 1;
  if (const Json& names = member(about, "dimension_names");
      names.is_array() && names.size() == m.chunk.size())
    for (const Json& name : names) m.names.push_back(text_of(name));
}

void read_format_2(const ZarrNode& node, ZarrMeta& m, const Reading& r) {
  const Json& about = node.about;
  m.chunk = lengths_of(member(about, "chunks"), r, "chunks");
  read_type(member(about, "dtype"), m, r);
  if (const Json& filters = member(about, "filters"); filters.is_array() && !filters.empty())
    r.unknown("it has the filters " + filters.dump().substr(0, 60), "none are known");
  if (const Json& compressor = member(about, "compressor"); !compressor.is_null())
    m.codecs = {codec_named(text_of(member(compressor, "id")), r)};
  m.order.resize(m.chunk.size());
  std::iota(m.order.begin(), m.order.end(), 0U);
  if (const Json& order = member(about, "order"); order == "F")
    std::reverse(m.order.begin(), m.order.end());
  else if (order != "C")
    r.refuse("its order is " + order.dump().substr(0, 40), "C or F is needed", "write it again");
  const Json& separator = member(about, "dimension_separator");
  if (!separator.is_null() && separator != "." && separator != "/")
    r.unknown("its dimension_separator is " + separator.dump().substr(0, 40), "/ and . are known");
  m.separator = separator == "/" ? '/' : '.';
  // xarray's names of the axes.
  if (const Json& names = member(node.attributes, "_ARRAY_DIMENSIONS");
      names.is_array() && names.size() == m.chunk.size())
    for (const Json& name : names) m.names.push_back(text_of(name));
}

}  // namespace

std::string zarr_mark(const std::string& folder) {
  std::error_code none;
  for (const char* name : {"/zarr.json", "/.zattrs", "/.zgroup", "/.zarray"})
    if (std::filesystem::is_regular_file(folder + name, none)) return folder + name;
  return "";
}

ZarrNode zarr_node(const std::string& folder) {
  std::error_code none;
  const auto has = [&](const char* name) { return std::filesystem::is_regular_file(folder + name, none); };
  ZarrNode out{folder, 0, false, {}, Json::object()};
  if (has("/zarr.json")) {
    out.format = 3;
    out.about = parsed(folder + "/zarr.json");
    TESSERA_VALIDATE(member(out.about, "zarr_format") == 3, "cannot read ", folder,
                     "/zarr.json (its zarr_format is ", member(out.about, "zarr_format").dump().substr(0, 40),
                     ", 3 is known) write it again");
    out.array = member(out.about, "node_type") == "array";
    if (member(out.about, "attributes").is_object()) out.attributes = out.about["attributes"];
  } else if (has("/.zarray") || has("/.zgroup")) {
    out.format = 2;
    out.array = has("/.zarray");
    if (out.array) out.about = parsed(folder + "/.zarray");
    if (has("/.zattrs")) out.attributes = parsed(folder + "/.zattrs");
  }
  return out;
}

ZarrMeta zarr_meta(const ZarrNode& node) {
  const Reading r{node.folder};
  ZarrMeta m;
  m.shape = lengths_of(member(node.about, "shape"), r, "shape");
  if (node.format == 3)
    read_format_3(node.about, m, r);
  else
    read_format_2(node, m, r);
  if (m.chunk.size() != m.shape.size())
    r.refuse(concat("its chunks are ", shape_text(m.chunk), ", its shape ", shape_text(m.shape)),
             "they have other numbers of axes", "write it again");
  product(m.shape, m.element, std::numeric_limits<std::int64_t>::max() / 16, r, "shape");
  product(m.chunk, m.element, kMostChunk, r, "chunk");
  if (!m.shard.empty()) {
    constexpr std::int64_t kMostInShard = 1 << 24;
    product(m.shard, m.element, std::numeric_limits<std::int64_t>::max() / 16, r, "shard");
    if (m.chunks_per_shard() > kMostInShard)
      r.refuse(concat("its shards hold ", m.chunks_per_shard(), " chunks"),
               concat(kMostInShard, " is the limit"), "write it in smaller shards");
  }
  m.fill = fill_of(member(node.about, "fill_value"), m, r);
  return m;
}

std::int64_t ZarrMeta::chunk_bytes() const {
  std::int64_t bytes = element;
  for (const std::int64_t n : chunk) bytes *= n;
  return bytes;
}

std::int64_t ZarrMeta::chunks_per_shard() const {
  std::int64_t count = 1;
  for (std::size_t d = 0; d < shard.size(); ++d) count *= shard[d] / chunk[d];
  return count;
}

std::string ZarrMeta::key(const std::vector<std::int64_t>& index) const {
  std::string out = key_prefix;
  for (std::size_t d = 0; d < index.size(); ++d) {
    if (d > 0) out += separator;
    out += std::to_string(index[d]);
  }
  return out;
}

}  // namespace tessera::io
