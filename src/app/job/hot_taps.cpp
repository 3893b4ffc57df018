// SPDX-License-Identifier: BSD-3-Clause
#include "job/hot_taps.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cmath>
#include <numbers>
#include <utility>

namespace tessera {
namespace {

constexpr double kSteep = 4;          // times the taps beside it
constexpr double kNoise = 8;          // deviations above the taps beside it
constexpr double kMatters = 0.1;      // of the spot's peak: lower ones do little
constexpr double kPartOfSpot = 0.03;  // of the peak, of the taps beside it

struct Tap {
  Index3 at{};
  double value = 0, beside = 0;
};

std::vector<double> touching(const Taps& k, const Index3& at) {
  std::vector<double> out;
  k.around(at, [&](double v) { out.push_back(v); });
  out.erase(out.begin() + std::ssize(out) / 2);  // its own
  return out;
}

// Of two hot ones side by side each has one high neighbor, so the second largest is asked.
double second_largest(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + 1, values.end(), std::greater<>());
  return std::max(0.0, values[1]);
}

// What counts differ by: all taps are whole multiples of the smallest one. 0: they are none.
double count_of(const Taps& k) {
  double least = INFINITY;
  for (const double v : k.values)
    if (v > 0) least = std::min(least, v);
  const bool whole = std::all_of(k.values.begin(), k.values.end(), [&](double v) {
    return v >= 0 && std::abs(v / least - std::round(v / least)) < 1e-4;
  });
  return whole ? least : 0;
}

// `count`: of photons, which scatter by the root of their number.
std::vector<Tap> lonely_taps(const Taps& k, double noise, double count) {
  constexpr std::ptrdiff_t kSpot = 5;  // taps of the narrowest spot
  constexpr double kPhotons = 5;       // deviations
  std::vector<double> values = k.values;
  std::nth_element(values.begin(), values.begin() + kSpot, values.end(), std::greater<>());
  const double least = std::max(kNoise * noise, kMatters / 5 * values[kSpot]);
  std::vector<Tap> out;
  k.each([&](const Index3& at, double v) {
    if (!(v > least)) return;
    const Tap one{at, v, second_largest(touching(k, at))};
    if (v > kSteep * one.beside && v - one.beside > std::max(kNoise * noise, kPhotons * std::sqrt(count * v)))
      out.push_back(one);
  });
  return out;
}

Taps without(const Taps& k, const std::vector<Tap>& taps) {
  Taps out = k;
  for (const Tap& one : taps) out.set(one.at, NAN);
  Taps filled = out;
  for (const Tap& one : taps) {
    std::vector<double> beside = touching(out, one.at);
    std::erase_if(beside, [](double v) { return std::isnan(v); });
    filled.set(one.at, beside.empty() ? 0 : median_of(std::move(beside)));
  }
  return filled;
}

Tap peak_of(const Taps& k) {
  Tap out;
  k.each([&](const Index3& at, double v) {
    if (v > out.value) out = {at, v, 0};
  });
  return out;
}

// Distance along the farthest axis from the middle of what is higher than a twentieth of the peak.
double from_middle(const Taps& k, const Index3& at) {
  const double least = 0.05 * k.peak();
  std::array<double, 3> middle{};
  double sum = 0, far = 0;
  k.each([&](const Index3& p, double v) {
    if (v < least) return;
    sum += v;
    for (std::size_t d = 0; d < 3; ++d) middle[d] += v * static_cast<double>(p[d]);
  });
  for (std::size_t d = 0; d < 3; ++d)
    far = std::max(far, std::abs(static_cast<double>(at[d]) - middle[d] / sum));
  return far;
}

bool adjacent(const Index3& a, const Index3& b) {
  return std::abs(a[0] - b[0]) <= 1 && std::abs(a[1] - b[1]) <= 1 && std::abs(a[2] - b[2]) <= 1;
}

// Whether all four taps beside the peak belong to it, which those of lines and single taps do not.
bool is_spot(const Taps& k, const Tap& peak) {
  for (const Index3& step : {Index3{0, -1, 0}, Index3{0, 1, 0}, Index3{0, 0, -1}, Index3{0, 0, 1}})
    if (k.at({peak.at[0], peak.at[1] + step[1], peak.at[2] + step[2]}) < kPartOfSpot * peak.value)
      return false;
  return peak.value > 0;
}

// Whether what is higher than a tenth of the peak fills a good part of a circle around its middle, as a lens's spot does.
// The path of a shaken hand does not: where it turns or ends a single tap may be as far above the others as a hot one.
bool is_compact(const Taps& k) {
  constexpr double kHigh = 0.1, kFills = 0.6;
  const double least = kHigh * k.peak();
  std::array<double, 3> middle{};
  double n = 0;
  k.each([&](const Index3& p, double v) {
    if (v < least) return;
    ++n;
    for (std::size_t d = 0; d < 3; ++d) middle[d] += static_cast<double>(p[d]);
  });
  double far = 0;
  k.each([&](const Index3& p, double v) {
    if (v < least) return;
    double square = 0;
    for (std::size_t d = 0; d < 3; ++d) {
      const double off = static_cast<double>(p[d]) - middle[d] / n;
      square += off * off;
    }
    far = std::max(far, square);
  });
  const double radius = std::sqrt(far) + 0.5;
  const double circle = k.first() == 0 ? 4.0 / 3 * std::numbers::pi * radius * radius * radius
                                       : std::numbers::pi * radius * radius;
  return n > kFills * circle;
}

std::string place(const Taps& k, const Index3& at) {
  return fmt::format("[{}]", fmt::join(at.begin() + static_cast<std::ptrdiff_t>(k.first()), at.end(), ", "));
}

}  // namespace

