// SPDX-License-Identifier: BSD-3-Clause
// One slice: a register holds neighboring columns (projection) or pixels (adjoint). What they read in a row
// lies within two registers' width, so that two loads and a permutation bring it; no gathers. One body for
// each instruction set, whose file has defined Vec.
#pragma once

#include "kernels.hpp"

namespace tessera {
namespace {

using Size = std::int64_t;

alignas(64) constexpr float kCount[kMostPlanes] = {
    0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21,
    22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43,
    44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63};
constexpr double kWindow =
    2 * kLanes - 2.5;  // widest span of crossings that two registers hold with their neighbors

inline double lesser(double a, double b) { return a < b ? a : b; }
inline double greater(double a, double b) { return a > b ? a : b; }
inline Size lesser(Size a, Size b) { return a < b ? a : b; }
inline Size greater(Size a, Size b) { return a > b ? a : b; }
inline double clamped(double x, double lo, double hi) { return lesser(greater(x, lo), hi); }

// Planes [r0, r1) where a crossing x + r slope of at most `span` more cells may lie within a cell of [0,
// cells).
struct Planes {
  Size first, last;
};
inline Planes crossed(double x, double slope, double span, Size planes, Size cells) {
  constexpr double kRounded = 1e-6;  // of lines that go almost along the planes' normal
  const double lo = -1 - kRounded - span - x, hi = static_cast<double>(cells) + kRounded - x;
  if (slope == 0) return {0, lo < 0 && hi > 0 ? planes : 0};
  const double from = lesser(lo / slope, hi / slope), to = greater(lo / slope, hi / slope);
  const double most = static_cast<double>(planes);
  return {static_cast<Size>(clamped(from, 0, most)), static_cast<Size>(clamped(to + 2, 0, most))};
}

// Crossings x + r slope as whole cells, kept where a row with margins has two registers of numbers, and the
// rest.
inline void split(double x, double slope, Size planes, Size cells, std::int32_t* cell, float* part) {
  for (Size r = 0; r < planes; ++r) {
    const double at = __builtin_fma(slope, static_cast<double>(r), x), down = __builtin_floor(at);
    part[r] = static_cast<float>(at - down);
    cell[r] =
        static_cast<std::int32_t>(clamped(down, static_cast<double>(-kMargin), static_cast<double>(cells)));
  }
}

template <bool kFan>
inline void slice_sums(const SliceProject& t, Planes planes, const float* apart, const float* turn,
                       const std::int32_t* cell, const float* part, float* sums) {
  const Vec a = load(apart), d = load(turn);
  Vec flat = all(0), rise = all(0);
  for (Size r = planes.first; r < planes.last; ++r) {
    const float* row = t.image + r * t.span.plane_stride + cell[r];
    Vec x = a + all(part[r]);
    if (kFan) x = fma(d, all(kCount[r]), x);
    const Vec f = part_of(x), lo = load(row), hi = load(row + kLanes);
    const Cells c = cell_of(x);
    const Vec u = pick(lo, hi, c), v = pick(lo, hi, next(c));
    flat += u;
    rise = fma(f, v - u, rise);
  }
  store(sums, flat + rise);
}

// The same for lines that stand too wide apart.
inline float slice_sum(const SliceProject& t, double x, double slope) {
  const Planes planes = crossed(x, slope, 0, t.span.planes, t.span.cells);
  float flat = 0, rise = 0;
  for (Size r = planes.first; r < planes.last; ++r) {
    const double at = __builtin_fma(slope, static_cast<double>(r), x), down = __builtin_floor(at);
    const float* row = t.image + r * t.span.plane_stride +
                       static_cast<Size>(clamped(down, -2, static_cast<double>(t.span.cells)));
    flat += row[0];
    rise += static_cast<float>(at - down) * (row[1] - row[0]);
  }
  return flat + rise;
}

void slice_project(const SliceProject& t) {
  for (Size i = 0; i < t.lines.columns; i += kLanes) {
    const Size n = lesser(kLanes, t.lines.columns - i);
    double x[kLanes], slope[kLanes];
    for (Size l = 0; l < kLanes; ++l) {
      const Size k = i + lesser(l, n - 1);
      slope[l] = t.lines.slope[k];
      x[l] = __builtin_fma(slope[l], static_cast<double>(t.span.first_plane), t.lines.at[k]) -
             static_cast<double>(t.span.first_cell);
    }
    // Lines do not cross among themselves: the lowest stays the lowest.
    const double most = static_cast<double>(t.span.planes - 1), half = 0.5 * most;
    const int low = x[0] + half * slope[0] <= x[kLanes - 1] + half * slope[kLanes - 1] ? 0 : kLanes - 1;
    const int high = kLanes - 1 - low;
    const double span = greater(x[high] - x[low], x[high] - x[low] + most * (slope[high] - slope[low]));
    if (span > kWindow) {
      for (Size l = 0; l < n; ++l) t.sums[i + l] += slice_sum(t, x[l], slope[l]);
      continue;
    }
    const Planes planes = crossed(x[low], slope[low], span, t.span.planes, t.span.cells);
    if (planes.first >= planes.last) continue;
    alignas(64) float apart[kLanes], turn[kLanes], sums[kLanes];
    for (Size l = 0; l < kLanes; ++l) {
      apart[l] = static_cast<float>(x[l] - x[low]);
      turn[l] = static_cast<float>(slope[l] - slope[low]);
    }
    alignas(64) std::int32_t cell[kMostPlanes];
    alignas(64) float part[kMostPlanes];
    split(x[low], slope[low], t.span.planes, t.span.cells, cell, part);
    const bool fan = slope[high] != slope[low];
    (fan ? slice_sums<true> : slice_sums<false>)(t, planes, apart, turn, cell, part, sums);
    for (Size l = 0; l < n; ++l) t.sums[i + l] += sums[l];
  }
}

void slice_gather(const SliceGather& t) {
  constexpr Size kMost = 64;  // rows, and registers of columns
  const Size registers = t.vectors * (kAlign / kLanes), stride = t.vectors * kAlign;
  for (Size k = 0; k < t.views; ++k) {
    const SliceGatherView& view = t.view[k];
    const double below = lesser(0.0, view.right * (kLanes - 1));
    alignas(64) float apart[kLanes], part[kMost], aside[kMost];
    std::int32_t down[kMost], right[kMost];
    for (Size l = 0; l < kLanes; ++l)
      apart[l] = static_cast<float>(view.right * static_cast<double>(l) - below);
    for (Size r = 0; r < t.rows; ++r) {
      const double at = __builtin_fma(view.down, static_cast<double>(t.row + r), view.start);
      const double whole = __builtin_floor(at);
      down[r] = static_cast<std::int32_t>(whole);
      part[r] = static_cast<float>(at - whole);
    }
    for (Size m = 0; m < registers; ++m) {
      const double at = __builtin_fma(view.right, static_cast<double>(t.column + m * kLanes), below);
      const double whole = __builtin_floor(at);
      right[m] = static_cast<std::int32_t>(whole) - static_cast<std::int32_t>(t.first_column);
      aside[m] = static_cast<float>(at - whole);
    }
    const float* y = t.samples + k * t.view_stride;
    const Vec one = all(1), steep = all(view.steep), rest = one - steep;
    for (Size m = 0; m < registers; ++m) {
      const Vec a = load(apart) + all(aside[m]);
      float* tile = t.tile + m * kLanes;
      for (Size r = 0; r < t.rows; ++r, tile += stride) {
        const Size column = greater(-kMargin, lesser(t.columns, Size{down[r]} + right[m]));
        const Vec x = a + all(part[r]), f = part_of(x);
        const Cells c = cell_of(x);
        const Vec lo = load(y + column), hi = load(y + column + kLanes);
        Vec sum = load(tile);
        sum = fma(positive(fnma(steep, f, one)), pick(lo, hi, c), sum);
        sum = fma(positive(fma(steep, f, rest)), pick(lo, hi, next(c)), sum);
        store(tile, sum);
      }
    }
  }
}

// Where pixels of one register are seen, of a plane each: lane l at (top + l step) / (1 + l bend) lines
// from line `low`.
struct Seen {
  double low[kMostPlanes];
  float top[kMostPlanes], step[kMostPlanes], bend[kMostPlanes];
};
// Taps begin at floor(q) for two, one before the nearest for three, floor(q) - 1 for four; `shift` is what
// q grows by.
inline void see(const SliceGatherLines& t, double cell, double shift, Seen& s) {
  const double step = t.number[2], bend = t.depth[2], last = kLanes - 1;
  const double number = t.number[0] + step * cell, depth = t.depth[0] + bend * cell;
  for (Size r = 0; r < t.planes; ++r) {
    const double plane = static_cast<double>(t.plane + r);
    const double n = number + t.number[1] * plane, d = depth + t.depth[1] * plane;
    const double far_n = n + step * last, far_d = d + bend * last;
    const double inverse = 1 / (d * far_d), one = far_d * inverse;
    const double low = __builtin_floor(lesser(n * one, far_n * (d * inverse)) + shift - 0.01);
    s.low[r] = low;
    s.top[r] = static_cast<float>((n - low * d) * one);
    s.step[r] = static_cast<float>((step - low * bend) * one);
    s.bend[r] = static_cast<float>(bend * one);
  }
}

template <int kTaps>
inline void gather_lines(const SliceGatherLines& t) {
  constexpr float kNowhere = 1e9F;
  constexpr double kShift = kTaps == 3 ? 0.5 : 0;
  const Size registers = t.vectors * (kAlign / kLanes), stride = t.vectors * kAlign,
             columns = t.lines.columns;
  float* at = t.room + kMargin;
  for (Size i = 1; i <= kMargin; ++i) at[-i] = at[columns + i - 1] = kNowhere;
  const Vec lane = load(kCount);
  Seen seen[64 / kLanes];
  for (Size m = 0; m < registers; ++m) see(t, static_cast<double>(t.cell + m * kLanes), kShift, seen[m]);
  for (Size r = 0; r < t.planes; ++r) {
    const double plane = static_cast<double>(t.plane + r), cell = static_cast<double>(t.cell);
    for (Size i = 0; i < columns; ++i)
      at[i] = static_cast<float>(__builtin_fma(t.lines.slope[i], plane, t.lines.at[i]) - cell);
    float* tile = t.tile + r * stride;
    for (Size m = 0; m < registers; ++m, tile += kLanes) {
      const double low = seen[m].low[r] - (kTaps > 2 ? 1 : 0);
      if (low >= static_cast<double>(columns) || low <= -2.0 * kLanes) continue;
      const Size first = static_cast<Size>(low);
      const Vec number = fma(lane, all(seen[m].step[r]), all(seen[m].top[r]));
      const Vec x =
          fma(number, reciprocal(fma(lane, all(seen[m].bend[r]), all(1))), all(static_cast<float>(kShift)));
      const Vec mine = lane + all(static_cast<float>(m * kLanes));
      Cells c = cell_of(x);
      const Vec y0 = load(t.samples + first), y1 = load(t.samples + first + kLanes);
      const Vec x0 = load(at + first), x1 = load(at + first + kLanes);
      Vec sum = load(tile);
#pragma GCC unroll 4
      for (int k = 0; k < kTaps; ++k) {
        if (k > 0) c = next(c);
        sum = fma(positive(all(1) - distance(pick(x0, x1, c), mine)), pick(y0, y1, c), sum);
      }
      store(tile, sum);
    }
  }
}

void slice_gather_lines(const SliceGatherLines& t) {
  (t.taps == 2 ? gather_lines<2> : t.taps == 3 ? gather_lines<3> : gather_lines<4>)(t);
}

}  // namespace
}  // namespace tessera
