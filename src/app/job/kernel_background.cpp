// SPDX-License-Identifier: BSD-3-Clause
#include "job/kernel_background.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <optional>

namespace tessera {
namespace {

constexpr double kShare = 0.02;  // of a kernel's sum that a background holds

// Medians at the corners and at the middles of the sides, and where.
struct Level {
  std::array<double, 3> at{};  // of the middle, in taps
  double value = 0;
};
std::vector<Level> rim_levels(const Taps& k) {
  const std::int64_t m = std::max<std::int64_t>(1, k.shortest() / 6);
  const std::size_t first = k.first(), axes = 3 - first;
  std::vector<Level> levels;
  const auto add = [&](const Index3& lo, const Index3& hi) {
    Level one{{}, k.median_of(Box(lo, hi))};
    for (std::size_t d = 0; d < 3; ++d)
      one.at[d] = static_cast<double>(lo[d] + hi[d] - 1 - k.size[d] + 1) / 2;
    levels.push_back(one);
  };
  for (std::size_t corner = 0; corner < std::size_t{1} << axes; ++corner) {
    Index3 lo{}, hi{1, 1, 1};
    for (std::size_t d = first; d < 3; ++d) {
      const bool far = (corner >> (d - first)) % 2 == 1;
      lo[d] = far ? k.size[d] - m : 0;
      hi[d] = far ? k.size[d] : m;
    }
    add(lo, hi);
  }
  for (std::size_t face = 0; face < 2 * axes; ++face) {
    Index3 lo{}, hi{1, 1, 1};
    for (std::size_t d = first; d < 3; ++d) {
      const bool across = d - first == face / 2, far = face % 2 == 1;
      lo[d] = !across ? k.size[d] / 3 : far ? k.size[d] - 1 : 0;
      hi[d] = !across ? k.size[d] - k.size[d] / 3 : far ? k.size[d] : 1;
    }
    add(lo, hi);
  }
  return levels;
}

// A level on which all of the kernel stands: that of its corners and of the middles of its sides, where these
// hardly differ. Tails fall from the middles to the corners.
double pedestal(const Taps& k) {
  std::vector<double> levels;
  for (const Level& one : rim_levels(k)) levels.push_back(one.value);
  std::sort(levels.begin(), levels.end(), [](double a, double b) { return std::abs(a) < std::abs(b); });
  const double low = levels.front(), most = levels[levels.size() - 3];  // a tail may reach two of the sides
  const bool flat = low != 0 && most / low > 0 && most / low < 1.35 && std::abs(low) < 0.3 * k.peak();
  return flat ? levels[(levels.size() - 1) / 2] : 0;
}

// A background that rises along a line: the plane through the levels of the rim, where they all lie near it, and it is
// far from level. Tails fall from the middles of the sides to the corners, which no plane does.
struct FittedPlane {
  double level = 0;               // at the middle
  std::array<double, 3> slope{};  // per tap
  double at(const Taps& k, const Index3& p) const {
    double v = level;
    for (std::size_t d = 0; d < 3; ++d)
      v += slope[d] * (static_cast<double>(p[d]) - static_cast<double>(k.size[d] - 1) / 2);
    return v;
  }
};
std::optional<FittedPlane> uneven_background(const Taps& k) {
  const std::vector<Level> levels = rim_levels(k);
  FittedPlane plane;
  const auto n = static_cast<double>(levels.size());
  for (const Level& one : levels) plane.level += one.value / n;
  for (std::size_t d = k.first(); d < 3; ++d) {  // the places are even about the middle
    double with = 0, squares = 0;
    for (const Level& one : levels) {
      with += one.at[d] * one.value;
      squares += one.at[d] * one.at[d];
    }
    if (squares > 0) plane.slope[d] = with / squares;
  }
  double tilt = 0, off = 0;
  for (const Level& one : levels) {
    double rise = 0;
    for (std::size_t d = 0; d < 3; ++d) rise += plane.slope[d] * one.at[d];
    tilt = std::max(tilt, std::abs(rise));
    off = std::max(off, std::abs(one.value - plane.level - rise));
  }
  const bool found = tilt > 0.15 * std::abs(plane.level) && off < 0.3 * tilt && tilt < 0.5 * k.peak();
  return found ? std::optional(plane) : std::nullopt;
}

// A level all around the rim; the taps are then looked at without it.
void look_at_pedestal(Taps& k, const Warn& warn) {
  const double whole = k.sum();
  if (const double level = pedestal(k); level != 0) {
    const double share = level * static_cast<double>(k.values.size()) / whole;
    if (share > kShare)
      warn(
          fmt::format("stands on a pedestal: its rim is {:.4g} all around, its peak {:.4g}, and {:.0f} % of "
                      "its sum is that level (a camera's offset or a background, which the result then "
                      "overcorrects): subtract {:.4g} from the kernel",
                      level, k.peak(), 100 * share, level));
    if (share < -kShare)
      warn(
          fmt::format("lies below 0 all around its rim, at {:.4g}, which is {:.0f} % of its sum (too much "
                      "background was subtracted): add {:.4g} to the kernel",
                      level, -100 * share, -level));
    if (std::abs(share) > kShare)
      for (double& v : k.values) v -= level;
  }
}

// A background that is not the same everywhere; the taps are then looked at without it.
void look_at_slope(Taps& k, const Warn& warn) {
  const std::optional<FittedPlane> plane = uneven_background(k);
  if (!plane) return;
  const double whole = k.sum();
  std::array<double, 2> ends{INFINITY, -INFINITY};
  double size = 0;
  k.each([&](const Index3& p, double) {
    const double v = plane->at(k, p);
    ends = {std::min(ends[0], v), std::max(ends[1], v)};
    size += std::abs(v);
  });
  if (size < kShare * std::abs(whole)) return;
  warn(fmt::format(
      "stands on an uneven background: its rim goes from {:.4g} to {:.4g} along a slope, its peak is "
      "{:.4g}, and {:.0f} % of its sum is background (which the result then overcorrects): subtract the "
      "plane through its rim from the kernel",
      ends[0], ends[1], k.peak(), 100 * size / whole));
  Taps clean = k;
  std::size_t i = 0;
  k.each([&](const Index3& p, double v) { clean.values[i++] = v - plane->at(k, p); });
  k = std::move(clean);
}

// A dark spot on a bright ground: the taps far from the middle are large and alike, a few are far below them.
bool dark_on_bright(const Taps& k) {
  const double rim = k.median_of_ring(0), middle = median_of(k.values),
               least = *std::min_element(k.values.begin(), k.values.end());
  const double depth = rim - least;
  if (!(rim > 0) || depth < 0.2 * rim || depth < 4 * (k.peak() - rim) ||
      std::abs(middle - rim) > 0.25 * depth)
    return false;
  return std::count_if(k.values.begin(), k.values.end(), [&](double v) { return v < rim - 0.4 * depth; }) >=
         3;
}

// Noise around the kernel of which what was below 0 became 0: zeros and small taps side by side, in no order. Share of
// the sum that it adds; 0: none is.
double clipped_noise(const Taps& k) {
  const double least = *std::min_element(k.values.begin(), k.values.end()), peak = k.peak();
  if (least < 0) return 0;
  const std::int64_t rim = std::max<std::int64_t>(1, k.shortest() / 6);
  double taps = 0, zeros = 0, sum = 0, most = 0, pairs = 0, mixed = 0;
  k.each([&](const Index3& p, double v) {
    std::int64_t depth = k.size[2];
    for (std::size_t d = k.first(); d < 3; ++d) depth = std::min({depth, p[d], k.size[d] - 1 - p[d]});
    if (depth >= rim) return;
    ++taps;
    zeros += v == 0;
    sum += v;
    most = std::max(most, v);
    const Index3 next{p[0], p[1], p[2] + 1};
    if (next[2] >= k.size[2]) return;
    ++pairs;
    mixed += (v == 0) != (k.at(next) == 0);
  });
  const double empty = zeros / taps, by_chance = 2 * empty * (1 - empty) * pairs;
  if (taps < 24 || empty < 0.2 || empty > 0.8 || mixed < 0.6 * by_chance || most > 0.3 * peak) return 0;
  return sum / taps * static_cast<double>(k.values.size()) / k.sum();
}

}  // namespace

bool look_at_background(Taps& k, const Warn& warn) {
  if (dark_on_bright(k)) {
    warn(fmt::format(
        "is dark on a bright ground: its rim is {:.4g}, its least tap {:.4g} (a kernel is what light "
        "becomes; this one takes light away, and divided by its sum it is next to flat): write {:.4g} minus "
        "the kernel",
        k.median_of_ring(0), *std::min_element(k.values.begin(), k.values.end()), k.median_of_ring(0)));
    return true;
  }
  look_at_pedestal(k, warn);
  look_at_slope(k, warn);
  if (const double share = clipped_noise(k); share > kShare)
    warn(fmt::format(
        "is surrounded by noise that was cut at 0: what is left of it adds up to {:.0f} % of its sum (a "
        "background, which the result then overcorrects): cut the kernel to where it stands out, or set "
        "taps that are no higher than the noise to 0",
        100 * share));
  return false;
}

}  // namespace tessera
