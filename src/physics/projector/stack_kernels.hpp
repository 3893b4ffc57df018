// SPDX-License-Identifier: BSD-3-Clause
// Many slices that are projected alike: a register holds slices, which stand innermost, and a weight serves
// all of them.
#pragma once

#include "slice_kernels.hpp"

namespace tessera {
namespace {

constexpr Size kStackSlices = 4 * kLanes;

// Where a line crosses planes, in floats from the block's first voxel, and its weights for the cells below
// and above.
struct Crossings {
  Planes planes;
  std::int64_t place[kMostPlanes];
  float below[kMostPlanes], above[kMostPlanes];
};
inline void cross(const PlaneSpan& span, double at, double slope, Crossings& c) {
  const double x =
      __builtin_fma(slope, static_cast<double>(span.first_plane), at) - static_cast<double>(span.first_cell);
  c.planes = crossed(x, slope, 0, span.planes, span.cells);
  // Whole coordinates, so that a crossing is in one part of a block and not in the next.
  const double first = static_cast<double>(span.first_cell), last = first + static_cast<double>(span.cells);
  const double lowest = first + static_cast<double>(span.lowest);
  for (Size r = c.planes.first; r < c.planes.last; ++r) {
    const double to = __builtin_fma(slope, static_cast<double>(span.first_plane + r), at);
    const double down = __builtin_floor(to);
    const bool inside = down >= lowest && down < last;
    c.above[r] = inside ? static_cast<float>(to - down) : 0;
    c.below[r] = inside ? 1 - c.above[r] : 0;
    c.place[r] =
        r * span.plane_stride + static_cast<std::int64_t>(inside ? down - first : 0) * span.cell_stride;
  }
}

template <int kN>
inline void stack_sums(const StackProject& t, const Crossings& c, float* sums) {
  Vec lo[kN], hi[kN];
#pragma GCC unroll 4
  for (int n = 0; n < kN; ++n) lo[n] = hi[n] = all(0);
  for (Size r = c.planes.first; r < c.planes.last; ++r) {
    const float* p = t.volume + c.place[r];
    const Vec below = all(c.below[r]), above = all(c.above[r]);
#pragma GCC unroll 4
    for (int n = 0; n < kN; ++n) {
      lo[n] = fma(below, load(p + n * kLanes), lo[n]);
      hi[n] = fma(above, load(p + t.span.cell_stride + n * kLanes), hi[n]);
    }
  }
#pragma GCC unroll 4
  for (int n = 0; n < kN; ++n) store(sums + n * kLanes, load(sums + n * kLanes) + (lo[n] + hi[n]));
}

void stack_project(const StackProject& t) {
  Crossings c;
  const Size n = t.slices / kLanes;
  for (Size i = 0; i < t.lines.columns; ++i) {
    cross(t.span, t.lines.at[i], t.lines.slope[i], c);
    if (c.planes.first >= c.planes.last) continue;
    float* sums = t.sums + i * t.sum_stride;
    (n == 4 ? stack_sums<4> : n == 3 ? stack_sums<3> : n == 2 ? stack_sums<2> : stack_sums<1>)(t, c, sums);
  }
}

void stack_weigh(const StackWeigh& t) {
  const double last = static_cast<double>(t.columns);
  const float steep = t.view.steep, rest = 1 - steep;
  for (Size r = 0; r < t.rows; ++r) {
    const double start = __builtin_fma(t.view.down, static_cast<double>(t.row + r), t.view.start);
    std::int32_t* first = t.first + r * t.width;
    float* weights = t.weights + 2 * r * t.width;
    for (Size c = 0; c < t.width; ++c) {
      const double at = __builtin_fma(t.view.right, static_cast<double>(t.column + c), start);
      const double down = __builtin_floor(at), own = down - static_cast<double>(t.first_column);
      const float part = static_cast<float>(at - down);
      // One rounding each, whether the compiler takes pixels side by side or alone.
      const float near = __builtin_fmaf(-steep, part, 1), far = __builtin_fmaf(steep, part, rest);
      const bool any = own >= -1 && own < last;
      // With its first column before the first one a pixel still has its second, from column 0.
      const float lo = any && own >= 0 && near > 0 ? near : 0,
                  hi = any && own + 1 < last && far > 0 ? far : 0;
      first[c] = static_cast<std::int32_t>(any && own >= 0 ? own : 0);
      weights[2 * c] = own < 0 ? hi : lo;
      weights[2 * c + 1] = own < 0 ? 0 : hi;
    }
  }
}

// The sum over the views stays in registers; kTaps of 0: as many as the task says.
template <int kN, int kTaps>
inline void stack_pixel(const StackGather& t, Size pixel, float* volume) {
  const int taps = kTaps > 0 ? kTaps : t.taps;
  Vec sum[kN];
#pragma GCC unroll 4
  for (int n = 0; n < kN; ++n) sum[n] = all(0);
  for (Size k = 0; k < t.views; ++k) {
    const Size at = k * t.pixels + pixel;
    const float* p = t.samples + k * t.view_stride + t.first[at] * t.column_stride;
    const float* w = t.weights + at * taps;
    for (int j = 0; j < taps; ++j, p += t.column_stride) {
      const Vec weight = all(w[j]);
#pragma GCC unroll 4
      for (int n = 0; n < kN; ++n) sum[n] = fma(weight, load(p + n * kLanes), sum[n]);
    }
  }
#pragma GCC unroll 4
  for (int n = 0; n < kN; ++n) store(volume + n * kLanes, load(volume + n * kLanes) + sum[n]);
}

template <int kN, int kTaps>
void stack_tile(const StackGather& t) {
  constexpr Size kSide = 8;  // pixels whose samples of a few views fit into the first cache
  for (Size top = 0; top < t.rows; top += kSide)
    for (Size left = 0; left < t.columns; left += kSide)
      for (Size r = top; r < lesser(t.rows, top + kSide); ++r)
        for (Size c = left; c < lesser(t.columns, left + kSide); ++c)
          stack_pixel<kN, kTaps>(t, r * t.columns + c, t.volume + r * t.row_stride + c * t.column_step);
}

template <int kN>
void stack_tile(const StackGather& t) {
  (t.taps == 2 ? stack_tile<kN, 2> : t.taps == 3 ? stack_tile<kN, 3> : stack_tile<kN, 0>)(t);
}

void stack_gather(const StackGather& t) {
  const Size n = t.slices / kLanes;
  (n == 4 ? stack_tile<4> : n == 3 ? stack_tile<3> : n == 2 ? stack_tile<2> : stack_tile<1>)(t);
}

}  // namespace
}  // namespace tessera
