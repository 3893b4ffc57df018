// SPDX-License-Identifier: BSD-3-Clause
#include "job/pixel_sizes.hpp"

#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "tessera/core/error.hpp"

namespace tessera {
namespace {

constexpr double kPrinted = 4e-6;     // meters, a dot of a picture that is printed
constexpr double kSame = 0.02;        // of a spacing: what headers round
constexpr std::int64_t kMost = 4096;  // taps a side

// A unit in meters or radians; 0: another.
struct Unit {
  double size = 0;
  char kind = ' ';  // of length, angle, or a word that only equals itself
};
Unit unit_of(std::string text) {
  std::erase(text, ' ');
  static const std::map<std::string, Unit> known = [] {
    std::map<std::string, Unit> out;
    const auto add = [&](double size, char kind, std::initializer_list<const char*> words) {
      for (const char* word : words) out[word] = {size, kind};
    };
    add(1e-10, 'l', {"A", "\u00c5", "\u212b", "angstrom", "Angstrom", "angstroms"});
    add(1e-9, 'l', {"nm", "nanometer", "nanometers", "nanometre", "nanometres"});
    add(1e-6, 'l',
        {"um", "\u00b5m", "\u03bcm", "micron", "microns", "micrometer", "micrometers", "micrometre"});
    add(1e-3, 'l', {"mm", "millimeter", "millimeters", "millimetre"});
    add(1e-2, 'l', {"cm", "centimeter", "centimeters"});
    add(0.0254, 'l', {"in", "inch", "inches"});
    add(1, 'l', {"m", "meter", "meters", "metre"});
    const double degree = std::acos(-1.0) / 180;
    add(degree, 'a', {"deg", "degree", "degrees", "\u00b0"});
    add(degree / 60, 'a', {"arcmin"});
    add(degree / 3600, 'a', {"arcsec", "asec"});
    add(degree / 3600e3, 'a', {"mas", "marcsec"});
    add(1, 'a', {"rad", "radian", "radians"});
    return out;
  }();
  const auto found = known.find(text);
  return found == known.end() ? Unit{} : found->second;
}

bool printed(const ImageSpace::Axis& axis) {
  const Unit unit = unit_of(axis.unit);
  return (unit.size == 0.0254 || unit.size == 0.01) && axis.spacing * unit.size > kPrinted;
}

double ratio(const ImageSpace::Axis& other, const ImageSpace::Axis& own) {
  if (!(other.spacing > 0 && own.spacing > 0) || printed(other) || printed(own)) return 0;
  const Unit a = unit_of(other.unit), b = unit_of(own.unit);
  if (a.size == 0 || b.size == 0)
    return other.unit == own.unit && !own.unit.empty() ? other.spacing / own.spacing : 0;
  return a.kind == b.kind ? other.spacing * a.size / (own.spacing * b.size) : 0;
}

// Between taps: Catmull and Rom's cubic, 0 beyond the last.
double weight_of(double distance) {
  const double t = std::abs(distance);
  if (t >= 2) return 0;
  return t < 1 ? 1 + t * t * (1.5 * t - 2.5) : 2 + t * (-4 + t * (2.5 - 0.5 * t));
}

// Of `n` taps with the origin at `from`, `m` on both sides of it, `step` old taps apart, means over `width` of them.
at::Tensor matrix(std::int64_t n, std::int64_t from, std::int64_t m, double step, double width) {
  constexpr int kPoints = 16;
  at::Tensor out = at::zeros({2 * m + 1, n}, at::kDouble);
  auto* to = out.mutable_data_ptr<double>();
  for (std::int64_t j = -m; j <= m; ++j)
    for (int k = 0; k < kPoints; ++k) {
      const double at =
          static_cast<double>(from) + static_cast<double>(j) * step + width * ((k + 0.5) / kPoints - 0.5);
      for (std::int64_t i = 0; i < n; ++i)
        to[(j + m) * n + i] += weight_of(at - static_cast<double>(i)) / kPoints;
    }
  return out;
}

}  // namespace

std::array<double, 3> pixel_ratios(const Grid& other, const Grid& own) {
  return {ratio(other[0], own[0]), ratio(other[1], own[1]), ratio(other[2], own[2])};
}

bool pixels_differ(const std::array<double, 3>& ratios) {
  return std::any_of(ratios.begin(), ratios.end(), [](double r) { return r > 0 && std::abs(r - 1) > kSame; });
}

std::string pixel_text(const Grid& grid, const std::array<double, 3>& ratios) {
  std::string out, unit;
  for (std::size_t d = 0; d < 3; ++d) {
    if (ratios[d] == 0) continue;
    const bool other = !out.empty() && grid[d].unit != unit;
    out += fmt::format("{}{}{:.4g}", other ? " " + unit : "", out.empty() ? "" : " x ", grid[d].spacing);
    unit = grid[d].unit;
  }
  return out + " " + unit;
}

at::Tensor resampled(const at::Tensor& taps, const std::array<double, 3>& ratios,
                     const std::array<std::int64_t, 3>& origin) {
  at::Tensor out = taps;
  for (std::size_t d = 0; d < 3; ++d) {
    const auto axis = static_cast<std::int64_t>(d) + 1;
    const std::int64_t n = out.size(axis);
    const bool same = ratios[d] == 0 || std::abs(ratios[d] - 1) <= kSame || n == 1;
    const double step = same ? 1 : 1 / ratios[d];
    const double reach = static_cast<double>(std::max(origin[d], n - 1 - origin[d]));
    const auto m = static_cast<std::int64_t>(std::floor(reach / step + 0.5));
    TESSERA_VALIDATE(2 * m + 1 <= kMost, "the kernel has ", 2 * m + 1,
                     " taps along an axis on the image's pixels (", kMost, " at most) cut it to its support");
    const double width = step > 1 ? std::sqrt(step * step - 1) : 0;
    out = out.movedim(axis, -1).matmul(matrix(n, origin[d], m, step, width).t()).movedim(-1, axis);
  }
  const std::array<std::int64_t, 3> all{1, 2, 3};
  const at::Tensor before = taps.sum(all, true), after = out.sum(all, true);
  return out.mul(before.div(after)).contiguous();
}

}  // namespace tessera
