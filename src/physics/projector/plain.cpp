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
        double sum = 0;
        for_taps(line, block, [&](std::int64_t d, std::int64_t h, std::int64_t w, double weight) {
          sum += weight * static_cast<double>(x[place(block, d, h, w)]);
        });
        y[place(samples, v, row, column)] += static_cast<T>(line.length * sum);
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
