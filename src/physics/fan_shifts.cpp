// SPDX-License-Identifier: BSD-3-Clause
// Views of a fan that stand aside, by rays that are seen from both sides.
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/diag.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/linalg_inv.h>
#include <ATen/ops/linalg_qr.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <tuple>
#include <vector>

#include "opposite_views.hpp"
#include "tessera/core/error.hpp"
#include "tessera/physics/alignment.hpp"

namespace tessera {
namespace {

constexpr double kSmooth = 1;     // columns
constexpr std::int64_t kEnd = 4;  // columns at the detector's ends that are not compared

// A sample is that of the view where it stood: y(i - s) = y(i) - s y'(i) at column i of a detector that did not move.
class SeenTwice {
 public:
  SeenTwice(const at::Tensor& row, const CircularScan& scan, double axis)
      : scan_(scan), rays_(scan), aside_(rays_.aside(axis)), values_(smoothed_rows(row, kSmooth)) {
    const std::int64_t n = row.size(1) - 2;
    slopes_ =
        at::constant_pad_nd((values_.narrow(1, 2, n) - values_.narrow(1, 0, n)) / 2, {1, 1}).contiguous();
  }

  // Of differences e between what rays see from both sides, by J, how they change with the shifts: J^T J, -J^T e, |e|^2.
  struct Equations {
    at::Tensor square, right;
    double left = 0;
    std::int64_t rays = 0;
  };
  Equations at(const at::Tensor& shifts) const {
    const std::int64_t views = values_.size(0), columns = values_.size(1);
    const double middle = 0.5 * static_cast<double>(columns - 1) - scan_.detector_shift[0];
    const double* const s = shifts.const_data_ptr<double>();
    Equations out{at::zeros({views, views}, at::kDouble), at::zeros({views}, at::kDouble)};
    auto* const square = out.square.mutable_data_ptr<double>();
    auto* const right = out.right.mutable_data_ptr<double>();
    for (std::int64_t k = 0; k < views; ++k)
      for (std::int64_t i = kEnd; i < columns - kEnd; ++i) {
        const auto opposite = rays_.of(static_cast<std::size_t>(k),
                                       (static_cast<double>(i) - middle) * scan_.column_pitch, aside_);
        if (!opposite) continue;
        const double column = opposite->x / scan_.column_pitch + middle;
        const auto& [low, high, part] = opposite->place;
        const std::array<std::int64_t, 3> who{k, static_cast<std::int64_t>(low),
                                              static_cast<std::int64_t>(high)};
        const std::array<double, 3> share{1, part - 1, -part}, where{static_cast<double>(i), column, column};
        double e = 0;
        std::array<double, 3> change{};
        bool inside = true;
        for (std::size_t n = 0; n < 3 && inside; ++n) {
          const double at = where[n] - s[who[n]];
          inside = at >= kEnd && at < static_cast<double>(columns - 1 - kEnd);
          if (!inside) break;
          const auto cell = static_cast<std::int64_t>(at);
          const std::int64_t from = who[n] * columns + cell;
          e += share[n] * between(values_.const_data_ptr<double>() + from, at - static_cast<double>(cell));
          change[n] =
              -share[n] * between(slopes_.const_data_ptr<double>() + from, at - static_cast<double>(cell));
        }
        if (!inside) continue;
        for (std::size_t a = 0; a < 3; ++a) {
          right[who[a]] -= change[a] * e;
          for (std::size_t b = 0; b < 3; ++b) square[who[a] * views + who[b]] += change[a] * change[b];
        }
        out.left += e * e;
        ++out.rays;
      }
    return out;
  }

 private:
  const CircularScan& scan_;
  OppositeRays rays_;
  double aside_;
  at::Tensor values_, slopes_;
};

}  // namespace

ViewShifts find_fan_shifts(const at::Tensor& row, const CircularScan& scan, bool axis) {
  TESSERA_EXPECT(row.dim() == 2 && row.size(0) == std::ssize(scan.angles), "a sinogram of ", row.size(0),
                 " views, ", scan.angles.size(), " angles");
  constexpr int kRounds = 20;
  constexpr double kStill = 0.002, kStride = 1.5, kHardly = 0.05, kRidge = 1e-6, kUnsure = 0.2;
  constexpr std::int64_t kFew = 16, kMany = 4000;
  ViewShifts out;
  const std::int64_t views = row.size(0);
  out.columns.assign(static_cast<std::size_t>(views), 0);
  if (views < kFew || views > kMany || row.size(1) < 32) {
    out.problem = concat("there are ", views, " views of ", row.size(1), " columns");
    return out;
  }
  // What the object elsewhere would do, and the constant, which is the axis.
  const at::Tensor angles = at::tensor(scan.angles, at::kDouble).unsqueeze(1), one = at::ones_like(angles);
  const at::Tensor elsewhere =
      std::get<0>(at::linalg_qr(at::cat({one, at::cos(angles), at::sin(angles)}, 1)));
  const at::Tensor fixed = axis ? elsewhere.narrow(1, 1, 2) : elsewhere;
  const SeenTwice rays(row, scan, scan.axis_offset);
  at::Tensor shifts = at::zeros({views}, at::kDouble);
  for (int round = 0; round < kRounds; ++round) {
    const SeenTwice::Equations found = rays.at(shifts);
    const at::Tensor weight = at::diag(found.square);
    const double mean = weight.mean().item<double>();
    if (!(mean > 0) || weight.min().item<double>() < kHardly * mean) {
      out.problem = "views are not seen from both sides";
      return out;
    }
    const at::Tensor inverse =
        at::linalg_inv(found.square + static_cast<double>(views) * mean * fixed.matmul(fixed.t()) +
                       kRidge * mean * at::eye(views, at::kDouble));
    at::Tensor step = inverse.matmul(found.right);
    step = (step - fixed.matmul(fixed.t().matmul(step))).clamp(-kStride, kStride);
    shifts = (shifts + step).contiguous();
    // Smoothed noise repeats itself over 2 sqrt(pi) sigma columns, and each pair is there twice.
    const double alike = 4 * kSmooth * std::sqrt(std::numbers::pi);
    out.error = std::sqrt(alike * at::diag(inverse).mean().item<double>() * found.left /
                          static_cast<double>(std::max<std::int64_t>(1, found.rays)));
    if (step.abs().max().item<double>() < kStill) break;
  }
  if (!(out.error < kUnsure)) {
    out.problem = "rays from both sides do not tell what stands aside, as where all are about parallel";
    return out;
  }
  const at::Tensor steady = elsewhere.matmul(elsewhere.t().matmul(shifts));
  out.axis = axis ? -steady.mean().item<double>() : 0;
  shifts = (shifts - steady).contiguous();
  std::copy_n(shifts.const_data_ptr<double>(), views, out.columns.begin());
  return out;
}

}  // namespace tessera
