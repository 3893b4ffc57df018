// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels.hpp"
#include "tessera/core/box.hpp"
#include "tessera/physics/projection_geometry.hpp"

namespace tessera {

/// What the fast kernels must know of a view, from the whole volume alone, so that every block of it goes
/// the same way.
struct ViewTraits {
  bool fast = false;   // rows stand along z, and z is the main axis of no ray that meets the volume
  double closest = 1;  // cells between the crossings of neighboring columns, at least
  double row_step_least = 1, row_step_most = 1;  // slices between the crossings of neighboring rows
};
ViewTraits view_traits(const ProjectionGeometry& geometry, std::int64_t view);

/// Columns [first, last) of one view whose rays have their main axis (1 rows, 2 columns of the volume) in
/// common.
struct ColumnRun {
  std::int64_t first, last;
  std::size_t main;
};

/// The lines of columns [first, last) of one view that is fast, in the plane of x and y.
///
/// at, slope: as LineSpan's. length: between planes, in the plane. Cone: the ray to row j is
/// sqrt(1 + (z / across)^2) times as long, where z is its step along z from source to detector.
class ViewLines {
 public:
  ViewLines(const ProjectionGeometry& geometry, std::int64_t view, std::int64_t first, std::int64_t last);
  std::int64_t first() const { return first_; }
  std::int64_t last() const { return first_ + static_cast<std::int64_t>(at_.size()); }
  const std::vector<ColumnRun>& runs() const { return runs_; }
  LineSpan span(const ColumnRun& run) const {
    return {run.last - run.first, at_.data() + (run.first - first_), slope_.data() + (run.first - first_)};
  }
  float length(std::int64_t column) const { return length_[index(column)]; }
  /// Cone: of the whole rays of n columns from `column` on to one row.
  void lengths(std::int64_t column, std::int64_t n, std::int64_t row, float* to) const {
    const auto z = static_cast<float>(rise_ + static_cast<double>(row) * rise_step_);
    const float* length = length_.data() + (column - first_);
    const float* across = across_.data() + (column - first_);
    for (std::int64_t i = 0; i < n; ++i) to[i] = length[i] * std::sqrt(1 + z * z * across[i]);
  }
  ConeRows rows(const ColumnRun& run) const {
    return {source_slice_, rise_slices_, rise_step_slices_, t0_.data() + (run.first - first_),
            t1_.data() + (run.first - first_)};
  }

 private:
  std::size_t index(std::int64_t column) const { return static_cast<std::size_t>(column - first_); }
  std::int64_t first_;
  std::vector<double> at_, slope_, t0_, t1_;
  std::vector<float> length_, across_;  // across: 1 / (step from source to detector in the plane)^2
  std::vector<ColumnRun> runs_;
  double rise_ = 0, rise_step_ = 0;  // of rows along z from the source, physical
  double source_slice_ = 0, rise_slices_ = 0, rise_step_slices_ = 0;
};

/// Where rows of a parallel or fan beam meet the slices: row j at slice start + step j.
struct RowSlices {
  double start, step;
};
RowSlices row_slices(const ProjectionGeometry& geometry, std::int64_t view);

/// The column of a pixel's middle as a fraction: (number[0] + number[1] h + number[2] w) / (depth[0] +
/// ...).
struct SeenColumn {
  std::array<double, 3> number{}, depth{};
};
SeenColumn seen_column(const ProjectionGeometry& geometry, std::int64_t view);

/// Columns of a view, within [first, last), that may meet pixels [h0, h1) x [w0, w1): at most two more than
/// must be.
std::array<std::int64_t, 2> columns_of(const SeenColumn& seen, std::int64_t h0, std::int64_t h1,
                                       std::int64_t w0, std::int64_t w1, std::int64_t first,
                                       std::int64_t last);

}  // namespace tessera
