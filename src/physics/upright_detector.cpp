// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/physics/upright_detector.hpp"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <vector>

namespace tessera {
namespace {

double size_of(const Vector3& a) { return std::sqrt(a[0] * a[0] + a[1] * a[1] + a[2] * a[2]); }

// Where the ray to a point of the detector meets the plane through `middle` across (nx, ny).
Vector3 on_plane(const ProjectionGeometry& g, const ProjectionView& view, const Vector3& point, double nx,
                 double ny) {
  const auto off = [&](const Vector3& p) {
    return (p[0] - view.center[0]) * nx + (p[1] - view.center[1]) * ny;
  };
  if (g.beam == Beam::parallel) {
    const double t = -off(point) / (view.source[0] * nx + view.source[1] * ny);
    return {point[0] + t * view.source[0], point[1] + t * view.source[1], point[2]};
  }
  const double from = off(view.source), t = from / (from - off(point));
  const auto between = [&](std::size_t d) { return view.source[d] + t * (point[d] - view.source[d]); };
  return {between(0), between(1), g.beam == Beam::fan ? point[2] : between(2)};
}

// A view on its upright detector, and what the turned one covers of that: columns and rows from its middle.
struct Uprighted {
  ProjectionView view;
  std::array<double, 2> lo{1e300, 1e300}, hi{-1e300, -1e300};
};

Uprighted uprighted(const ProjectionGeometry& g, const ProjectionView& view) {
  double nx = g.axis[0] - view.source[0], ny = g.axis[1] - view.source[1];  // toward the axis
  if (g.beam == Beam::parallel) nx = view.source[0], ny = view.source[1];
  const double length = std::hypot(nx, ny);
  nx /= length;
  ny /= length;
  const auto across = [&](const Vector3& step) { return step[0] * ny - step[1] * nx; };
  const bool lies = std::abs(across(view.v)) > std::abs(across(view.u));  // a detector on its side
  const Vector3 &wide = lies ? view.v : view.u, &high = lies ? view.u : view.v;
  const double column = std::copysign(size_of(wide), across(wide)),
               row = std::copysign(size_of(high), high[2]);
  Uprighted out;
  out.view = view;
  out.view.u = {column * ny, -column * nx, 0};
  out.view.v = {0, 0, row};
  if (g.beam == Beam::parallel) out.view.source[2] = 0;  // as it is but for rounding
  for (int corner = 0; corner < 4; ++corner) {
    const double i = (corner % 2 - 0.5) * static_cast<double>(g.columns - 1),
                 j = (corner / 2 - 0.5) * static_cast<double>(g.rows - 1);
    Vector3 point = view.center;
    for (std::size_t d = 0; d < 3; ++d) point[d] += i * view.u[d] + j * view.v[d];
    point = on_plane(g, view, point, nx, ny);
    const std::array<double, 2> at{
        ((point[0] - view.center[0]) * ny - (point[1] - view.center[1]) * nx) / column,
        (point[2] - view.center[2]) / row};
    for (std::size_t d = 0; d < 2; ++d) {
      out.lo[d] = std::min(out.lo[d], at[d]);
      out.hi[d] = std::max(out.hi[d], at[d]);
    }
  }
  return out;
}

Vector3 place(const ProjectionGeometry& g, const ProjectionView& view, std::int64_t row,
              std::int64_t column) {
  const double i = static_cast<double>(column) - 0.5 * static_cast<double>(g.columns - 1),
               j = static_cast<double>(row) - 0.5 * static_cast<double>(g.rows - 1);
  Vector3 out = view.center;
  for (std::size_t d = 0; d < 3; ++d) out[d] += i * view.u[d] + j * view.v[d];
  return out;
}

// Catmull and Rom's cubic through four numbers, between the second and the third.
std::array<double, 4> cubic(double t) {
  return {t * (t * (1 - 0.5 * t) - 0.5), 1 + t * t * (1.5 * t - 2.5), t * (0.5 + t * (2 - 1.5 * t)),
          t * t * (0.5 * t - 0.5)};
}

template <class T>
void between(const ProjectionGeometry& turned, const Box& have, const T* y, const ProjectionGeometry& upright,
             const Box& wanted, T* out) {
  const std::int64_t rows = wanted.extent(1), columns = wanted.extent(2);
  at::parallel_for(0, wanted.extent(0) * rows, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = begin; n < end; ++n) {
      const std::int64_t v = wanted.lo()[0] + n / rows, row = wanted.lo()[1] + n % rows;
      const ProjectionView& view = upright.views[static_cast<std::size_t>(v)];
      const T* frame = y + (v - have.lo()[0]) * have.extent(1) * have.extent(2);
      for (std::int64_t i = 0; i < columns; ++i) {
        const std::array<double, 2> at =
            project_point(turned, v, place(upright, view, row, wanted.lo()[2] + i));
        std::array<std::array<std::int64_t, 4>, 2> taps{};  // columns, rows
        std::array<std::array<double, 4>, 2> weights{};
        for (std::size_t d = 0; d < 2; ++d) {
          const std::int64_t size = d == 0 ? turned.columns : turned.rows;
          const double x = std::clamp(at[d], 0.0, static_cast<double>(size - 1)), cell = std::floor(x);
          weights[d] = cubic(x - cell);
          for (std::int64_t k = 0; k < 4; ++k)
            taps[d][static_cast<std::size_t>(k)] =
                std::clamp(static_cast<std::int64_t>(cell) + k - 1, std::int64_t{0}, size - 1);
          for (std::int64_t& tap : taps[d])
            tap = std::clamp(tap, have.lo()[2 - d], have.hi()[2 - d] - 1) - have.lo()[2 - d];
        }
        double sum = 0;
        for (std::size_t j = 0; j < 4; ++j) {
          const T* line = frame + taps[1][j] * have.extent(2);
          double of_row = 0;
          for (std::size_t k = 0; k < 4; ++k) of_row += weights[0][k] * static_cast<double>(line[taps[0][k]]);
          sum += weights[1][j] * of_row;
        }
        out[n * columns + i] = static_cast<T>(sum);
      }
    }
  });
}

}  // namespace

