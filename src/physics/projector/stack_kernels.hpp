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
  const double last = static_cast<double>(span.cells);
  for (Size r = c.planes.first; r < c.planes.last; ++r) {
    const double to = __builtin_fma(slope, static_cast<double>(r), x), down = __builtin_floor(to);
    const bool inside = down >= -1 && down < last;
    c.above[r] = inside ? static_cast<float>(to - down) : 0;
    c.below[r] = inside ? 1 - c.above[r] : 0;
    c.place[r] = r * span.plane_stride + static_cast<std::int64_t>(inside ? down : 0) * span.cell_stride;
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
