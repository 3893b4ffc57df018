// SPDX-License-Identifier: BSD-3-Clause
// Joseph's rule, the one definition that all kernels agree on.
//
// A ray crosses the planes of voxel centers across its main axis a, the one with the largest step in
// voxels. In each plane it has the weight
//   h(b - b_voxel) h(c - c_voxel) |n| / |n_a / side_a|,   h(t) = max(0, 1 - |t|),
// for the voxels around its crossing (b, c): a path's length times linear interpolation. The weight depends
// on this voxel and this ray alone. Source: P. M. Joseph, IEEE Trans. Med. Imaging 1 (1982) 192.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "tessera/physics/projection_geometry.hpp"

namespace tessera {

/// A point and a direction, physical units.
struct Ray {
  Vector3 point, direction;
};

inline Ray ray_of(const ProjectionGeometry& g, const ProjectionView& view, std::int64_t row,
                  std::int64_t column) {
  const double a = static_cast<double>(column) - 0.5 * static_cast<double>(g.columns - 1);
  const double b = static_cast<double>(row) - 0.5 * static_cast<double>(g.rows - 1);
  Ray ray;
  for (std::size_t d = 0; d < 3; ++d) {
    const double across = view.center[d] + a * view.u[d];
    ray.point[d] = across + b * view.v[d];
    ray.direction[d] = g.beam == Beam::parallel ? view.source[d]
                       : g.beam == Beam::fan    ? across - view.source[d]
                                                : ray.point[d] - view.source[d];
  }
  return ray;
}

/// Main axis of a direction: 0 depth, 1 rows, 2 columns, as in Index3. Of equals rows, then columns.
inline std::size_t main_axis(const VolumeGrid& grid, const Vector3& direction) {
  const double x = std::abs(direction[0] / grid.voxel[0]), y = std::abs(direction[1] / grid.voxel[1]),
               z = std::abs(direction[2] / grid.voxel[2]);
  return y >= x && y >= z ? 1 : x >= z ? 2 : 0;
}

/// Index (not rounded) of a physical coordinate along an axis of Index3.
inline double index_at(const VolumeGrid& grid, std::size_t axis, double at) {
  return at / grid.voxel[2 - axis] + 0.5 * static_cast<double>(grid.size[axis] - 1);
}

/// A ray in voxels: it crosses plane p of its main axis at at[k] + p slope[k] of the other axes.
struct Line {
  std::size_t main, other[2];
  double at[2], slope[2];
  double length;  // between planes, physical units
};

inline Line line_of(const VolumeGrid& grid, const Ray& ray) {
  Line line{};
  line.main = main_axis(grid, ray.direction);
  line.other[0] = line.main == 0 ? 1 : 0;
  line.other[1] = line.main == 2 ? 1 : 2;
  const auto step = [&](std::size_t axis) { return ray.direction[2 - axis] / grid.voxel[2 - axis]; };
  const double plane = index_at(grid, line.main, ray.point[2 - line.main]);
  double square = 0;
  for (std::size_t d = 0; d < 3; ++d) square += ray.direction[d] * ray.direction[d];
  line.length = std::sqrt(square) / std::abs(step(line.main));
  for (std::size_t k = 0; k < 2; ++k) {
    line.slope[k] = step(line.other[k]) / step(line.main);
    line.at[k] = index_at(grid, line.other[k], ray.point[2 - line.other[k]]) - line.slope[k] * plane;
  }
  return line;
}

/// Calls work(plane) for the planes in which a line may meet voxels of a block, one after the other.
template <class Work>
void for_planes(const Line& line, const Box& block, Work work) {
  double first = static_cast<double>(block.lo()[line.main]),
         last = static_cast<double>(block.hi()[line.main] - 1);
  for (std::size_t k = 0; k < 2; ++k) {  // planes where the crossing may lie within a voxel of the block
    const double lo = static_cast<double>(block.lo()[line.other[k]] - 1) - line.at[k];
    const double hi = static_cast<double>(block.hi()[line.other[k]]) - line.at[k];
    if (line.slope[k] == 0) {
      if (lo >= 0 || hi <= 0) return;
      continue;
    }
    const double from = lo / line.slope[k], to = hi / line.slope[k];
    first = std::fmax(first, std::fmin(from, to) - 1);
    last = std::fmin(last, std::fmax(from, to) + 1);
  }
  if (!(first <= last)) return;
  const auto end = static_cast<std::int64_t>(std::floor(last));
  for (auto p = static_cast<std::int64_t>(std::ceil(first)); p <= end; ++p) work(p);
}

/// Calls tap(depth, row, column, weight without the length) for the voxels of a block around a line's crossing of a
/// plane.
template <class Tap>
void plane_taps(const Line& line, const Box& block, std::int64_t plane, Tap tap) {
  Index3 at{};
  at[line.main] = plane;
  std::int64_t cell[2];
  double part[2];
  for (std::size_t k = 0; k < 2; ++k) {
    const double x = line.at[k] + static_cast<double>(plane) * line.slope[k], down = std::floor(x);
    cell[k] = static_cast<std::int64_t>(down);
    part[k] = x - down;
  }
  for (std::int64_t m = 0; m < 4; ++m) {
    const std::int64_t b = m >> 1, c = m & 1;
    at[line.other[0]] = cell[0] + b;
    at[line.other[1]] = cell[1] + c;
    const double weight = (b ? part[0] : 1 - part[0]) * (c ? part[1] : 1 - part[1]);
    bool inside = weight > 0;
    for (std::size_t k = 0; k < 2; ++k)
      inside = inside && at[line.other[k]] >= block.lo()[line.other[k]] &&
               at[line.other[k]] < block.hi()[line.other[k]];
    if (inside) tap(at[0], at[1], at[2], weight);
  }
}

/// The same for all voxels of a block that a line meets, plane after plane.
template <class Tap>
void for_taps(const Line& line, const Box& block, Tap tap) {
  for_planes(line, block, [&](std::int64_t plane) { plane_taps(line, block, plane, tap); });
}

}  // namespace tessera
