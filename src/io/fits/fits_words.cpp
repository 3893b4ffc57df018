// SPDX-License-Identifier: BSD-3-Clause
#include "fits/fits_words.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <numbers>
#include <optional>
#include <string_view>
#include <utility>

#include "fits/fits_wcs.hpp"
#include "tessera/core/error.hpp"

namespace tessera::io {
namespace {

constexpr std::size_t kMostPairs = 256;  // of text that goes along with an image

std::string text_of(fitsfile* file, const std::string& key) {
  char value[FLEN_VALUE] = {};
  int status = 0;
  if (fits_read_key(file, TSTRING, key.c_str(), value, nullptr, &status)) fits_clear_errmsg();
  std::string text = status ? "" : value;
  char* all = nullptr;
  if (text.ends_with('&') && !fits_read_key_longstr(file, key.c_str(), &all, nullptr, &status)) text = all;
  if (all) fits_free_memory(all, &status);
  return text;
}

std::optional<double> number_of(fitsfile* file, const std::string& key) {
  double value = 0;
  int status = 0;
  if (fits_read_key(file, TDOUBLE, key.c_str(), &value, nullptr, &status)) fits_clear_errmsg();
  if (status || !std::isfinite(value)) return std::nullopt;
  return value;
}

bool one_of(const std::string& type, const std::vector<std::string_view>& known) {
  std::string name = type.substr(0, std::min(type.find('-'), type.size()));
  while (!name.empty() && name.back() == ' ') name.pop_back();
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::toupper(c); });
  return std::find(known.begin(), known.end(), name) != known.end();
}

// Whether the file's axis k runs along an axis of the world's and no other does: nothing beside the diagonal.
bool alone(fitsfile* file, const char* matrix, int k, int axes) {
  for (int other = 1; other <= axes; ++other) {
    if (other == k) continue;
    if (number_of(file, concat(matrix, k, '_', other)).value_or(0) != 0 ||
        number_of(file, concat(matrix, other, '_', k)).value_or(0) != 0)
      return false;
  }
  return true;
}

// Of a pixel along the file's axis k; 0: not known.
// Source: FITS 4.0, section 8.1: CD is the whole matrix, PC is times CDELT.
double step_of(fitsfile* file, int k, int axes) {
  if (!alone(file, "CD", k, axes) || !alone(file, "PC", k, axes)) return 0;
  if (const std::optional<double> cd = number_of(file, concat("CD", k, '_', k))) return *cd;
  return number_of(file, concat("CDELT", k)).value_or(0) *
         number_of(file, concat("PC", k, '_', k)).value_or(1);
}

// The world's unit along the file's axis k; that of places in the sky by the standard, where none is said.
std::string unit_of(fitsfile* file, int k) {
  const std::string unit = text_of(file, concat("CUNIT", k)), name = text_of(file, concat("CTYPE", k));
  if (!unit.empty()) return unit;
  for (const char* sky : {"RA--", "DEC-", "GLON", "GLAT", "ELON", "ELAT"})
    if (name.starts_with(sky)) return "deg";
  return "";
}

// How two axes of the file run on two axes of the world's of one unit, where these are turned: [world][file].
// Nothing for another grid.
std::optional<std::array<std::array<double, 2>, 2>> turned_axes(fitsfile* file, std::array<int, 2> k,
                                                                int axes) {
  const std::string unit = unit_of(file, k[0]);
  if (unit.empty() || unit != unit_of(file, k[1])) return std::nullopt;
  for (const char* matrix : {"CD", "PC"})
    for (int other = 1; other <= axes; ++other)
      for (const int own : k)
        if (other != k[0] && other != k[1] &&
            (number_of(file, concat(matrix, own, '_', other)).value_or(0) != 0 ||
             number_of(file, concat(matrix, other, '_', own)).value_or(0) != 0))
          return std::nullopt;
  const std::optional<double> crota = number_of(file, concat("CROTA", k[1]));
  bool whole = false, part = false;
  std::array<std::array<double, 2>, 2> cd{}, pc{};
  for (std::size_t i = 0; i < 2; ++i)
    for (std::size_t j = 0; j < 2; ++j) {
      const std::optional<double> c = number_of(file, concat("CD", k[i], '_', k[j])),
                                  p = number_of(file, concat("PC", k[i], '_', k[j]));
      whole = whole || c;
      part = part || p;
      cd[i][j] = c.value_or(0);
      pc[i][j] = number_of(file, concat("CDELT", k[i])).value_or(0) * p.value_or(i == j ? 1 : 0);
    }
  if (!whole && !part && crota) {  // as before FITS 3.0: steps along the file's axes, then the turn
    const double a = *crota * std::numbers::pi / 180, x = pc[0][0], y = pc[1][1];
    pc = {{{x * std::cos(a), -y * std::sin(a)}, {x * std::sin(a), y * std::cos(a)}}};
  }
  const auto& m = whole ? cd : pc;
  if (m[0][1] == 0 && m[1][0] == 0) return std::nullopt;
  return m;
}

