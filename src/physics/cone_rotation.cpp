// SPDX-License-Identifier: BSD-3-Clause
// How a cone's detector is turned in its plane, by rays from opposite sides that cross beside the axis.
#include <ATen/TensorOperators.h>
#include <ATen/ops/avg_pool2d.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <vector>

#include "opposite_views.hpp"
#include "tessera/core/error.hpp"
#include "tessera/physics/alignment.hpp"

namespace tessera {
namespace {

constexpr double kMostTurned = 12;  // degrees

constexpr std::int64_t kRim = 7;  // samples at the detector's edges, whose details are cut off

// Less noise, which is then as strong between samples as on them, and less of what is even: in both ways alike, so that a
// detector that is turned sees the same.
at::Tensor details(const at::Tensor& frames) {
  const auto box = [](const at::Tensor& x, std::int64_t side) {
    return at::avg_pool2d(x, {side, side}, {1, 1}, {side / 2, side / 2}, false, false);
  };
  const at::Tensor fine = box(box(frames, 5), 5);
  return (fine - box(fine, 7)).contiguous();
}

class CrossedRays {
 public:
  CrossedRays(const at::Tensor& frames, const CircularScan& scan)
      : scan_(scan),
        values_(details(frames)),
        views_(frames.size(0)),
        rows_(frames.size(1)),
        columns_(frames.size(2)),
        rays_(scan) {}

  // Of the detector turned by so many degrees, source and detector standing aside by so many columns.
  OppositeEnergy at(double degrees, double axis, std::int64_t every) const {
    const double angle = degrees * std::numbers::pi / 180, far = scan_.source_detector,
                 aside = rays_.aside(axis);
    const Turned turned{std::cos(angle), std::sin(angle)};
    OppositeEnergy out;
    for (std::int64_t k = 0; k < views_; k += every) {
      const std::size_t group = OppositeEnergy::group(k, views_);
      for (std::int64_t i = 0; i<columns_; i += every> 1 ? 2 : 1) {
        const double x =
            (static_cast<double>(i) - middle(columns_) + scan_.detector_shift[0]) * scan_.column_pitch;
        const auto opposite = rays_.of(static_cast<std::size_t>(k), x, aside);
        if (!opposite) continue;
        const auto& [there, place] = *opposite;
        const double steep = std::hypot(there, far) / std::hypot(x, far);  // as high where rays cross
        for (std::int64_t j = 0; j<rows_; j += every> 1 ? 2 : 1) {
          const double z =
              (static_cast<double>(j) - middle(rows_) + scan_.detector_shift[1]) * scan_.row_pitch;
          double a = 0, low = 0, high = 0;
          if (!sample(static_cast<std::size_t>(k), turned, x, z, a) ||
              !sample(place.low, turned, there, z * steep, low) ||
              !sample(place.high, turned, there, z * steep, high))
            continue;
          out.add(group, a, (1 - place.part) * low + place.part * high);
        }
      }
    }
    return out;
  }

 private:
  struct Turned {
    double c, s;
  };
  static double middle(std::int64_t n) { return 0.5 * static_cast<double>(n - 1); }
  // What stands x, z from where the line from source to axis meets the detector, x to the right and z down.
  bool sample(std::size_t view, Turned turned, double x, double z, double& value) const {
    const double column =
        (x * turned.c + z * turned.s) / scan_.column_pitch - scan_.detector_shift[0] + middle(columns_);
    const double row =
        (z * turned.c - x * turned.s) / scan_.row_pitch - scan_.detector_shift[1] + middle(rows_);
    if (!(row >= kRim) || !(column >= kRim) || !(row < static_cast<double>(rows_ - 1 - kRim)) ||
        !(column < static_cast<double>(columns_ - 1 - kRim)))
      return false;
    const auto j = static_cast<std::int64_t>(row), i = static_cast<std::int64_t>(column);
    const double t = row - static_cast<double>(j), u = column - static_cast<double>(i);
    const float* p =
        values_.const_data_ptr<float>() + (static_cast<std::int64_t>(view) * rows_ + j) * columns_ + i;
    value = (1 - t) * ((1 - u) * p[0] + u * p[1]) + t * ((1 - u) * p[columns_] + u * p[columns_ + 1]);
    return true;
  }

  const CircularScan& scan_;
  at::Tensor values_;
  std::int64_t views_, rows_, columns_;
  OppositeRays rays_;
};

}  // namespace

Aligned find_cone_rotation(const at::Tensor& frames, const CircularScan& scan) {
  TESSERA_EXPECT(frames.dim() == 3 && frames.size(0) == std::ssize(scan.angles), "frames of ", frames.size(0),
                 " views, ", scan.angles.size(), " angles");
  constexpr double kCoarse = 0.5, kAlike = 0.95;
  Aligned out;
  if (frames.size(0) < 16 || frames.size(1) < 24 || frames.size(2) < 32) {
    out.problem = frames.size(0) < 16 ? "there are fewer than 16 views" : "the detector has too few samples";
    return out;
  }
  const CrossedRays rays(frames, scan);
  const std::int64_t every = std::max<std::int64_t>(2, frames.size(0) / 60);
  double at = 0, axis = scan.axis_offset, least = 1e300, sum = 0;
  int count = 0;
  for (double angle = -kMostTurned; angle <= kMostTurned; angle += kCoarse, ++count) {
    const double share = rays.at(angle, axis, every).share();
    sum += share;
    if (share < least) least = share, at = angle;
  }
  if (!(least < kAlike * sum / count) || std::abs(at) == kMostTurned) {
    out.problem = "rays from opposite sides do not resemble each other more for one angle than for others";
    return out;
  }
  for (double h = kCoarse; h > 0.03; h *= 0.5) {
    axis = lowered(axis, h, 2 * h, [&](double columns) { return rays.at(at, columns, 1).share(); });
    at = lowered(at, h, 2 * h, [&](double angle) { return rays.at(angle, axis, 1).share(); });
  }
  out = with_error(at, 0.25, 2, [&](double angle) { return rays.at(angle, axis, 1); });
  if (!(out.error < 1)) out.problem = "rays from opposite sides do not tell it to a degree";
  return out;
}

}  // namespace tessera
