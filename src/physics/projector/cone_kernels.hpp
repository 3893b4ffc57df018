// SPDX-License-Identifier: BSD-3-Clause
// Cone beam: a register holds detector rows (projection) or slices (adjoint). For one column and one plane
// the crossing's cell is one number and the crossing's slice is linear in the row, so that two loads and a
// permutation bring what a register reads. The adjoint is in two steps, each a gather: slices from the rows
// of one column, then two cells from the column.
#pragma once

#include "stack_kernels.hpp"

namespace tessera {
namespace {

void cone_project(const ConeProject& t) {
  Crossings c;
  const Vec lane = load(kCount);
  const Size registers = t.vectors * (kAlign / kLanes);
  const double origin = t.rows.z - static_cast<double>(t.first_slice), cells = static_cast<double>(t.slices);
  for (Size i = 0; i < t.lines.columns; ++i) {
    cross(t.span, t.lines.at[i], t.lines.slope[i], c);
    if (c.planes.first >= c.planes.last) continue;
    double away[kMostPlanes];
    float step[kMostPlanes], part[kMostPlanes];
    std::int64_t place[kMostPlanes];
    for (Size r = c.planes.first; r < c.planes.last; ++r) {
      away[r] = __builtin_fma(t.rows.t1[i], static_cast<double>(t.span.first_plane + r), t.rows.t0[i]);
      step[r] = static_cast<float>(__builtin_fabs(t.rows.g1 * away[r]));
    }
    const double first = away[c.planes.first], last = away[c.planes.last - 1];
    for (Size m = 0; m < registers; ++m) {
      const double row = static_cast<double>(t.first_row + m * kLanes + (t.rows.g1 < 0 ? kLanes - 1 : 0));
      const double tall = __builtin_fabs(t.rows.g1) * (kLanes - 1), slope = t.rows.g0 + t.rows.g1 * row;
      const double z0 = origin + slope * first, z1 = origin + slope * last;
      if ((z0 >= cells && z1 >= cells) || (z0 + tall * first <= -1 && z1 + tall * last <= -1)) continue;
      for (Size r = c.planes.first; r < c.planes.last; ++r) {
        const double at = __builtin_fma(slope, away[r], origin), down = __builtin_floor(at);
        part[r] = static_cast<float>(at - down);
        place[r] =
            c.place[r] + static_cast<std::int64_t>(clamped(down, static_cast<double>(-kMargin), cells));
      }
      Vec flat = all(0), rise = all(0);
      for (Size r = c.planes.first; r < c.planes.last; ++r) {
        const float* p = t.volume + place[r];
        const float* q = p + t.span.cell_stride;
        const Vec below = all(c.below[r]), above = all(c.above[r]);
        const Vec lo = fma(above, load(q), below * load(p));
        const Vec hi = fma(above, load(q + kLanes), below * load(p + kLanes));
        const Vec x = fma(t.rows.g1 < 0 ? all(kLanes - 1) - lane : lane, all(step[r]), all(part[r])),
                  f = part_of(x);
        const Cells at = cell_of(x);
        const Vec u = pick(lo, hi, at), v = pick(lo, hi, next(at));
        flat += u;
        rise = fma(f, v - u, rise);
      }
      float* sums = t.sums + i * t.sum_stride + m * kLanes;
      store(sums, load(sums) + (flat + rise));
    }
  }
}

// Slices of one column from its rows, for one plane, added to the cells around the crossing.
template <int kPhases>
inline void cone_column(const ConeGather& t, const float* samples, double g, double origin, float above,
                        float* below_at, float* above_at) {
  const int phases = kPhases > 0 ? kPhases : t.phases;
  const Vec count = load(kCount), lane = g < 0 ? all(kLanes - 1) - count : count;
  const Vec apart = lane * all(static_cast<float>(__builtin_fabs(g))) + all(1), one = all(1);
  const Vec steep = all(static_cast<float>(__builtin_fabs(1 / g))), rest = one - steep;
  const float back = 1.0F / static_cast<float>(phases);
  const double ends = static_cast<double>(t.first_row + t.sorted_rows);
  for (Size m = 0; m < t.vectors * (kAlign / kLanes); ++m) {
    const double slice = static_cast<double>(t.first_slice + m * kLanes + (g < 0 ? kLanes - 1 : 0));
    const double at = __builtin_fma(g, slice, origin), down = __builtin_floor(at);
    if (down > ends || down < static_cast<double>(t.first_row - kLanes - 2)) continue;
    const float* p = samples + (static_cast<Size>(down) - 1 - t.first_row);
    const Vec from = apart + all(static_cast<float>(at - down));
    Vec sum = all(0);
#pragma GCC unroll 4
    for (int n = 0; n < phases; ++n, p += t.phase_stride) {
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
    const float* samples = t.samples + i * t.column_stride;
    for (Size r = 0; r < t.span.planes; ++r) {
      const double plane = static_cast<double>(t.span.first_plane + r);
      const double at = __builtin_fma(t.lines.slope[i], plane, t.lines.at[i]), down = __builtin_floor(at);
      const double cell = down - static_cast<double>(t.span.first_cell);
      if (cell < -1 || cell >= static_cast<double>(t.span.cells)) continue;
      const double away = __builtin_fma(t.rows.t1[i], plane, t.rows.t0[i]);
      const double phases = t.phases, g = 1 / (t.rows.g1 * away * phases);
      const double origin = -t.rows.z * g - t.rows.g0 / (t.rows.g1 * phases);
      float* volume = t.volume + r * t.span.plane_stride + static_cast<Size>(cell) * t.span.cell_stride;
      float* above = cell + 1 < static_cast<double>(t.span.cells) ? volume + t.span.cell_stride : nullptr;
      (t.phases == 1   ? cone_column<1>
       : t.phases == 2 ? cone_column<2>
       : t.phases == 3 ? cone_column<3>
                       : cone_column<0>)(t, samples, g, origin, static_cast<float>(at - down),
                                         cell < 0 ? nullptr : volume, above);
    }
  }
}

}  // namespace
}  // namespace tessera
