// SPDX-License-Identifier: BSD-3-Clause
// Views from opposite sides that should look alike: where they stand, how much they differ, what follows from that.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numbers>
#include <optional>
#include <utility>
#include <vector>

#include "tessera/physics/alignment.hpp"

namespace tessera {

/// Squares of differences of samples that should be alike, and of both, by groups of them, for the error.
struct OppositeEnergy {
  static constexpr std::size_t kGroups = 16;
  std::array<double, kGroups> apart{}, all{};

  static std::size_t group(std::int64_t n, std::int64_t of) {
    return static_cast<std::size_t>(n) * kGroups / static_cast<std::size_t>(of);
  }
  void add(std::size_t group, double a, double b) {
    apart[group] += (a - b) * (a - b);
    all[group] += a * a + b * b;
  }
  double share() const {
    double a = 0, b = 0;
    for (std::size_t k = 0; k < kGroups; ++k) a += apart[k], b += all[k];
    return b > 0 ? a / b : 2;
  }
};

/// The lowest point of the parabola through value(x - h), value(x), value(x + h), at most `most` from x; x where it bends down.
template <class Value>
double lowered(double x, double h, double most, const Value& value) {
  const double before = value(x - h), here = value(x), after = value(x + h), bend = before - 2 * here + after;
  return bend > 0 ? x + std::clamp(0.5 * h * (before - after) / bend, -most, most) : x;
}

/// `at`, where energies are lowest, and its error: by how the groups' slopes differ, over what all bend, from at - h to
/// at + h. `times`: so often each pair is there.
template <class Energy>
Aligned with_error(double at, double h, double times, const Energy& energy) {
  const OppositeEnergy before = energy(at - h), here = energy(at), after = energy(at + h);
  double slopes = 0, bend = 0;
  for (std::size_t k = 0; k < OppositeEnergy::kGroups; ++k) {
    const double slope = (after.apart[k] - before.apart[k]) / (2 * h);
    slopes += slope * slope;
    bend += (after.apart[k] - 2 * here.apart[k] + before.apart[k]) / (h * h);
  }
  return {at, bend > 0 ? std::sqrt(times * slopes) / bend : std::numeric_limits<double>::max()};
}

/// Views around a turn, in the order of their angles (radians).
class ViewsAround {
 public:
  explicit ViewsAround(const std::vector<double>& angles) {
    for (std::size_t k = 0; k < angles.size(); ++k) order_.emplace_back(turn(angles[k]), k);
    std::sort(order_.begin(), order_.end());
    std::vector<double> ways;
    for (std::size_t k = 0; k < order_.size(); ++k) ways.push_back(way_after(k));
    std::nth_element(ways.begin(), ways.begin() + std::ssize(ways) / 2, ways.end());
    gap_ = std::max(4 * ways[ways.size() / 2], 1e-6);
  }
  /// The views before and behind an angle, and the share of the latter; none in a gap.
  struct Place {
    std::size_t low, high;
    double part;
  };
  std::optional<Place> at(double angle) const {
    const double t = turn(angle);
    const auto next = std::upper_bound(order_.begin(), order_.end(), std::pair(t, order_.size()));
    const std::size_t n = order_.size(), high = static_cast<std::size_t>(next - order_.begin()) % n,
                      low = (high + n - 1) % n;
    const double way = way_after(low);
    if (way > gap_) return std::nullopt;
    return Place{order_[low].second, order_[high].second,
                 way > 0 ? std::clamp(turn(t - order_[low].first) / way, 0.0, 1.0) : 0};
  }

 private:
  static constexpr double kRound = 2 * std::numbers::pi;
  static double turn(double angle) {
    const double at = std::fmod(angle, kRound);
    return at < 0 ? at + kRound : at;
  }
  double way_after(std::size_t k) const {
    return k + 1 < order_.size() ? order_[k + 1].first - order_[k].first
                                 : order_[0].first + kRound - order_[k].first;
  }
  std::vector<std::pair<double, std::size_t>> order_;
  double gap_ = 0;
};

/// Rays of a circle's fans, or of cones seen from above, x to the right of where the line from source to axis meets the
/// detector.
class OppositeRays {
 public:
  explicit OppositeRays(const CircularScan& scan) : scan_(scan), around_(scan.angles) {}

  /// The angle of that line by which source and detector stand aside by so many columns.
  double aside(double axis) const { return std::atan(-axis * scan_.column_pitch / scan_.source_detector); }
  /// Where the ray is seen from its other side, and by which views; none in a gap of the angles.
  struct Opposite {
    double x;
    ViewsAround::Place place;
  };
  std::optional<Opposite> of(std::size_t view, double x, double aside) const {
    const double g = std::atan(x / scan_.source_detector);
    const auto place = around_.at(scan_.angles[view] - 2 * g - 2 * aside + std::numbers::pi);
    if (!place) return std::nullopt;
    return Opposite{std::tan(-g - 2 * aside) * scan_.source_detector, *place};
  }

 private:
  const CircularScan& scan_;
  ViewsAround around_;
};

/// Between p[0] and p[1], cubic.
inline double between(const double* p, double t) {
  return p[0] + 0.5 * t *
                    (p[1] - p[-1] +
                     t * (2 * p[-1] - 5 * p[0] + 4 * p[1] - p[2] + t * (3 * (p[0] - p[1]) + p[2] - p[-1])));
}

/// Along the last axis, by a Gaussian; float64, contiguous. Values between columns are then as noisy as those on them.
at::Tensor smoothed_rows(const at::Tensor& rows, double sigma);

}  // namespace tessera
