// SPDX-License-Identifier: BSD-3-Clause
// Cone beam: a register holds detector rows (projection) or slices (adjoint). For one column and one plane
// the crossing's cell is one number and the crossing's slice is linear in the row, so that two loads and a
// permutation bring what a register reads. The adjoint is in two steps, each a gather: slices from the rows
// of one column, then two cells from the column.
#pragma once

#include "stack_kernels.hpp"

namespace tessera {
namespace {

// For one column: where its crossings are, and how far from the source: slices between rows.
struct ConeCrossings {
  Crossings cells;
  double away[kMostPlanes];
  float step[kMostPlanes];
};

// kN registers of rows [row, ...) whose slices lie within two registers' width.
template <int kN>
inline void cone_sums(const ConeProject& t, const ConeCrossings& c, double row, float* sums) {
  const Planes planes = c.cells.planes;
  const bool up = t.rows.g1 > 0;
  const double origin = t.rows.z - static_cast<double>(t.first_slice), cells = static_cast<double>(t.slices);
  const double lowest = up ? row : row + kN * kLanes - 1;
  const double slope = t.rows.g0 + t.rows.g1 * lowest, tall = __builtin_fabs(t.rows.g1) * (kN * kLanes - 1);
  const double first = c.away[planes.first], last = c.away[planes.last - 1];
  const double z0 = origin + slope * first, z1 = origin + slope * last;
  if ((z0 >= cells && z1 >= cells) || (z0 + tall * first <= -1 && z1 + tall * last <= -1)) return;
  float part[kMostPlanes];
  std::int64_t place[kMostPlanes];
  for (Size r = planes.first; r < planes.last; ++r) {
    const double at = __builtin_fma(slope, c.away[r], origin), down = __builtin_floor(at);
    part[r] = static_cast<float>(at - down);
    place[r] =
        c.cells.place[r] + static_cast<std::int64_t>(clamped(down, static_cast<double>(-kMargin), cells));
  }
  const Vec count = load(kCount);
  Vec lane[kN], flat[kN], rise[kN];
#pragma GCC unroll 2
  for (int n = 0; n < kN; ++n) {
    const Vec number = count + all(static_cast<float>(n * kLanes));
    lane[n] = up ? number : all(kN * kLanes - 1) - number;
    flat[n] = rise[n] = all(0);
  }
  for (Size r = planes.first; r < planes.last; ++r) {
    const float* p = t.volume + place[r];
    const float* q = p + t.span.cell_stride;
    const Vec below = all(c.cells.below[r]), above = all(c.cells.above[r]);
    const Vec lo = fma(above, load(q), below * load(p));
    const Vec hi = fma(above, load(q + kLanes), below * load(p + kLanes));
#pragma GCC unroll 2
    for (int n = 0; n < kN; ++n) {
      const Vec x = fma(lane[n], all(c.step[r]), all(part[r])), f = part_of(x);
      const Cells at = cell_of(x);
      const Vec u = pick(lo, hi, at), v = pick(lo, hi, next(at));
      flat[n] += u;
      rise[n] = fma(f, v - u, rise[n]);
    }
  }
#pragma GCC unroll 2
  for (int n = 0; n < kN; ++n) store(sums + n * kLanes, load(sums + n * kLanes) + (flat[n] + rise[n]));
}

void cone_project(const ConeProject& t) {
  ConeCrossings c;
  const Size registers = t.vectors * (kAlign / kLanes);
  for (Size i = 0; i < t.lines.columns; ++i) {
    cross(t.span, t.lines.at[i], t.lines.slope[i], c.cells);
    const Planes planes = c.cells.planes;
    if (planes.first >= planes.last) continue;
    for (Size r = planes.first; r < planes.last; ++r) {
      c.away[r] = __builtin_fma(t.rows.t1[i], static_cast<double>(t.span.first_plane + r), t.rows.t0[i]);
      c.step[r] = static_cast<float>(__builtin_fabs(t.rows.g1 * c.away[r]));
    }
    const float widest =
        c.step[planes.first] > c.step[planes.last - 1] ? c.step[planes.first] : c.step[planes.last - 1];
    float* sums = t.sums + i * t.sum_stride;
    Size m = 0;
    if ((2 * kLanes - 1) * widest <= static_cast<float>(kWindow))
      for (; m + 2 <= registers; m += 2)
        cone_sums<2>(t, c, static_cast<double>(t.first_row + m * kLanes), sums + m * kLanes);
    for (; m < registers; ++m)
      cone_sums<1>(t, c, static_cast<double>(t.first_row + m * kLanes), sums + m * kLanes);
  }
}

constexpr double kRounding = 4e-6;  // of weights, which this changes

// Slices of one column from its rows, for one plane, added to the cells around the crossing.
template <int kPhases>
inline void cone_column(const ConeGather& t, const ConeSorted& sorted, Size column, double g, double origin,
                        float above, float* below_at, float* above_at) {
  const int phases = kPhases > 0 ? kPhases : sorted.phases;
  const float* samples = sorted.samples + column * sorted.column_stride;
  const Vec count = load(kCount), lane = g < 0 ? all(kLanes - 1) - count : count;
  const Vec apart = lane * all(static_cast<float>(__builtin_fabs(g))) + all(1), one = all(1);
  const Vec steep = all(static_cast<float>(__builtin_fabs(1 / g))), rest = one - steep;
  const float back = 1.0F / static_cast<float>(phases);
  const double ends = static_cast<double>(sorted.first_row + sorted.rows);
  for (Size m = 0; m < t.vectors * (kAlign / kLanes); ++m) {
    const double slice = static_cast<double>(t.first_slice + m * kLanes + (g < 0 ? kLanes - 1 : 0));
    const double at = __builtin_fma(g, slice, origin), down = __builtin_floor(at);
    if (down > ends || down < static_cast<double>(sorted.first_row - kLanes - 2)) continue;
    const float* p = samples + (static_cast<Size>(down) - 1 - sorted.first_row);
    const Vec from = apart + all(static_cast<float>(at - down));
    Vec sum = all(0);
#pragma GCC unroll 4
    for (int n = 0; n < phases; ++n, p += sorted.phase_stride) {
      const Vec x = from - all(static_cast<float>(n) * back), f = part_of(x);
      const Cells c = cell_of(x);
      const Vec lo = load(p), hi = load(p + kLanes);
      sum = fma(positive(fnma(steep, f, one)), pick(lo, hi, c), sum);
      sum = fma(positive(fma(steep, f, rest)), pick(lo, hi, next(c)), sum);
    }
    if (below_at) store(below_at + m * kLanes, fma(all(1 - above), sum, load(below_at + m * kLanes)));
    if (above_at) store(above_at + m * kLanes, fma(all(above), sum, load(above_at + m * kLanes)));
  }
}

void cone_gather(const ConeGather& t) {
  for (Size i = 0; i < t.lines.columns; ++i) {
    for (Size r = 0; r < t.span.planes; ++r) {
      const double plane = static_cast<double>(t.span.first_plane + r);
      const double at = __builtin_fma(t.lines.slope[i], plane, t.lines.at[i]), down = __builtin_floor(at);
      const double cell = down - static_cast<double>(t.span.first_cell);
      if (cell < -1 || cell >= static_cast<double>(t.span.cells)) continue;
      // As few phases as put neighbors a slice apart here.
      const double step = t.rows.g1 * __builtin_fma(t.rows.t1[i], plane, t.rows.t0[i]), rows = 1 / step;
      const ConeSorted* sorted = t.sorted;
      while (sorted->phases < t.most_phases && sorted->phases + kRounding < __builtin_fabs(rows)) ++sorted;
      const double phases = sorted->phases, g = rows / phases;
      const double origin = -t.rows.z * g - t.rows.g0 / (t.rows.g1 * phases);
      float* volume = t.volume + r * t.span.plane_stride + static_cast<Size>(cell) * t.span.cell_stride;
      float* above = cell + 1 < static_cast<double>(t.span.cells) ? volume + t.span.cell_stride : nullptr;
      (sorted->phases == 1   ? cone_column<1>
       : sorted->phases == 2 ? cone_column<2>
       : sorted->phases == 3 ? cone_column<3>
                             : cone_column<0>)(t, *sorted, i, g, origin, static_cast<float>(at - down),
                                               cell < 0 ? nullptr : volume, above);
    }
  }
}

}  // namespace
}  // namespace tessera
