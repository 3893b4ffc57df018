// SPDX-License-Identifier: BSD-3-Clause
// How a detector is turned in its plane, by views of a parallel beam from opposite sides.
#include <ATen/ops/avg_pool2d.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <numbers>

#include "opposite_views.hpp"
#include "tessera/core/error.hpp"
#include "tessera/physics/alignment.hpp"

namespace tessera {
namespace {

constexpr std::int64_t kSide = 300;  // samples of a frame's longer side, after means over squares
constexpr double kMostDegrees = 12;

class Mirrors {
 public:
  Mirrors(const at::Tensor& frames, double axis) {
    const std::int64_t larger = std::max<std::int64_t>(1, std::max(frames.size(2), frames.size(3)) / kSide);
    small_ =
        at::avg_pool2d(frames, {larger + 1, larger + 1}, {larger, larger}).contiguous();  // a little smoother
    high_ = small_.size(2);
    wide_ = small_.size(3);
    // Sample k of a mean stands at larger k + larger / 2 from the first.
    const auto from_first = [&](std::int64_t all) {
      return (0.5 * static_cast<double>(all - 1) - 0.5 * static_cast<double>(larger)) /
             static_cast<double>(larger);
    };
    middle_ = {from_first(frames.size(2)), from_first(frames.size(3))};
    axis_ = axis / static_cast<double>(larger);
  }

  // more: columns (of means) by which the axis stands right of where it was said to.
  OppositeEnergy at(double degrees, double more) const {
    const double c = std::cos(degrees * std::numbers::pi / 180),
                 s = std::sin(degrees * std::numbers::pi / 180);
    OppositeEnergy out;
    for (std::int64_t pair = 0; pair < small_.size(0); ++pair) {
      const double* const one = small_.const_data_ptr<double>() + pair * 2 * high_ * wide_;
      const double* const other = one + high_ * wide_;
      for (std::int64_t j = 0; j < high_; ++j) {
        const double z = static_cast<double>(j) - middle_[0];
        const std::size_t band = OppositeEnergy::group(j, high_);
        for (std::int64_t i = 0; i < wide_; ++i) {
          const double x = static_cast<double>(i) - middle_[1] - axis_;
          double a = 0, b = 0;
          const double across = middle_[1] + axis_ + more + z * s, down = middle_[0] + z * c;
          if (!sample(one, down - x * s, across + x * c, a) ||
              !sample(other, down + x * s, across - x * c, b))
            continue;
          out.add(band, a, b);
        }
      }
    }
    return out;
  }

 private:
  bool sample(const double* frame, double row, double column, double& value) const {
    if (!(row >= 0) || !(column >= 0) || !(row < static_cast<double>(high_ - 1)) ||
        !(column < static_cast<double>(wide_ - 1)))
      return false;
    const auto j = static_cast<std::int64_t>(row), i = static_cast<std::int64_t>(column);
    const double t = row - static_cast<double>(j), u = column - static_cast<double>(i);
    const double* p = frame + j * wide_ + i;
    value = (1 - t) * ((1 - u) * p[0] + u * p[1]) + t * ((1 - u) * p[wide_] + u * p[wide_ + 1]);
    return true;
  }
  at::Tensor small_;
  std::int64_t high_ = 0, wide_ = 0;
  std::array<double, 2> middle_{};
  double axis_ = 0;
};

}  // namespace

Aligned find_detector_rotation(const at::Tensor& frames, double axis) {
  TESSERA_EXPECT(frames.dim() == 4 && frames.size(1) == 2, "frames of ", frames.dim(), " axes, not pairs");
  constexpr double kCoarse = 0.5, kAlike = 0.95;
  Aligned out;
  if (frames.size(0) == 0 || frames.size(2) < 16 || frames.size(3) < 32) {
    out.problem =
        frames.size(0) == 0 ? "no two views stand half a turn apart" : "the detector has too few samples";
    return out;
  }
  const Mirrors pairs(frames, axis);
  double at = 0, more = 0, least = 1e300, sum = 0;
  int count = 0;
  for (double angle = -kMostDegrees; angle <= kMostDegrees; angle += kCoarse, ++count) {
    const double share = pairs.at(angle, 0).share();
    sum += share;
    if (share < least) least = share, at = angle;
  }
  if (!(least < kAlike * sum / count) || std::abs(at) == kMostDegrees) {
    out.problem = "views from opposite sides do not resemble each other more for one angle than for others";
    return out;
  }
  for (double h = kCoarse; h > 0.03; h *= 0.5) {
    more = lowered(more, h, 2 * h, [&](double columns) { return pairs.at(at, columns).share(); });
    at = lowered(at, h, 2 * h, [&](double angle) { return pairs.at(angle, more).share(); });
  }
  out = with_error(at, 0.25, 1, [&](double angle) { return pairs.at(angle, more); });
  if (!(out.error < 1)) out.problem = "views from opposite sides do not tell it to a degree";
  return out;
}

}  // namespace tessera
