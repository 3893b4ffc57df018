// SPDX-License-Identifier: BSD-3-Clause
#include "plain.hpp"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "ray.hpp"
#include "tessera/physics/projector.hpp"

namespace tessera {
namespace {

std::size_t longest_axis(const Box& box) {
  std::size_t axis = 0;
  for (std::size_t d = 1; d < 3; ++d)
    if (box.extent(d) > box.extent(axis)) axis = d;
  return axis;
}

std::int64_t place(const Box& box, std::int64_t a, std::int64_t b, std::int64_t c) {
  return ((a - box.lo()[0]) * box.extent(1) + b - box.lo()[1]) * box.extent(2) + c - box.lo()[2];
}

// The sum of a line's taps, that of for_taps(): planes whose crossing lies between voxels of the block, which are
// nearly all, go without asking for each voxel whether it is there.
template <class T>
double line_sum(const Line& line, const Box& block, const T* x) {
  const std::int64_t stride[3] = {block.extent(1) * block.extent(2), block.extent(2), 1};
  const std::size_t b = line.other[0], c = line.other[1];
  // In a picture the crossing lies in the only slice.
  const bool flat =
      block.extent(b) == 1 && line.slope[0] == 0 && line.at[0] == static_cast<double>(block.lo()[b]);
  const double lo_b = static_cast<double>(block.lo()[b]), lo_c = static_cast<double>(block.lo()[c]),
               hi_b = static_cast<double>(block.hi()[b] - 1), hi_c = static_cast<double>(block.hi()[c] - 1);
  double sum = 0;
  for_planes(line, block, [&](std::int64_t p) {
    const double at_b = line.at[0] + static_cast<double>(p) * line.slope[0],
                 at_c = line.at[1] + static_cast<double>(p) * line.slope[1];
    if ((flat || (at_b >= lo_b && at_b < hi_b)) && at_c >= lo_c && at_c < hi_c) {
      const auto cell_b = static_cast<std::int64_t>(at_b), cell_c = static_cast<std::int64_t>(at_c);
      const double part_b = at_b - static_cast<double>(cell_b), part_c = at_c - static_cast<double>(cell_c);
      const T* v = x + (p - block.lo()[line.main]) * stride[line.main] +
                   (cell_b - block.lo()[b]) * stride[b] + (cell_c - block.lo()[c]) * stride[c];
      sum += (1 - part_b) * (1 - part_c) * static_cast<double>(v[0]);
      sum += (1 - part_b) * part_c * static_cast<double>(v[stride[c]]);
      if (flat) return;
      sum += part_b * (1 - part_c) * static_cast<double>(v[stride[b]]);
      sum += part_b * part_c * static_cast<double>(v[stride[b] + stride[c]]);
      return;
    }
    plane_taps(line, block, p, [&](std::int64_t d, std::int64_t h, std::int64_t w, double weight) {
      sum += weight * static_cast<double>(x[place(block, d, h, w)]);
    });
  });
  return sum;
}

}  // namespace

// Threads share out rows of samples.
template <class T>
void plain_project(const ProjectionGeometry& g, const Box& block, const T* x, const Box& samples, T* y) {
  const std::int64_t rows = samples.extent(1);
  at::parallel_for(0, samples.extent(0) * rows, 1, [&](std::int64_t begin, std::int64_t end) {
    Box cast;
    for (std::int64_t n = begin; n < end; ++n) {
      const std::int64_t v = samples.lo()[0] + n / rows, row = samples.lo()[1] + n % rows;
      if (n == begin || n % rows == 0) cast = shadow(g, block, v).intersect(samples);
      if (cast.empty() || row < cast.lo()[1] || row >= cast.hi()[1]) continue;
      for (std::int64_t column = cast.lo()[2]; column < cast.hi()[2]; ++column) {
        const Line line = line_of(g.volume, ray_of(g, g.views[static_cast<std::size_t>(v)], row, column));
        y[place(samples, v, row, column)] += static_cast<T>(line.length * line_sum(line, block, x));
      }
    }
  });
}

// Threads share out slabs of the block; each goes through all rays of its slab's shadow in their order.
template <class T>
void plain_gather(const ProjectionGeometry& g, const Box& block, const Box& samples, const T* y, T* x) {
  const std::size_t axis = longest_axis(block);
  const std::int64_t slabs = std::min<std::int64_t>(block.extent(axis), 2 * at::get_num_threads());
  at::parallel_for(0, slabs, 1, [&](std::int64_t begin, std::int64_t end) {
    Index3 lo = block.lo(), hi = block.hi();
    lo[axis] = block.lo()[axis] + begin * block.extent(axis) / slabs;
    hi[axis] = block.lo()[axis] + end * block.extent(axis) / slabs;
    const Box slab(lo, hi);
    for (std::int64_t v = samples.lo()[0]; v < samples.hi()[0]; ++v) {
      const Box cast = shadow(g, slab, v).intersect(samples);
      for (std::int64_t row = cast.lo()[1]; row < cast.hi()[1]; ++row) {
        for (std::int64_t column = cast.lo()[2]; column < cast.hi()[2]; ++column) {
          const Line line = line_of(g.volume, ray_of(g, g.views[static_cast<std::size_t>(v)], row, column));
          const double value = line.length * static_cast<double>(y[place(samples, v, row, column)]);
          for_taps(line, slab, [&](std::int64_t d, std::int64_t h, std::int64_t w, double weight) {
            x[place(block, d, h, w)] += static_cast<T>(weight * value);
          });
        }
      }
    }
  });
}

template void plain_project(const ProjectionGeometry&, const Box&, const float*, const Box&, float*);
template void plain_project(const ProjectionGeometry&, const Box&, const double*, const Box&, double*);
template void plain_gather(const ProjectionGeometry&, const Box&, const Box&, const float*, float*);
template void plain_gather(const ProjectionGeometry&, const Box&, const Box&, const double*, double*);

void project_plain(const ProjectionGeometry& geometry, const Box& block, const double* x, const Box& samples,
                   double* y, ProjectorInto into) {
  if (into == ProjectorInto::replace) std::fill_n(y, samples.pixels(), 0.0);
  plain_project(geometry, block, x, samples, y);
}

void gather_plain(const ProjectionGeometry& geometry, const Box& block, const Box& samples, const double* y,
                  double* x, ProjectorInto into) {
  if (into == ProjectorInto::replace) std::fill_n(x, block.pixels(), 0.0);
  plain_gather(geometry, block, samples, y, x);
}

}  // namespace tessera
