// SPDX-License-Identifier: BSD-3-Clause
#include "view_lines.hpp"

#include <algorithm>
#include <cmath>

#include "ray.hpp"

namespace tessera {

RowSlices row_slices(const ProjectionGeometry& g, std::int64_t index) {
  const ProjectionView& view = g.views[static_cast<std::size_t>(index)];
  const double step = view.v[2] / g.volume.voxel[2];
  return {index_at(g.volume, 0, view.center[2]) - 0.5 * static_cast<double>(g.rows - 1) * step, step};
}

ViewLines::ViewLines(const ProjectionGeometry& g, std::int64_t index, std::int64_t first, std::int64_t last)
    : first_(first) {
  const ProjectionView& view = g.views[static_cast<std::size_t>(index)];
  const Vector3& voxel = g.volume.voxel;
  const auto n = static_cast<std::size_t>(std::max<std::int64_t>(0, last - first));
  at_.reserve(n);
  slope_.reserve(n);
  length_.reserve(n);
  if (g.beam == Beam::cone) {
    rise_step_ = view.v[2];
    rise_ = view.center[2] - view.source[2] - 0.5 * static_cast<double>(g.rows - 1) * rise_step_;
    source_slice_ = index_at(g.volume, 0, view.source[2]);
    rise_slices_ = rise_ / voxel[2];
    rise_step_slices_ = rise_step_ / voxel[2];
  }
  for (std::int64_t i = first; i < last; ++i) {
    Ray ray = ray_of(g, view, 0, i);
    ray.direction[2] = 0;  // the main axis is not z
    const Line line = line_of(g.volume, ray);
    at_.push_back(line.at[1]);  // other[0] is the depth
    slope_.push_back(line.slope[1]);
    length_.push_back(static_cast<float>(line.length));
    if (g.beam == Beam::cone) {
      const std::size_t axis = 2 - line.main;
      const double from = index_at(g.volume, line.main, view.source[axis]);
      const double t1 = voxel[axis] / ray.direction[axis];
      t1_.push_back(t1);
      t0_.push_back(-from * t1);
      across_.push_back(static_cast<float>(
          1 / (ray.direction[0] * ray.direction[0] + ray.direction[1] * ray.direction[1])));
    }
    if (runs_.empty() || runs_.back().main != line.main) runs_.push_back({i, i, line.main});
    runs_.back().last = i + 1;
  }
}

SeenColumn seen_column(const ProjectionGeometry& g, std::int64_t index) {
  const ProjectionView& view = g.views[static_cast<std::size_t>(index)];
  const double z = g.beam == Beam::parallel ? 0 : view.source[2];
  const auto at = [&](double h, double w) {
    const Vector3 p{(w - 0.5 * static_cast<double>(g.volume.size[2] - 1)) * g.volume.voxel[0],
                    (h - 0.5 * static_cast<double>(g.volume.size[1] - 1)) * g.volume.voxel[1], z};
    double depth = 1;
    if (g.beam != Beam::parallel) {
      const double nx = view.u[1], ny = -view.u[0];  // across the detector, in the plane
      depth = ((p[0] - view.source[0]) * nx + (p[1] - view.source[1]) * ny) /
              ((view.center[0] - view.source[0]) * nx + (view.center[1] - view.source[1]) * ny);
    }
    return std::array<double, 2>{project_point(g, index, p)[0] * depth, depth};
  };
  const std::array<double, 2> zero = at(0, 0), down = at(1, 0), right = at(0, 1);
  return {{zero[0], down[0] - zero[0], right[0] - zero[0]}, {zero[1], down[1] - zero[1], right[1] - zero[1]}};
}

std::array<std::int64_t, 2> columns_of(const SeenColumn& seen, std::int64_t h0, std::int64_t h1,
                                       std::int64_t w0, std::int64_t w1, std::int64_t first,
                                       std::int64_t last) {
  double lo = 1e300, hi = -1e300;
  for (const std::int64_t h : {h0 - 1, h1}) {
    for (const std::int64_t w : {w0 - 1, w1}) {
      const auto y = static_cast<double>(h), x = static_cast<double>(w);
      const double q = (seen.number[0] + seen.number[1] * y + seen.number[2] * x) /
                       (seen.depth[0] + seen.depth[1] * y + seen.depth[2] * x);
      lo = std::min(lo, q);
      hi = std::max(hi, q);
    }
  }
  const double least = static_cast<double>(first), most = static_cast<double>(last);
  const auto from = static_cast<std::int64_t>(std::clamp(std::floor(lo), least, most));
  return {from, std::max(from, static_cast<std::int64_t>(std::clamp(std::floor(hi) + 2, least, most)))};
}

ViewTraits view_traits(const ProjectionGeometry& g, std::int64_t index) {
  const ProjectionView& view = g.views[static_cast<std::size_t>(index)];
  ViewTraits traits;
  const Box seen = shadow(g, g.volume.box(), index);
  if (view.u[2] != 0 || view.v[0] != 0 || view.v[1] != 0 || view.v[2] == 0) return traits;
  if (g.beam == Beam::parallel && view.source[2] != 0) return traits;
  traits.fast = true;
  if (seen.empty()) return traits;
  for (std::int64_t i = seen.lo()[2]; i < seen.hi()[2]; ++i)
    for (const std::int64_t j : {seen.lo()[1], seen.hi()[1] - 1})
      traits.fast = traits.fast && main_axis(g.volume, ray_of(g, view, j, i).direction) != 0;
  if (!traits.fast) return traits;
  // Crossings of two lines come closer from plane to plane or move apart: one end has the smallest
  // distance.
  const ViewLines lines(g, index, seen.lo()[2], seen.hi()[2]);
  traits.closest = 1e300;
  for (const ColumnRun& run : lines.runs()) {
    const LineSpan span = lines.span(run);
    const double most = static_cast<double>(g.volume.size[run.main] - 1);
    for (std::int64_t i = 1; i < span.columns; ++i) {
      const double near = span.at[i] - span.at[i - 1];
      const double far = near + most * (span.slope[i] - span.slope[i - 1]);
      traits.closest = std::min({traits.closest, std::abs(near), std::abs(far)});
    }
  }
  if (g.beam != Beam::cone) return traits;
  const SeenColumn column = seen_column(g, index);
  double least = 1e300, most = 0;
  for (const double h : {-1.0, static_cast<double>(g.volume.size[1])}) {
    for (const double w : {-1.0, static_cast<double>(g.volume.size[2])}) {
      const double depth = column.depth[0] + column.depth[1] * h + column.depth[2] * w;
      least = std::min(least, depth);
      most = std::max(most, depth);
    }
  }
  const double step = std::abs(view.v[2] / g.volume.voxel[2]);
  traits.row_step_least = step * least;
  traits.row_step_most = step * most;
  return traits;
}

}  // namespace tessera
