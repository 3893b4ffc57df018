// SPDX-License-Identifier: BSD-3-Clause
// Joseph's rule, the one definition that all kernels agree on.
//
// A ray crosses the planes of voxel centers across its main axis a, the one with the largest step in
// voxels. In each plane it has the weight
//   h(b - b_voxel) h(c - c_voxel) |n| / |n_a / side_a|,   h(t) = max(0, 1 - |t|),
// for the voxels around its crossing (b, c): a path's length times linear interpolation. The weight depends
// on this voxel and this ray alone. Source: P. M. Joseph, IEEE Trans. Med. Imaging 1 (1982) 192.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "tessera/core/both.hpp"
#include "tessera/physics/projection_geometry.hpp"

namespace tessera {

/// A point and a direction, physical units.
struct Ray {
  Vector3 point, direction;
};

/// What of a geometry all rays share; plain data.
struct RaySpace {
  Beam beam = Beam::parallel;
  std::int64_t rows = 1, columns = 1;
  VolumeGrid grid;
};
inline RaySpace ray_space(const ProjectionGeometry& g) { return {g.beam, g.rows, g.columns, g.volume}; }

/// a b, rounded: no compiler makes one operation of it and of a sum that follows, so that a ray has the same main axis
/// wherever it is computed.
TESSERA_BOTH double rounded_product(double a, double b) {
#ifdef __CUDA_ARCH__
  return __dmul_rn(a, b);
#else
  return a * b;
#endif
}

/// v[axis], from registers.
template <class T>
TESSERA_BOTH T element(const std::array<T, 3>& v, std::size_t axis) {
  return axis == 0 ? v[0] : axis == 1 ? v[1] : v[2];
}

TESSERA_BOTH Ray ray_of(const RaySpace& s, const ProjectionView& view, std::int64_t row,
                        std::int64_t column) {
  const double a = static_cast<double>(column) - 0.5 * static_cast<double>(s.columns - 1);
  const double b = static_cast<double>(row) - 0.5 * static_cast<double>(s.rows - 1);
  Ray ray;
  for (std::size_t d = 0; d < 3; ++d) {
    const double across = view.center[d] + rounded_product(a, view.u[d]);
    ray.point[d] = across + rounded_product(b, view.v[d]);
    ray.direction[d] = s.beam == Beam::parallel ? view.source[d]
                       : s.beam == Beam::fan    ? across - view.source[d]
                                                : ray.point[d] - view.source[d];
  }
  return ray;
}
inline Ray ray_of(const ProjectionGeometry& g, const ProjectionView& view, std::int64_t row,
                  std::int64_t column) {
  return ray_of(ray_space(g), view, row, column);
}

/// Main axis of a direction: 0 depth, 1 rows, 2 columns, as in Index3. Of equals rows, then columns.
TESSERA_BOTH std::size_t main_axis(const VolumeGrid& grid, const Vector3& direction) {
  const double x = std::abs(direction[0] / grid.voxel[0]), y = std::abs(direction[1] / grid.voxel[1]),
               z = std::abs(direction[2] / grid.voxel[2]);
  return y >= x && y >= z ? 1 : x >= z ? 2 : 0;
}

/// Index (not rounded) of a physical coordinate along an axis of Index3.
TESSERA_BOTH double index_at(const VolumeGrid& grid, std::size_t axis, double at) {
  return at / element(grid.voxel, 2 - axis) + 0.5 * static_cast<double>(element(grid.size, axis) - 1);
}

/// A ray in voxels: it crosses plane p of its main axis at at[k] + p slope[k] of the other axes.
struct Line {
  std::size_t main, other[2];
  double at[2], slope[2];
  double length;  // between planes, physical units
};

TESSERA_BOTH Line line_of(const VolumeGrid& grid, const Ray& ray) {
  Line line{};
  line.main = main_axis(grid, ray.direction);
  line.other[0] = line.main == 0 ? 1 : 0;
  line.other[1] = line.main == 2 ? 1 : 2;
  const auto step = [&](std::size_t axis) {
    return element(ray.direction, 2 - axis) / element(grid.voxel, 2 - axis);
  };
  const double along = step(line.main), plane = index_at(grid, line.main, element(ray.point, 2 - line.main));
  double square = 0;
  for (std::size_t d = 0; d < 3; ++d) square += ray.direction[d] * ray.direction[d];
  line.length = std::sqrt(square) / std::abs(along);
  for (std::size_t k = 0; k < 2; ++k) {
    line.slope[k] = step(line.other[k]) / along;
    line.at[k] = index_at(grid, line.other[k], element(ray.point, 2 - line.other[k])) - line.slope[k] * plane;
  }
  return line;
}

/// Planes [first, end), none where first >= end.
struct PlaneRange {
  std::int64_t first, end;
};

/// Those in which a line may meet voxels of the block [lo, hi).
TESSERA_BOTH PlaneRange planes_of(const Line& line, const Index3& lo, const Index3& hi) {
  double first = static_cast<double>(element(lo, line.main)),
         last = static_cast<double>(element(hi, line.main) - 1);
  for (std::size_t k = 0; k < 2; ++k) {  // planes where the crossing may lie within a voxel of the block
    const double below = static_cast<double>(element(lo, line.other[k]) - 1) - line.at[k];
    const double above = static_cast<double>(element(hi, line.other[k])) - line.at[k];
    if (line.slope[k] == 0) {
      if (below >= 0 || above <= 0) return {0, 0};
      continue;
    }
    const double from = below / line.slope[k], to = above / line.slope[k];
    first = std::fmax(first, std::fmin(from, to) - 1);
    last = std::fmin(last, std::fmax(from, to) + 1);
  }
  if (!(first <= last)) return {0, 0};
  return {static_cast<std::int64_t>(std::ceil(first)), static_cast<std::int64_t>(std::floor(last)) + 1};
}

/// Calls work(plane) for those planes, one after the other.
template <class Work>
void for_planes(const Line& line, const Box& block, Work work) {
  const PlaneRange planes = planes_of(line, block.lo(), block.hi());
  for (std::int64_t p = planes.first; p < planes.end; ++p) work(p);
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
