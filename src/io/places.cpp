// SPDX-License-Identifier: BSD-3-Clause
#include "places.hpp"

#include <charconv>
#include <cmath>
#include <cstdlib>

#include "fits/fits_wcs.hpp"
#include "tiff/tiff_geo.hpp"

namespace tessera::io {

bool is_place(const std::string& key) {
  return key == kTranslation || key == kAffine || key == kWcs || is_geo_place(key);
}

std::vector<double> numbers_of(const PlaceTexts& texts, const std::string& key, std::size_t count) {
  std::vector<double> out;
  for (const auto& [name, text] : texts) {
    if (name != key || !out.empty()) continue;
    char* end = nullptr;
    for (const char* at = text.c_str(); out.size() <= count; at = end) {
      const double value = std::strtod(at, &end);
      if (end == at) break;
      out.push_back(value);
    }
  }
  return out.size() == count ? out : std::vector<double>();
}

std::string number_text(const std::vector<double>& numbers) {
  std::string out;
  for (const double value : numbers) {
    char text[32];
    out.append(out.empty() ? "" : " ").append(text, std::to_chars(text, text + sizeof text, value).ptr);
  }
  return out;
}

void move_place(PlaceTexts& texts, const ImageSpace& space) {
  std::array<double, 3> spacing{}, first{};
  for (std::size_t d = 0; d < 3; ++d) {
    spacing[d] = space.grid[d].spacing;
    first[d] = static_cast<double>(space.box.lo()[d]);
  }
  move_place(texts, spacing, {1, 1, 1}, first);
}

void move_place(PlaceTexts& texts, const std::array<double, 3>& spacing, const std::array<double, 3>& step,
                const std::array<double, 3>& first) {
  const bool same = step == std::array<double, 3>{1, 1, 1};
  if (same && first == std::array<double, 3>{}) return;
  if (same)
    move_geo(texts, {static_cast<std::int64_t>(first[0]), static_cast<std::int64_t>(first[1]),
                     static_cast<std::int64_t>(first[2])});
  else
    std::erase_if(texts, [](const auto& pair) { return is_geo_place(pair.first); });
  const std::vector<double> place = numbers_of(texts, kTranslation, 3),
                            affine = numbers_of(texts, kAffine, 12);
  for (auto& [key, text] : texts) {
    if (key == kWcs) text = moved_wcs(text, {step[2], step[1], step[0]}, {first[2], first[1], first[0]});
    if (key == kTranslation && !place.empty()) {
      std::vector<double> moved = place;
      for (std::size_t d = 0; d < 3; ++d) moved[d] += first[d] * (spacing[d] > 0 ? spacing[d] : 1);
      text = number_text(moved);
    }
    if (key == kAffine && !affine.empty()) {
      std::vector<double> moved = affine;
      for (std::size_t r = 0; r < 3; ++r)
        for (std::size_t c = 0; c < 3; ++c) {
          moved[4 * r + 3] += affine[4 * r + c] * first[2 - c];
          moved[4 * r + c] *= step[2 - c];
        }
      text = number_text(moved);
    }
  }
}

std::string directions_of(const std::vector<double>& affine) {
  std::string out;
  for (std::size_t c = 0; c < 3 && !affine.empty(); ++c) {
    std::size_t most = 0;
    for (std::size_t r = 1; r < 3; ++r)
      if (std::abs(affine[4 * r + c]) > std::abs(affine[4 * most + c])) most = r;
    out += affine[4 * most + c] >= 0 ? "RAS"[most] : "LPI"[most];
  }
  return out;
}

double meters_of(const std::string& unit) {
  static const std::vector<std::pair<double, std::vector<const char*>>> known{
      {1e-12, {"pm"}},
      {1e-10, {"\u00c5", "\u212b", "A", "angstrom"}},
      {1e-9, {"nm", "nanometer"}},
      {1e-6, {"\u00b5m", "\u03bcm", "um", "micron", "micrometer"}},
      {1e-3, {"mm", "millimeter"}},
      {1e-2, {"cm", "centimeter"}},
      {0.0254, {"in", "inch"}},
      {1, {"m", "meter"}}};
  for (const auto& [meters, words] : known)
    for (const char* word : words)
      if (unit == word) return meters;
  return 0;
}

}  // namespace tessera::io
