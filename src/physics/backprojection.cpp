// SPDX-License-Identifier: BSD-3-Clause
// Filtered samples of fans and cones back into pixels: each pixel asks where it is seen.
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tessera/core/error.hpp"
#include "tessera/core/for_this_cpu.hpp"
#include "tessera/physics/ramp_filter.hpp"

namespace tessera {
namespace {

// A view as its pixels need it: with the position (x, y) of a pixel
//   depth = dx x + dy y + d0 (along the detector's normal, from the source),
//   column = (ax x + ay y + a0) / depth + middle, row = (z - high) * steep / depth + first,
// a fan's row = (z - high) * steep + first, and the weight (axis / depth)^2.
struct Seen {
  double dx, dy, d0, ax, ay, a0, middle, steep, high, first, axis;
  bool cone;
};

Seen seen_by(const ProjectionGeometry& g, const ProjectionView& v, const Box& samples) {
  const double u = std::hypot(v.u[0], v.u[1]);
  double nx = v.u[1] / u, ny = -v.u[0] / u;  // from the source to the detector
  double far = (v.center[0] - v.source[0]) * nx + (v.center[1] - v.source[1]) * ny;
  if (far < 0) {
    nx = -nx;
    ny = -ny;
    far = -far;
  }
  Seen s{};
  s.cone = g.beam == Beam::cone;
  s.dx = nx;
  s.dy = ny;
  s.d0 = -v.source[0] * nx - v.source[1] * ny;
  s.axis = s.d0;
  const double part = far / (u * u);
  s.ax = part * v.u[0];
  s.ay = part * v.u[1];
  s.a0 = -part * (v.source[0] * v.u[0] + v.source[1] * v.u[1]);
  s.middle = ((v.source[0] - v.center[0]) * v.u[0] + (v.source[1] - v.center[1]) * v.u[1]) / (u * u) +
             0.5 * static_cast<double>(g.columns - 1) - static_cast<double>(samples.lo()[2]);
  const double v2 = v.v[2] != 0 ? v.v[2] : 1;
  const double row = 0.5 * static_cast<double>(g.rows - 1) - static_cast<double>(samples.lo()[1]);
  s.high = s.cone ? v.source[2] : v.center[2];
  s.steep = (s.cone ? far : 1) / v2;
  s.first = row - (s.cone ? (v.center[2] - v.source[2]) / v2 : 0);
  return s;
}

// Of a row of pixels and one view: the columns left and right of where each is seen, their weights, and how fast its row
// on the detector goes with the height.
template <class T>
struct PixelRow {
  explicit PixelRow(std::size_t n) : left(n), right(n), of_left(n), of_right(n), steep(n) {}
  std::vector<int> left, right;
  std::vector<T> of_left, of_right, steep;
};

template <class T>
void fill(const Seen& s, const std::vector<double>& px, double y, int columns, PixelRow<T>& line) {
  for (std::size_t k = 0; k < px.size(); ++k) {
    const double depth = s.dx * px[k] + s.dy * y + s.d0;
    const double at = (s.ax * px[k] + s.ay * y + s.a0) / depth + s.middle, cell = std::floor(at),
                 next = at - cell;
    const bool before = cell < -1 || !(cell < columns);
    const int c = before ? -2 : static_cast<int>(cell);
    const double weight = s.axis / depth * (s.axis / depth);
    line.left[k] = std::clamp(c, 0, columns - 1);
    line.right[k] = std::clamp(c + 1, 0, columns - 1);
    line.of_left[k] = c >= 0 && c < columns ? static_cast<T>((1 - next) * weight) : T(0);
    line.of_right[k] = c >= -1 && c < columns - 1 ? static_cast<T>(next * weight) : T(0);
    line.steep[k] = static_cast<T>(s.cone ? s.steep / depth : s.steep);
  }
}

template <class T>
struct GatherPixels {
  template <int kBytes>
  [[gnu::always_inline]] static void row(const PixelRow<T>* line, const T* view, T height, T first, int rows,
                                         int columns, std::int64_t n, T* x) {
    const int* const left = line->left.data();
    const int* const right = line->right.data();
    const T *const of_left = line->of_left.data(), *const of_right = line->of_right.data(),
                   *const steep = line->steep.data();
    for (std::int64_t k = 0; k < n; ++k) {
      const T at = height * steep[k] + first;
      const T inside = std::min(std::max(at, T(-2)), T(rows + 1));
      const int cell = static_cast<int>(inside + 4) - 4;  // rounded down
      const T next = inside - static_cast<T>(cell);
      const T of_upper = cell >= 0 && cell < rows ? 1 - next : T(0);
      const T of_lower = cell >= -1 && cell < rows - 1 ? next : T(0);
      const int upper = std::min(std::max(cell, 0), rows - 1) * columns,
                lower = std::min(std::max(cell + 1, 0), rows - 1) * columns;
      x[k] += of_upper * (of_left[k] * view[upper + left[k]] + of_right[k] * view[upper + right[k]]) +
              of_lower * (of_left[k] * view[lower + left[k]] + of_right[k] * view[lower + right[k]]);
    }
  }
};

std::vector<double> positions(const ProjectionGeometry& g, const Box& block, std::size_t axis) {
  std::vector<double> out;
  for (std::int64_t k = block.lo()[axis]; k < block.hi()[axis]; ++k)
    out.push_back((static_cast<double>(k) - 0.5 * static_cast<double>(g.volume.size[axis] - 1)) *
                  g.volume.voxel[2 - axis]);
  return out;
}

template <class T>
void on_host(const ProjectionGeometry& g, const Box& block, const Box& samples, const at::Tensor& y,
             const at::Tensor& x) {
  const std::vector<double> px = positions(g, block, 2), py = positions(g, block, 1),
                            pz = positions(g, block, 0);
  const std::int64_t width = block.extent(2), height = block.extent(1);
  const auto rows = static_cast<int>(samples.extent(1)), columns = static_cast<int>(samples.extent(2));
  const T* const from = y.const_data_ptr<T>();
  T* const to = x.mutable_data_ptr<T>();
  at::parallel_for(0, height, 1, [&](std::int64_t begin, std::int64_t end) {
    PixelRow<T> line(px.size());
    for (std::int64_t n = samples.lo()[0]; n < samples.hi()[0]; ++n) {
      const Seen s = seen_by(g, g.views[static_cast<std::size_t>(n)], samples);
      const T* const view = from + (n - samples.lo()[0]) * rows * columns;
      for (std::int64_t h = begin; h < end; ++h) {
        fill(s, px, py[static_cast<std::size_t>(h)], columns, line);
        for (std::size_t d = 0; d < pz.size(); ++d)
          ForThisCpu<GatherPixels<T>, const PixelRow<T>*, const T*, T, T, int, int, std::int64_t, T*>::row(
              &line, view, static_cast<T>(pz[d] - s.high), static_cast<T>(s.first), rows, columns, width,
              to + (static_cast<std::int64_t>(d) * height + h) * width);
      }
    }
  });
}

// The same by torch's kernels, slice by slice.
void on_device(const ProjectionGeometry& g, const Box& block, const Box& samples, const at::Tensor& y,
               const at::Tensor& x) {
  const auto line = [&](std::size_t axis) {
    return at::tensor(positions(g, block, axis), at::kDouble).to(x.device());
  };
  const at::Tensor px = line(2), py = line(1).unsqueeze(1);
  const std::vector<double> pz = positions(g, block, 0);
  const std::int64_t rows = samples.extent(1), columns = samples.extent(2);
  struct Between {
    at::Tensor first, second, of_first, of_second;
  };
  const auto between = [&](const at::Tensor& at, std::int64_t count) {
    const at::Tensor cell = at.floor(), part = at - cell, index = cell.to(at::kLong);
    return Between{index.clamp(0, count - 1), index.add(1).clamp_(0, count - 1),
                   part.neg().add_(1).mul_(cell.ge(0).logical_and_(cell.lt(count))).to(x.scalar_type()),
                   part.mul(cell.ge(-1).logical_and_(cell.lt(count - 1))).to(x.scalar_type())};
  };
  for (std::int64_t n = samples.lo()[0]; n < samples.hi()[0]; ++n) {
    const Seen s = seen_by(g, g.views[static_cast<std::size_t>(n)], samples);
    const at::Tensor depth = px.mul(s.dx) + py.mul(s.dy) + s.d0;
    const Between c = between((px.mul(s.ax) + py.mul(s.ay) + s.a0).div_(depth).add_(s.middle), columns);
    const at::Tensor weight = depth.reciprocal().mul_(s.axis).square_().to(x.scalar_type());
    const at::Tensor steep = s.cone ? depth.reciprocal().mul_(s.steep) : at::full_like(depth, s.steep);
    const at::Tensor view = y[n - samples.lo()[0]].flatten();
    const auto seen = [&](const at::Tensor& row, const at::Tensor& column) {
      return view.index_select(0, row.mul(columns).add_(column).flatten()).view_as(column);
    };
    for (std::size_t d = 0; d < pz.size(); ++d) {
      const Between r = between(steep.mul(pz[d] - s.high).add_(s.first), rows);
      const at::Tensor upper = seen(r.first, c.first) * c.of_first + seen(r.first, c.second) * c.of_second,
                       lower = seen(r.second, c.first) * c.of_first + seen(r.second, c.second) * c.of_second;
      x[static_cast<std::int64_t>(d)].addcmul_(weight, upper * r.of_first + lower * r.of_second);
    }
  }
}

}  // namespace

void backproject_pixels(const ProjectionGeometry& g, const Box& block, const Box& samples,
                        const at::Tensor& y, const at::Tensor& x) {
  TESSERA_EXPECT(g.beam != Beam::parallel, "pixels of a parallel beam are the projector's");
  if (x.is_cuda()) return on_device(g, block, samples, y, x);
  TESSERA_EXPECT(x.is_contiguous() && y.is_contiguous(), "a block to be projected back into has gaps");
  return x.scalar_type() == at::kDouble ? on_host<double>(g, block, samples, y, x)
                                        : on_host<float>(g, block, samples, y, x);
}

}  // namespace tessera