// Sizes of pixels along two axes of the file that are turned on the world's, but stand upright on each other; 0: not
// known.
std::array<double, 2> turned_pixel(fitsfile* file, const std::array<int, 2>& k, int axes) {
  constexpr double kSame = 0.02;  // of a size, and of a right angle
  const auto m = turned_axes(file, k, axes);
  if (!m) return {};
  const auto& [a, b] = *m;
  const double first = std::hypot(a[0], b[0]), second = std::hypot(a[1], b[1]);
  if (!(first > 0 && second > 0) || std::abs(a[0] * a[1] + b[0] * b[1]) > kSame * first * second) return {};
  if (std::abs(first - second) > kSame * std::max(first, second)) return {first, second};
  const double mean = std::sqrt(first * second);
  return {mean, mean};
}

// Of a square pixel in seconds of arc, as point spread functions of telescopes have it where they stand on no sky
// (STPSF, poppy: that of the extension, oversampled or not); 0: not known, or of another unit.
double sky_pixel(fitsfile* file) {
  const std::string unit = text_of(file, "PIXUNIT");
  if (!unit.empty() && unit != "arcsec") return 0;
  for (const char* key : {"PIXELSCL", "PIXSCALE", "SECPIX"})
    if (const double size = number_of(file, key).value_or(0); size > 0) return size;
  const double area = number_of(file, "PIXAR_A2").value_or(0);  // of pixels that are turned on the sky
  return area > 0 ? std::sqrt(area) : 0;
}

// Sizes of pixels of the sensor along rows and columns in micrometers, binning included, as cameras of amateurs write
// them; 0: not known.
// Source: SBIG's FITS extensions, which MaxIm DL, NINA and others follow.
std::array<double, 2> sensor_pixel(fitsfile* file) {
  const double x = number_of(file, "XPIXSZ").value_or(0), y = number_of(file, "YPIXSZ").value_or(x);
  return x > 0 && y > 0 ? std::array{y, x} : std::array<double, 2>{};
}

// "[1:128,1:120]": columns and rows, counted from 1. Nothing where it does not lie in the image.
std::optional<Box> section_of(const std::string& text, std::int64_t height, std::int64_t width) {
  std::array<long long, 4> n{};
  char end = 0;
  if (std::sscanf(text.c_str(), " [ %lld : %lld , %lld : %lld %c", n.data(), &n[1], &n[2], &n[3], &end) !=
          5 ||
      end != ']')
    return std::nullopt;
  if (n[0] > n[1]) std::swap(n[0], n[1]);
  if (n[2] > n[3]) std::swap(n[2], n[3]);
  if (n[0] < 1 || n[2] < 1 || n[1] > width || n[3] > height) return std::nullopt;
  return Box({0, n[2] - 1, n[0] - 1}, {1, n[3], n[1]});
}

}  // namespace

bool is_spectral(const std::string& type) {
  return is_color(type) || one_of(type, {"FREQ", "ENER", "WAVN", "VRAD", "WAVE", "VOPT", "ZOPT", "AWAV",
                                         "VELO", "BETA", "FELO", "STOKES", "COMPLEX", "LAMBDA", "WAVELENGTH",
                                         "WAVELEN", "FREQUENCY", "ENERGY", "SPECTRAL"});
}
bool is_color(const std::string& type) {
  return one_of(type, {"RGB", "CHANNEL", "CHANNELS", "BAND", "BANDS", "FILTER", "COLOR"});
}
bool is_time(const std::string& type) {
  return one_of(type, {"TIME", "UTC", "TAI", "TT", "UT1", "TDB", "TCB", "TCG", "GPS", "FRAME", "FRAMES"});
}

std::vector<std::string> fits_channel_names(fitsfile* file, std::int64_t count) {
  std::vector<std::string> out;
  for (std::int64_t k = 1; k <= count; ++k) {
    out.push_back(text_of(file, concat("CHAN", k)));
    if (out.back().empty()) return {};
  }
  return out;
}
bool is_channel_key(const std::string& key) {
  return key.starts_with("CHAN") && key.size() > 4 &&
         key.find_first_not_of("0123456789", 4) == std::string::npos;
}

