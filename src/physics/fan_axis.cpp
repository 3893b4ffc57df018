// SPDX-License-Identifier: BSD-3-Clause
// The axis of fans by rays that are seen from both sides.
#include <ATen/TensorOperators.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "opposite_views.hpp"
#include "tessera/core/error.hpp"
#include "tessera/physics/alignment.hpp"

namespace tessera {
namespace {

constexpr std::int64_t kBeside = 2;  // columns, of the difference

// Differences of smoothed rows, (rows, views, columns), 0 at the rim.
at::Tensor differences(const at::Tensor& rows, double blur) {
  const at::Tensor smooth = smoothed_rows(rows, blur);
  const std::int64_t n = rows.size(2) - 2 * kBeside;
  return at::constant_pad_nd(smooth.narrow(2, 2 * kBeside, n) - smooth.narrow(2, 0, n), {kBeside, kBeside})
      .contiguous();
}

class Opposites {
 public:
  Opposites(const at::Tensor& rows, const CircularScan& scan)
      : scan_(scan),
        rows_(rows.size(0)),
        views_(rows.size(1)),
        columns_(rows.size(2)),
        values_(differences(rows, 1.5)),
        rays_(scan) {}

  OppositeEnergy at(double axis, std::int64_t every) const {
    const double middle = 0.5 * static_cast<double>(columns_ - 1) - scan_.detector_shift[0],
                 aside = rays_.aside(axis);
    OppositeEnergy out;
    for (std::int64_t k = 0; k < views_; k += every) {
      const std::size_t group = OppositeEnergy::group(k, views_);
      for (std::int64_t i = kBeside; i<columns_ - kBeside; i += every> 1 ? 2 : 1) {
        const auto opposite = rays_.of(static_cast<std::size_t>(k),
                                       (static_cast<double>(i) - middle) * scan_.column_pitch, aside);
        if (!opposite) continue;
        const double column = opposite->x / scan_.column_pitch + middle;
        if (!(column >= kBeside + 1) || !(column < static_cast<double>(columns_ - kBeside - 2))) continue;
        const auto& [low, high, part] = opposite->place;
        for (std::int64_t row = 0; row < rows_; ++row) {
          const double here = line(row, static_cast<std::size_t>(k))[i];
          // Mirrored: what rises here falls there.
          const double there =
              -(1 - part) * at_column(row, low, column) - part * at_column(row, high, column);
          out.add(group, here, there);
        }
      }
    }
    return out;
  }

 private:
  const double* line(std::int64_t row, std::size_t view) const {
    return values_.const_data_ptr<double>() + (row * views_ + static_cast<std::int64_t>(view)) * columns_;
  }
  double at_column(std::int64_t row, std::size_t view, double column) const {
    const auto cell = static_cast<std::int64_t>(column);
    return between(line(row, view) + cell, column - static_cast<double>(cell));
  }

  const CircularScan& scan_;
  std::int64_t rows_, views_, columns_;
  at::Tensor values_;
  OppositeRays rays_;
};

}  // namespace

at::Tensor smoothed_rows(const at::Tensor& rows, double sigma) {
  const at::Tensor from = rows.contiguous();
  const std::int64_t n = from.size(-1), lines = from.numel() / n;
  const auto reach = static_cast<std::int64_t>(std::ceil(3 * sigma));
  std::vector<double> taps;
  double sum = 0;
  for (std::int64_t k = -reach; k <= reach; ++k) {
    taps.push_back(std::exp(-0.5 * static_cast<double>(k * k) / (sigma * sigma)));
    sum += taps.back();
  }
  at::Tensor out = at::zeros_like(from);
  for (std::int64_t line = 0; line < lines; ++line) {
    const double* const p = from.const_data_ptr<double>() + line * n;
    double* const to = out.mutable_data_ptr<double>() + line * n;
    for (std::int64_t i = 0; i < n; ++i) {
      for (std::int64_t k = -reach; k <= reach; ++k)
        to[i] += taps[static_cast<std::size_t>(k + reach)] * p[std::clamp<std::int64_t>(i + k, 0, n - 1)];
      to[i] /= sum;
    }
  }
  return out;
}

Aligned find_fan_axis(const at::Tensor& rows, const CircularScan& scan) {
  TESSERA_EXPECT(rows.dim() == 3 && rows.size(1) == std::ssize(scan.angles), "sinograms of ", rows.size(1),
                 " views, ", scan.angles.size(), " angles");
  constexpr double kAlike = 0.7;  // of what chance gives
  Aligned out;
  const std::int64_t columns = rows.size(2), views = rows.size(1);
  if (columns < 32 || views < 16) {
    out.problem = columns < 32 ? "there are fewer than 32 columns" : "there are fewer than 16 views";
    return out;
  }
  const Opposites pairs(rows.contiguous(), scan);
  const std::int64_t every = std::max<std::int64_t>(1, views / 90),
                     most = static_cast<std::int64_t>(0.4 * static_cast<double>(columns));
  std::vector<double> shares;
  for (std::int64_t a = -most; a <= most; ++a)
    shares.push_back(pairs.at(static_cast<double>(a), every).share());
  const auto best = std::min_element(shares.begin(), shares.end()) - shares.begin();
  std::vector<double> sorted = shares;
  std::nth_element(sorted.begin(), sorted.begin() + std::ssize(sorted) / 2, sorted.end());
  const double usual = sorted[sorted.size() / 2];
  if (!(shares[static_cast<std::size_t>(best)] < kAlike * usual) || best == 0 || best == 2 * most) {
    out.problem = "the views from opposite sides do not resemble each other for any";
    return out;
  }
  const std::int64_t finer = std::max<std::int64_t>(1, views / 360);
  double at = static_cast<double>(best - most);
  for (double h = 0.5; h > 0.01; h *= 0.5)  // parabolas, ever narrower
    at = lowered(at, h, h, [&](double axis) { return pairs.at(axis, finer).share(); });
  // Each pair is there twice.
  out = with_error(at, 0.5, 2, [&](double axis) { return pairs.at(axis, finer); });
  if (!(out.error < 2)) out.problem = "the views from opposite sides do not tell it to 2 columns";
  return out;
}

double opposite_unlikeness(const at::Tensor& rows, const CircularScan& scan) {
  constexpr double kNear = 2, kStep = 0.5;  // columns
  const Opposites pairs(rows.contiguous(), scan);
  const std::int64_t every = std::max<std::int64_t>(1, rows.size(1) / 90);
  double least = 2;
  for (double off = -kNear; off <= kNear; off += kStep)
    least = std::min(least, pairs.at(scan.axis_offset + off, every).share());
  return least;
}

}  // namespace tessera