bool is_upright(const ProjectionGeometry& g) {
  constexpr double kAcross =
      1e-6;  // to rays of a parallel beam, whose columns are else closer than they seem
  return std::ranges::all_of(g.views, [&](const ProjectionView& view) {
    const bool across = std::abs(view.u[0] * view.source[0] + view.u[1] * view.source[1]) <=
                        kAcross * size_of(view.u) * size_of(view.source);
    return view.u[2] == 0 && view.v[0] == 0 && view.v[1] == 0 && (g.beam != Beam::parallel || across);
  });
}

ProjectionGeometry upright_detector(const ProjectionGeometry& g) {
  constexpr std::int64_t kLargest = 4;
  ProjectionGeometry out = g;
  std::vector<Uprighted> all;
  double columns = 0, rows = 0;
  for (const ProjectionView& view : g.views) {
    all.push_back(uprighted(g, view));
    columns = std::max(columns, all.back().hi[0] - all.back().lo[0]);
    rows = std::max(rows, all.back().hi[1] - all.back().lo[1]);
  }
  constexpr double kRounding = 1e-6;
  const double most = static_cast<double>(kLargest * std::max(g.columns, g.rows));
  out.columns = static_cast<std::int64_t>(std::min(most, std::ceil(columns - kRounding))) + 1;
  out.rows = static_cast<std::int64_t>(std::min(most, std::ceil(rows - kRounding))) + 1;
  for (std::size_t k = 0; k < all.size(); ++k) {
    out.views[k] = all[k].view;
    for (std::size_t d = 0; d < 3; ++d)
      out.views[k].center[d] += 0.5 * (all[k].lo[0] + all[k].hi[0]) * all[k].view.u[d] +
                                0.5 * (all[k].lo[1] + all[k].hi[1]) * all[k].view.v[d];
    if (g.beam == Beam::fan) out.views[k].source[2] = out.views[k].center[2];
  }
  return out;
}

Box samples_behind(const ProjectionGeometry& turned, const ProjectionGeometry& upright, const Box& wanted) {
  if (wanted.empty()) return {};
  const std::array<double, 2> size{static_cast<double>(turned.columns), static_cast<double>(turned.rows)};
  Index3 first = wanted.lo(), last = wanted.hi();
  for (std::size_t d = 0; d < 2; ++d) {
    double lo = 1e300, hi = -1e300;
    for (std::int64_t v = wanted.lo()[0]; v < wanted.hi()[0]; ++v)
      for (const std::int64_t row : {wanted.lo()[1], wanted.hi()[1] - 1})
        for (const std::int64_t column : {wanted.lo()[2], wanted.hi()[2] - 1}) {
          const Vector3 at = place(upright, upright.views[static_cast<std::size_t>(v)], row, column);
          const double x = project_point(turned, v, at)[d];
          lo = std::min(lo, x);
          hi = std::max(hi, x);
        }
    first[2 - d] = static_cast<std::int64_t>(std::clamp(std::floor(lo - 0.01) - 1, 0.0, size[d] - 1));
    last[2 - d] = static_cast<std::int64_t>(
        std::clamp(std::floor(hi + 0.01) + 3, static_cast<double>(first[2 - d]) + 1, size[d]));
  }
  return {first, last};
}

void onto_upright(const ProjectionGeometry& turned, const Box& have, const at::Tensor& y,
                  const ProjectionGeometry& upright, const Box& wanted, const at::Tensor& out) {
  if (wanted.empty()) return;
  const at::Tensor from = y.to(at::kCPU).contiguous();
  const at::Tensor to = at::empty({wanted.extent(0), wanted.extent(1), wanted.extent(2)}, from.options());
  if (from.scalar_type() == at::kDouble)
    between(turned, have, from.const_data_ptr<double>(), upright, wanted, to.mutable_data_ptr<double>());
  else
    between(turned, have, from.const_data_ptr<float>(), upright, wanted, to.mutable_data_ptr<float>());
  out.copy_(to.view_as(out));
}

}  // namespace tessera