FitsSections fits_sections(fitsfile* file, std::int64_t height, std::int64_t width) {
  FitsSections out;
  const Box all = Box::image2d(height, width);
  const auto add = [&](std::int64_t top, std::int64_t bottom, std::int64_t left, std::int64_t right) {
    if (top < bottom && left < right)
      out.unexposed.emplace_back(Index3{0, top, left}, Index3{1, bottom, right});
  };
  for (const char* key : {"TRIMSEC", "DATASEC", "BIASSEC"}) {
    const std::string text = text_of(file, key);
    const std::optional<Box> part = section_of(text, height, width);
    if (!part) continue;
    if (*part == all) return {};
    const Index3 &lo = part->lo(), &hi = part->hi();
    const bool bias = std::string_view(key) == "BIASSEC";
    if (bias) {
      add(lo[1], hi[1], lo[2], hi[2]);
    } else {
      add(0, lo[1], 0, width);
      add(hi[1], height, 0, width);
      add(lo[1], hi[1], 0, lo[2]);
      add(lo[1], hi[1], hi[2], width);
    }
    out.note = concat(bias ? "what lies in " : "what lies outside of ", text,
                      " was not exposed, as its header says (", key, "), and is not measured");
    return out;
  }
  return out;
}

FitsWords fits_words(fitsfile* file, const std::array<int, 3>& numbers) {
  FitsWords out;
  int axes = 0, status = 0;
  fits_get_img_dim(file, &axes, &status);
  const std::array<double, 2> turned = status == 0 && numbers[0] > 0 && numbers[1] > 0
                                           ? turned_pixel(file, {numbers[0], numbers[1]}, axes)
                                           : std::array<double, 2>{};
  for (std::size_t k = 0; k < 3 && status == 0; ++k) {
    if (numbers[k] == 0 || (k < 2 && turned[0] > 0)) continue;
    ImageSpace::Axis& axis = out.grid[2 - k];
    const std::string name = text_of(file, concat("CTYPE", numbers[k]));
    const double step = step_of(file, numbers[k], axes);
    if (!name.empty()) axis.name = name;
    if (step == 0) continue;
    axis.spacing = std::abs(step);
    axis.unit = unit_of(file, numbers[k]);
    out.directions += concat(out.directions.empty() ? "" : " ", step < 0 ? '-' : '+', axis.name);
  }
  for (const std::size_t k : {std::size_t{0}, std::size_t{1}})  // these run along no axis of the world's
    if (turned[k] > 0) {
      out.grid[2 - k].spacing = turned[k];
      out.grid[2 - k].unit = unit_of(file, numbers[k]);
    }
  const bool said =
      std::any_of(out.grid.begin(), out.grid.end(), [](const auto& axis) { return axis.spacing > 0; });
  if (said) return out;
  const double sky = sky_pixel(file);
  const std::array<double, 2> sensor = sky > 0 ? std::array<double, 2>{} : sensor_pixel(file);
  for (const std::size_t d : {std::size_t{1}, std::size_t{2}}) {
    if (!(std::max(sky, sensor[d - 1]) > 0)) continue;
    out.grid[d] = ImageSpace().grid[d];  // it runs along no axis of the sky
    out.grid[d].spacing = std::max(sky, sensor[d - 1]);
    out.grid[d].unit = sky > 0 ? "arcsec" : "um";
  }
  return out;
}

std::vector<std::pair<std::string, std::string>> fits_text(fitsfile* file) {
  std::vector<std::pair<std::string, std::string>> out;
  int cards = 0, more = 0, status = 0;
  fits_get_hdrspace(file, &cards, &more, &status);
  for (int k = 1; k <= cards && status == 0; ++k) {
    char card[FLEN_CARD] = {}, key[FLEN_KEYWORD] = {}, raw[FLEN_VALUE] = {};
    int length = 0, bad = 0;
    fits_read_record(file, k, card, &status);
    const int kind = fits_get_keyclass(card);
    if (kind != TYP_USER_KEY && kind != TYP_REFSYS_KEY && kind != TYP_UNIT_KEY) continue;
    if (fits_get_keyname(card, key, &length, &bad) || fits_parse_value(card, raw, nullptr, &bad) || !raw[0]) {
      fits_clear_errmsg();
      continue;
    }
    if (kind == TYP_USER_KEY && is_wcs_key(key)) continue;  // of a distortion
    // Bits of flags (LSST) stand at the end of long headers.
    if (out.size() >= kMostPairs &&
        !(std::string_view(key).starts_with("MP_") && out.size() < 2 * kMostPairs))
      continue;
    if (const std::string text = text_of(file, key); !text.empty()) out.emplace_back(key, text);
  }
  fits_clear_errmsg();
  return out;
}

std::vector<std::string> fits_cards(fitsfile* file) {
  constexpr std::size_t kMostCards = 1024;
  std::vector<std::string> out;
  int cards = 0, more = 0, status = 0;
  fits_get_hdrspace(file, &cards, &more, &status);
  for (int k = 1; k <= cards && status == 0 && out.size() < kMostCards; ++k) {
    char card[FLEN_CARD] = {};
    fits_read_record(file, k, card, &status);
    const std::string text = card;
    if (is_wcs_key(card_key(text)) || !wcs_tables({text}).empty()) out.push_back(text);
  }
  fits_clear_errmsg();
  return out;
}

}  // namespace tessera::io
