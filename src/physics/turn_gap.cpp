// SPDX-License-Identifier: BSD-3-Clause
// Where the first view of a turn stands once more.
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/linalg_pinv.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/stack.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "opposite_views.hpp"
#include "tessera/core/error.hpp"
#include "tessera/physics/alignment.hpp"

namespace tessera {
namespace {

// The evenly spaced views' step, radians; 0: they are not.
double even_step(const std::vector<double>& angles) {
  constexpr double kUneven = 0.1;
  const std::size_t n = angles.size();
  const double step = (angles[n - 1] - angles[0]) / static_cast<double>(n - 1);
  for (std::size_t k = 1; k < n; ++k)
    if (!(std::abs(angles[k] - angles[k - 1] - step) <= kUneven * std::abs(step))) return 0;
  return step;
}

// Means over views, smoothed, by columns; mirrored about a column.
class ViewMeans {
 public:
  ViewMeans(const at::Tensor& rows, double blur, std::optional<double> axis)
      : rows_(rows), blur_(blur), axis_(axis) {
    const std::int64_t n = rows.size(2);
    const at::Tensor place = at::arange(n, at::kDouble);
    at::Tensor inside = place.ge(2).logical_and(place.lt(n - 2));
    if (axis) {
      const at::Tensor from = 2 * *axis - place;
      inside = inside.logical_and(from.ge(2)).logical_and(from.le(n - 3));
      low_ = from.clamp(0, n - 2).floor();
      part_ = from - low_;
      low_ = low_.to(at::kLong);
    }
    inside_ = inside.nonzero().squeeze(1);
  }
  std::int64_t columns() const { return inside_.size(0); }
  /// Rows by columns in one list.
  at::Tensor inside(const at::Tensor& t) const { return t.index_select(1, inside_).flatten(); }
  at::Tensor of(std::int64_t first, std::int64_t count) const {
    return smoothed_rows(rows_.narrow(1, first, count).mean(1), blur_);
  }
  at::Tensor mirrored(const at::Tensor& t) const {
    return axis_ ? t.index_select(1, low_) * (1 - part_) + t.index_select(1, low_ + 1) * part_ : t;
  }

 private:
  const at::Tensor& rows_;
  double blur_;
  std::optional<double> axis_;
  at::Tensor inside_, low_, part_;
};

// By `wide` views at each end; error: 1e9 where slopes are lost in noise.
TurnGap gap_of(const ViewMeans& means, std::int64_t last, std::int64_t wide, double samples) {
  constexpr double kClear = 0.3;   // of the slopes' squares, what both ends share
  constexpr double kAside = 0.75;  // columns, of an axis: more is an object that moved
  const auto of = [&](std::int64_t k) { return means.of(last + 1 - k * wide, wide); };
  const auto again = [&](std::int64_t k) { return means.mirrored(means.of(k * wide, wide)); };
  const at::Tensor before = of(1), after = again(0), mean = (before + after) * 0.5;
  const auto per_view = static_cast<double>(wide);
  const std::int64_t rows = mean.size(0), n = mean.size(1);
  // What an axis beside the true one does, and light.
  at::Tensor slope = mean.clone();
  slope.narrow(1, 1, n - 2).copy_((mean.narrow(1, 2, n - 2) - mean.narrow(1, 0, n - 2)) * 0.5);
  std::vector<at::Tensor> others{means.inside(slope)};
  for (std::int64_t r = 0; r < rows; ++r) {
    at::Tensor light = mean * 0;
    light[r].fill_(1);
    others.push_back(means.inside(light));
  }
  const at::Tensor X = at::stack(others, 1), inverse = at::linalg_pinv(X, 1e-12);
  const auto rest = [&](const at::Tensor& t) {
    const at::Tensor y = means.inside(t);
    return y - X.matmul(inverse.matmul(y));
  };
  const auto product = [](const at::Tensor& a, const at::Tensor& b) { return (a * b).sum().item<double>(); };
  const at::Tensor way = rest(after - before), early = rest((of(2) - of(3)) / per_view),
                   late = rest((again(2) - again(1)) / per_view), step = (early + late) * 0.5;
  const double both = product(early, late), all = product(step, step);
  TurnGap out;
  out.error = 1e9;
  if (!(all > 0) || both < kClear * all) return out;
  const double views = product(way, step) / both;
  const at::Tensor left = way - step * views;
  const at::Tensor aside = inverse.matmul(
      means.inside(after - before - (of(2) - of(3) + again(2) - again(1)) * (views / (2 * per_view))));
  if (std::abs(aside[0].item<double>()) > kAside) return out;
  out.found = views - per_view + 1;
  out.error = std::sqrt(product(left, left) / both / samples * all / both);
  return out;
}

}  // namespace

TurnGap find_turn_gap(const at::Tensor& rows, const std::vector<double>& angles, std::optional<double> axis) {
  TESSERA_EXPECT(rows.dim() == 3 && rows.size(1) == std::ssize(angles), "sinograms of ", rows.size(1),
                 " views, ", angles.size(), " angles");
  constexpr double kEarly = 0.6, kFar = 1.75, kMost = 2 * std::numbers::pi / 180;
  const std::int64_t views = rows.size(1), columns = rows.size(2);
  TurnGap out;
  const double step = views >= 24 && columns >= 32 ? std::abs(even_step(angles)) : 0;
  const double again = step > 0 ? (axis ? 1 : 2) * std::numbers::pi / step : 0;  // views, from the first on
  if (again < kEarly * static_cast<double>(views) || again > static_cast<double>(views - 1) + kFar) {
    out.problem =
        step > 0 ? "the views do not end about where the turn does" : "views are few or not evenly apart";
    return out;
  }
  const double least = std::max(1.5, 0.375 * step * static_cast<double>(columns));
  const at::Tensor from = rows.contiguous();
  const std::int64_t last = std::min(views - 1, static_cast<std::int64_t>(std::floor(again + 1e-6)));
  out.error = 1e9;
  for (const double times : {1.0, 2.0, 4.0}) {  // fine details, or less noise
    const double blur = times * least;
    const ViewMeans means(from, blur, axis);
    const double samples =
        static_cast<double>(means.columns() * rows.size(0)) / (2 * std::sqrt(std::numbers::pi) * blur);
    if (4 * means.columns() < columns) break;
    for (const std::int64_t wide : {1, 2, 3, 4, 6, 8, 12, 16}) {
      if (wide > 1 && (static_cast<double>(wide) * step > kMost || 6 * wide > views)) break;
      if (3 * wide > last + 1) break;
      if (const TurnGap found = gap_of(means, last, wide, samples); found.error < out.error) out = found;
    }
  }
  out.found -= static_cast<double>(views - 1 - last);
  out.said = again - static_cast<double>(views - 1);
  if (out.error >= 1e9) out.problem = "the views hardly change from one to the next";
  return out;
}

}  // namespace tessera
