// SPDX-License-Identifier: BSD-3-Clause
// Filtered samples back into pixels: each pixel asks where it is seen.
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "tessera/core/error.hpp"
#include "tessera/core/for_this_cpu.hpp"
#include "tessera/physics/ramp_filter.hpp"

namespace tessera {
namespace {

// A view as its pixels need it: of fans and cones, with the position (x, y) of a pixel,
//   depth = dx x + dy y + d0 (along the detector's normal, from the source),
//   column = (ax x + ay y + a0) / depth + middle, row = (z - high) * steep / depth + first,
// and the weight (axis / depth)^2; a fan's row = (z - high) * steep + first, and of a parallel beam depth and axis are 1.
// A pixel's shadow of a parallel beam is `wide` and `narrow` columns, one box smeared by the other.
struct Seen {
  double dx, dy, d0, ax, ay, a0, middle, steep, high, first, axis, wide, narrow;
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
  if (g.beam == Beam::parallel) {  // whose source is a direction: the detector stands where its middle is
    s.d0 = s.axis = far = 1;
    const double x = g.volume.voxel[0] * std::abs(v.u[0]) / (u * u),
                 y = g.volume.voxel[1] * std::abs(v.u[1]) / (u * u);
    s.wide = std::max(x, y);
    s.narrow = std::min(x, y);
  } else {
    s.dx = nx;
    s.dy = ny;
    s.d0 = -v.source[0] * nx - v.source[1] * ny;
    s.axis = s.d0 + g.axis[0] * nx + g.axis[1] * ny;
  }
  const std::array<double, 2> from =
      g.beam == Beam::parallel ? std::array{v.center[0], v.center[1]} : std::array{v.source[0], v.source[1]};
  const double part = far / (u * u);
  s.ax = part * v.u[0];
  s.ay = part * v.u[1];
  s.a0 = -part * (from[0] * v.u[0] + from[1] * v.u[1]);
  s.middle = ((from[0] - v.center[0]) * v.u[0] + (from[1] - v.center[1]) * v.u[1]) / (u * u) +
             0.5 * static_cast<double>(g.columns - 1) - static_cast<double>(samples.lo()[2]);
  const double v2 = v.v[2] != 0 ? v.v[2] : 1;
  const double row = 0.5 * static_cast<double>(g.rows - 1) - static_cast<double>(samples.lo()[1]);
  s.high = s.cone ? v.source[2] : v.center[2];
  s.steep = (s.cone ? far : 1) / v2;
  s.first = row - (s.cone ? (v.center[2] - v.source[2]) / v2 : 0);
  return s;
}

// Columns that a pixel takes at most.
int taps_of(const Seen& s) { return s.wide > 0 ? static_cast<int>(std::ceil(s.wide + s.narrow)) + 1 : 2; }

// Of a row of pixels and one view: the first column that each takes of the padded samples, the weights of that and of those
// after it, tap after tap, and how fast its row on the detector goes with the height.
template <class T>
struct PixelRow {
  explicit PixelRow(std::size_t pixels) : n(pixels), column(n), steep(n), off(n), before(n) {}
  std::size_t n;
  std::vector<int> column;
  std::vector<T> weight, steep, off, before;
};

// Of fans and cones.
template <class T>
struct FillBetween {
  template <int kBytes>
  [[gnu::always_inline]] static void row(const Seen* s, const double* px, double y, int columns,
                                         std::int64_t n, int* column, T* left, T* right, T* steep) {
    const double d0 = s->dy * y + s->d0, a0 = s->ay * y + s->a0, dx = s->dx, ax = s->ax, middle = s->middle,
                 axis = s->axis, per_depth = s->cone ? s->steep : 0, plain = s->cone ? 0 : s->steep;
    for (std::int64_t k = 0; k < n; ++k) {
      const double part = 1 / (dx * px[k] + d0);
      const double at = std::min(std::max((ax * px[k] + a0) * part + middle, -2.0), columns + 0.5);
      const int cell = static_cast<int>(at + 2);
      const T next = static_cast<T>(at + 2 - cell);
      const T weight = static_cast<T>(axis * part * (axis * part));
      column[k] = cell;
      left[k] = (1 - next) * weight;
      right[k] = next * weight;
      steep[k] = static_cast<T>(per_depth * part + plain);
    }
  }
};

// Of a parallel beam: the first column.
template <class T>
struct FillShadow {
  template <int kBytes>
  [[gnu::always_inline]] static void row(const Seen* s, const double* px, double y, int columns, int taps,
                                         std::int64_t n, int* column, T* off) {
    const double ax = s->ax, a0 = s->ay * y + s->a0 + s->middle, half = 0.5 - 0.5 * (s->wide + s->narrow),
                 least = -taps, most = columns;
    for (std::int64_t k = 0; k < n; ++k) {
      const double at = ax * px[k] + a0, from = std::min(std::max(at + half, least), most);
      const int cell = static_cast<int>(from - least);
      column[k] = cell;
      off[k] = static_cast<T>(std::min(std::max(at - least, -1.0), columns + 2.0 * taps) - cell);
    }
  }
};

// The share of a shadow, two boxes smeared by each other, that lies left of the end of tap j, less what was before.
template <class T>
struct FillTap {
  template <int kBytes>
  [[gnu::always_inline]] static void row(T wide, T narrow, T end, const T* off, std::int64_t n, T* before,
                                         T* weight) {
    const T half = (wide + narrow) / 2, flat = (wide - narrow) / 2, slope = 1 / wide,
            rest = narrow / (2 * wide), curve = narrow > 0 ? 1 / (2 * wide * narrow) : 0;
    for (std::int64_t k = 0; k < n; ++k) {
      const T s = end - off[k], a = std::abs(s), round = std::min(std::max(half - a, T(0)), narrow);
      const T share = T(0.5) + std::copysign(std::min(a, flat) * slope + rest - round * round * curve, s);
      weight[k] = share - before[k];
      before[k] = share;
    }
  }
};

// x += a row of pixels of a cone, each between two rows of the detector.
template <class T>
struct GatherCone {
  template <int kBytes>
  [[gnu::always_inline]] static void row(const PixelRow<T>* line, const T* view, T height, T first, int rows,
                                         int stride, std::int64_t n, T* x) {
    const int* const column = line->column.data();
    const T *const left = line->weight.data(), *const right = left + n, *const steep = line->steep.data();
    for (std::int64_t k = 0; k < n; ++k) {
      const T at = std::min(std::max(height * steep[k] + first, T(-2)), rows + T(0.5)) + 2;
      const int cell = static_cast<int>(at), from = cell * stride + column[k];
      const T lower = at - static_cast<T>(cell);
      x[k] += (1 - lower) * (left[k] * view[from] + right[k] * view[from + 1]) +
              lower * (left[k] * view[from + stride] + right[k] * view[from + stride + 1]);
    }
  }
};

// The same where all of them are seen in one row of the detector, with a weight of its own.
template <class T>
struct GatherRow {
  template <int kBytes>
  [[gnu::always_inline]] static void row(const int* column, const T* weight, const T* samples, T of_row,
                                         std::int64_t n, T* x) {
    for (std::int64_t k = 0; k < n; ++k) x[k] += of_row * weight[k] * samples[column[k]];
  }
};

// Samples with zeros around them: as many rows and columns as pixels beside the detector reach for.
struct Padded {
  at::Tensor samples;  // (views, rows + 4, columns + 2 pad)
  int rows, columns, pad, stride;
};
Padded padded(const at::Tensor& y, int taps) {
  const int pad = taps;
  const auto rows = static_cast<int>(y.size(1)), columns = static_cast<int>(y.size(2));
  return {at::constant_pad_nd(y, {pad, pad, 2, 2}), rows, columns, pad, columns + 2 * pad};
}

template <class T>
void fill(const Seen& s, const std::vector<double>& px, double y, const Padded& p, PixelRow<T>& line) {
  const int taps = taps_of(s);
  const auto n = static_cast<std::int64_t>(line.n);
  line.weight.resize(static_cast<std::size_t>(taps) * line.n);
  T* const weight = line.weight.data();
  if (s.wide == 0)
    return ForThisCpu<FillBetween<T>, const Seen*, const double*, double, int, std::int64_t, int*, T*, T*,
                      T*>::row(&s, px.data(), y, p.columns, n, line.column.data(), weight, weight + n,
                               line.steep.data());
  ForThisCpu<FillShadow<T>, const Seen*, const double*, double, int, int, std::int64_t, int*, T*>::row(
      &s, px.data(), y, p.columns, p.pad, n, line.column.data(), line.off.data());
  std::fill(line.before.begin(), line.before.end(), T(0));
  std::fill(line.steep.begin(), line.steep.end(), static_cast<T>(s.steep));
  for (int j = 0; j < taps; ++j)
    ForThisCpu<FillTap<T>, T, T, T, const T*, std::int64_t, T*, T*>::row(
        static_cast<T>(s.wide), static_cast<T>(s.narrow), static_cast<T>(j + 0.5), line.off.data(), n,
        line.before.data(), weight + j * n);
}

// A row of pixels of one slice.
template <class T>
void gather(const Seen& s, const PixelRow<T>& line, const T* view, double z, const Padded& p, T* x) {
  const auto n = static_cast<std::int64_t>(line.n);
  if (s.cone)
    return ForThisCpu<GatherCone<T>, const PixelRow<T>*, const T*, T, T, int, int, std::int64_t, T*>::row(
        &line, view, static_cast<T>(z - s.high), static_cast<T>(s.first), p.rows, p.stride, n, x);
  const double at = (z - s.high) * s.steep + s.first, cell = std::floor(at);
  for (int j = 0; j < 2; ++j) {
    const double row = cell + j, part = j == 0 ? 1 - (at - cell) : at - cell;
    if (part == 0 || row < 0 || !(row < p.rows)) continue;
    for (int tap = 0; tap < taps_of(s); ++tap)
      ForThisCpu<GatherRow<T>, const int*, const T*, const T*, T, std::int64_t, T*>::row(
          line.column.data(), line.weight.data() + tap * n,
          view + (static_cast<std::int64_t>(row) + 2) * p.stride + tap, static_cast<T>(part), n, x);
  }
}

std::vector<double> positions(const ProjectionGeometry& g, const Box& block, std::size_t axis) {
  std::vector<double> out;
  for (std::int64_t k = block.lo()[axis]; k < block.hi()[axis]; ++k)
    out.push_back((static_cast<double>(k) - 0.5 * static_cast<double>(g.volume.size[axis] - 1)) *
                  g.volume.voxel[2 - axis]);
  return out;
}

// Taps of all views: the padding, in which pixels beside the detector find zeros.
int most_taps(const ProjectionGeometry& g, const Box& samples) {
  int most = 2;
  for (std::int64_t n = samples.lo()[0]; n < samples.hi()[0]; ++n)
    most = std::max(most, taps_of(seen_by(g, g.views[static_cast<std::size_t>(n)], samples)));
  return most;
}

template <class T>
void on_host(const ProjectionGeometry& g, const Box& block, const Box& samples, const at::Tensor& y,
             const at::Tensor& x) {
  const std::vector<double> px = positions(g, block, 2), py = positions(g, block, 1),
                            pz = positions(g, block, 0);
  const std::int64_t width = block.extent(2), height = block.extent(1);
  const Padded p = padded(y, most_taps(g, samples));
  const std::int64_t of_view = static_cast<std::int64_t>(p.rows + 4) * p.stride;
  const T* const from = p.samples.const_data_ptr<T>();
  T* const to = x.mutable_data_ptr<T>();
  at::parallel_for(0, height, 1, [&](std::int64_t begin, std::int64_t end) {
    PixelRow<T> line(px.size());
    for (std::int64_t n = samples.lo()[0]; n < samples.hi()[0]; ++n) {
      const Seen s = seen_by(g, g.views[static_cast<std::size_t>(n)], samples);
      const T* const view = from + (n - samples.lo()[0]) * of_view;
      for (std::int64_t h = begin; h < end; ++h) {
        fill(s, px, py[static_cast<std::size_t>(h)], p, line);
        for (std::size_t d = 0; d < pz.size(); ++d)
          gather(s, line, view, pz[d], p, to + (static_cast<std::int64_t>(d) * height + h) * width);
      }
    }
  });
}

}  // namespace

// Columns and weights are tensors too: nothing of a view's pixels passes through the host.
void backproject_by_tensors(const ProjectionGeometry& g, const Box& block, const Box& samples,
                            const at::Tensor& y, const at::Tensor& x) {
  const auto line = [&](std::size_t axis) {
    return at::tensor(positions(g, block, axis), at::kDouble).to(x.device());
  };
  const at::Tensor px = line(2), py = line(1).unsqueeze(1);
  const std::vector<double> pz = positions(g, block, 0);
  const Padded p = padded(y, most_taps(g, samples));
  for (std::int64_t n = samples.lo()[0]; n < samples.hi()[0]; ++n) {
    const Seen s = seen_by(g, g.views[static_cast<std::size_t>(n)], samples);
    const at::Tensor depth = px.mul(s.dx) + py.mul(s.dy) + s.d0;
    const at::Tensor at = (px.mul(s.ax) + py.mul(s.ay) + s.a0).div_(depth).add_(s.middle);
    const at::Tensor cell = at.add(s.wide > 0 ? 0.5 - 0.5 * (s.wide + s.narrow) : 0).floor_(),
                     off = at - cell;
    std::vector<at::Tensor> weights;
    if (s.wide > 0) {
      at::Tensor before = at::zeros_like(off);
      for (int j = 0; j < taps_of(s); ++j) {
        const at::Tensor e = off.neg().add_(j + 0.5), a = e.abs();
        const at::Tensor round = a.neg().add_((s.wide + s.narrow) / 2).clamp_(0, s.narrow);
        const at::Tensor share =
            a.clamp_max((s.wide - s.narrow) / 2).div_(s.wide).add_(s.narrow / (2 * s.wide));
        if (s.narrow > 0) share.sub_(round.square().div_(2 * s.wide * s.narrow));
        const at::Tensor left = share.copysign(e).add_(0.5);
        weights.push_back((left - before).to(x.scalar_type()));
        before = left;
      }
    } else {
      const at::Tensor weight = depth.reciprocal().mul_(s.axis).square_();
      weights = {(off.neg().add_(1) * weight).to(x.scalar_type()), (off * weight).to(x.scalar_type())};
    }
    const at::Tensor column = cell.clamp(-p.pad, p.columns).add_(p.pad).to(at::kLong);
    const at::Tensor steep = s.cone ? depth.reciprocal().mul_(s.steep) : at::full_like(at, s.steep);
    const at::Tensor view = p.samples[n - samples.lo()[0]].flatten();
    for (std::size_t d = 0; d < pz.size(); ++d) {
      const at::Tensor row = steep.mul(pz[d] - s.high).add_(s.first).clamp_(-2, p.rows + 0.5).add_(2),
                       upper = row.floor();
      const at::Tensor lower = (row - upper).to(x.scalar_type());
      const at::Tensor start = upper.to(at::kLong).mul_(p.stride).add_(column);
      for (std::int64_t second = 0; second < 2; ++second)
        for (std::size_t j = 0; j < weights.size(); ++j)
          x[static_cast<std::int64_t>(d)].addcmul_(
              view.index_select(0, start.add(second * p.stride + static_cast<std::int64_t>(j)).flatten())
                  .view_as(lower),
              weights[j] * (second == 0 ? 1 - lower : lower));
    }
  }
}

void backproject_pixels(const ProjectionGeometry& g, const Box& block, const Box& samples,
                        const at::Tensor& y, const at::Tensor& x) {
  if (x.is_cuda()) return backproject_by_tensors(g, block, samples, y, x);
  TESSERA_EXPECT(x.is_contiguous() && y.is_contiguous(), "a block to be projected back into has gaps");
  return x.scalar_type() == at::kDouble ? on_host<double>(g, block, samples, y, x)
                                        : on_host<float>(g, block, samples, y, x);
}

}  // namespace tessera
