// SPDX-License-Identifier: BSD-3-Clause
#include "tiff/tiff_geo.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "tessera/core/error.hpp"

namespace tessera::io {
namespace {

enum class Kind { numbers, counts, text };
struct GeoTag {
  std::uint32_t tag;
  const char* key;
  Kind kind;
  bool place = true;
};
// In the order of their names, as HDF5 gives attributes.
constexpr std::array<GeoTag, 8> kTags{{{42112, "GDAL_METADATA", Kind::text, false},
                                       {42113, "GDAL_NODATA", Kind::text, false},
                                       {34737, "GeoAsciiParams", Kind::text},
                                       {34736, "GeoDoubleParams", Kind::numbers},
                                       {34735, "GeoKeyDirectory", Kind::counts},
                                       {33550, "ModelPixelScale", Kind::numbers},
                                       {33922, "ModelTiepoint", Kind::numbers},
                                       {34264, "ModelTransformation", Kind::numbers}}};
constexpr std::size_t kMost = 65536;  // characters or numbers of a tag

const GeoTag* tag_of(const std::string& key) {
  const auto* const found =
      std::find_if(kTags.begin(), kTags.end(), [&](const GeoTag& t) { return key == t.key; });
  return found == kTags.end() ? nullptr : found;
}

template <class T>
std::string listed(const T* values, std::size_t n) {
  std::string out;
  for (std::size_t k = 0; k < n; ++k) {
    char text[32];
    out.append(k > 0 ? " " : "").append(text, std::to_chars(text, text + sizeof text, values[k]).ptr);
  }
  return out;
}

template <class T>
std::vector<T> numbers_in(const std::string& text) {
  std::vector<T> out;
  for (const char* at = text.c_str(); *at != '\0';) {
    char* end = nullptr;
    const double value = std::strtod(at, &end);
    if (end == at) break;
    out.push_back(static_cast<T>(value));
    at = end;
  }
  return out;
}

// The number that an item of GDAL's description of a band holds in this role.
double item(std::string_view xml, std::string_view role, double otherwise) {
  const std::size_t at = xml.find(concat("role=\"", role, "\""));
  const std::size_t from = at == xml.npos ? at : xml.find('>', at);
  if (from == xml.npos) return otherwise;
  const std::string text(xml.substr(from + 1, xml.find('<', from) - from - 1));
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  return end == text.c_str() ? otherwise : value;
}

}  // namespace

Texts geo_texts(TIFF* tiff) {
  Texts out;
  for (const GeoTag& one : kTags) {
    const TIFFField* const field = TIFFFindField(tiff, one.tag, TIFF_ANY);
    std::uint32_t count = 0;
    const void* values = nullptr;
    if (!field || !TIFFFieldPassCount(field) || !TIFFGetField(tiff, one.tag, &count, &values) || !values ||
        count == 0 || count > kMost)
      continue;
    const TIFFDataType type = TIFFFieldDataType(field);
    std::string text;
    if (one.kind == Kind::numbers && type == TIFF_DOUBLE)
      text = listed(static_cast<const double*>(values), count);
    else if (one.kind == Kind::counts && type == TIFF_SHORT)
      text = listed(static_cast<const std::uint16_t*>(values), count);
    else if (one.kind == Kind::text && type == TIFF_ASCII)
      text = {static_cast<const char*>(values),
              std::find(static_cast<const char*>(values), static_cast<const char*>(values) + count, '\0')};
    if (!text.empty()) out.emplace_back(one.key, text);
  }
  return out;
}

void set_geo_tags(TIFF* tiff, const Texts& texts) {
  static const std::array<TIFFFieldInfo, kTags.size()> fields = [] {
    std::array<TIFFFieldInfo, kTags.size()> out{};
    for (std::size_t k = 0; k < kTags.size(); ++k) {
      const GeoTag& t = kTags[k];
      const bool text = t.kind == Kind::text;
      const auto type = text ? TIFF_ASCII : t.kind == Kind::counts ? TIFF_SHORT : TIFF_DOUBLE;
      const short many = text ? TIFF_VARIABLE : TIFF_VARIABLE2;
      out[k] = {t.tag,
                many,
                many,
                type,
                FIELD_CUSTOM,
                1,
                text ? std::uint8_t{0} : std::uint8_t{1},
                const_cast<char*>(t.key)};
    }
    return out;
  }();
  if (std::none_of(texts.begin(), texts.end(), [](const auto& pair) { return is_geo(pair.first); })) return;
  TIFFMergeFieldInfo(tiff, fields.data(), static_cast<std::uint32_t>(fields.size()));
  for (const auto& [key, text] : texts) {
    const GeoTag* const one = tag_of(key);
    if (!one) continue;
    if (one->kind == Kind::text) {
      TIFFSetField(tiff, one->tag, text.c_str());
    } else if (one->kind == Kind::counts) {
      const std::vector<std::uint16_t> values = numbers_in<std::uint16_t>(text);
      if (!values.empty())
        TIFFSetField(tiff, one->tag, static_cast<std::uint32_t>(values.size()), values.data());
    } else {
      const std::vector<double> values = numbers_in<double>(text);
      if (!values.empty())
        TIFFSetField(tiff, one->tag, static_cast<std::uint32_t>(values.size()), values.data());
    }
  }
}

bool is_geo(const std::string& key) { return tag_of(key) != nullptr; }
bool is_geo_place(const std::string& key) {
  const GeoTag* const one = tag_of(key);
  return one && one->place;
}

void move_geo(Texts& texts, const Index3& first) {
  const auto x = static_cast<double>(first[2]), y = static_cast<double>(first[1]);
  if (x == 0 && y == 0) return;
  for (auto& [key, text] : texts) {
    const bool matrix = key == "ModelTransformation";
    if (!matrix && key != "ModelTiepoint") continue;
    std::vector<double> v = numbers_in<double>(text);
    for (std::size_t k = 0; !matrix && k + 6 <= v.size(); k += 6) {  // column, row, slice; x, y, z there
      v[k] -= x;
      v[k + 1] -= y;
    }
    for (std::size_t k = 0; matrix && k + 4 <= v.size(); k += 4) v[k + 3] += v[k] * x + v[k + 1] * y;
    text = listed(v.data(), v.size());
  }
}

std::string scale_note(const Texts& texts) {
  for (const auto& [key, text] : texts) {
    if (key != "GDAL_METADATA") continue;
    const double scale = item(text, "scale", 1), offset = item(text, "offset", 0);
    if (scale != 1 || offset != 0)
      return concat("samples are taken as stored: GDAL's scale ", scale, " and offset ", offset,
                    " of the values are not applied, and go along");
  }
  return "";
}

}  // namespace tessera::io