bool mend_hot_taps(Taps& k, const Warn& warn) {
  if (k.shortest() < 5) return false;
  const double level = k.median_of_ring(0);
  Taps clean = k;
  for (double& v : clean.values) v -= level;
  Taps sizes = clean;
  for (double& v : sizes.values) v = std::abs(v);
  std::vector<Tap> lonely = lonely_taps(clean, 1.5 * sizes.median_of_ring(0), count_of(k));
  if (lonely.empty() || lonely.size() > std::max<std::size_t>(3, k.values.size() / 50)) return false;
  Taps rest = without(clean, lonely);
  // A core that is narrower than a pixel, or stands on a halo, is in the middle of what surrounds it.
  const Index3 top = peak_of(rest).at;
  if (!(rest.peak() > 0)) return false;
  std::erase_if(lonely,
                [&](const Tap& one) { return adjacent(one.at, top) && from_middle(rest, one.at) < 0.75; });
  std::erase_if(lonely, [&](const Tap& one) { return from_middle(rest, one.at) < 0.6; });
  rest = without(clean, lonely);
  const Tap peak = peak_of(rest);
  std::erase_if(lonely, [&](const Tap& one) { return one.value < kMatters * peak.value; });
  if (lonely.empty() || !is_spot(rest, peak) || !is_compact(rest)) return false;
  const Tap& first = *std::max_element(lonely.begin(), lonely.end(),
                                       [](const Tap& a, const Tap& b) { return a.value < b.value; });
  const bool one = lonely.size() == 1;
  const std::vector<double> beside = touching(rest, first.at);
  warn(fmt::format(
      "has {} far above all that touch {}: {:.6g} at {}{}, beside it {:.4g} at most (hot pixels of the "
      "camera "
      "that measured it; the blur would add as many pictures): {} the median of the neighbors here; correct "
      "the file",
      one ? "a single tap" : fmt::format("{} single taps", lonely.size()), one ? "it" : "them",
      first.value + level, place(k, first.at), one ? "" : " the highest",
      *std::max_element(beside.begin(), beside.end()) + level, one ? "it is" : "they are"));
  k = without(k, lonely);
  return true;
}

}  // namespace tessera
