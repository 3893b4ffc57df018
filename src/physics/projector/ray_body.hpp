// SPDX-License-Identifier: BSD-3-Clause
// One body per thread for kernels on a GPU (rays_device.cu) and loops on the host (rays_host.cpp); C++17.
//
// A thread of block `block` (of blocks(task)) does its part of a task. The rule is that of ray.hpp. In float32 a coordinate
// is a whole number of 2^-32 voxels: adding the slope once more per plane loses nothing, cell and part come without a
// conversion, and projection and adjoint compute the same weights, across the slices of upright views to rounding. A
// texture's interpolation, 8 bits of a part, would be another operator.
//
// What limits, by counting instructions of the code for 9.0 (predictions, nothing was measured): a projection issues 29
// instructions per ray and plane for 4 loads (of level stacks 19 for 2), which hit the first cache where lanes lie side by
// side (slices innermost): issue slots and that cache are equally busy. Views of a batch come first in the order of blocks,
// so that the second cache serves all of them with the slab that one brings. The adjoint of level views has 7 instructions
// per voxel, column and view for one load of neighboring columns, that of upright ones 8 per tap and some 25 per column to
// find the first; what belongs to a pixel alone is shared by its run of slices.
#pragma once

#include <cmath>
#include <cstring>
#include <type_traits>

#include "ray_task.hpp"

#ifdef __CUDA_ARCH__
#define TESSERA_UNROLL _Pragma("unroll")
#else
#define TESSERA_UNROLL
#endif

namespace tessera::rays {

template <class T>
TESSERA_BOTH T read(const T* p) {
#ifdef __CUDA_ARCH__
  return __ldg(p);
#else
  return *p;
#endif
}
/// base + count strides, which have so many bytes: one multiplication of 32 bits, which a compiler does not find alone.
template <class T>
TESSERA_BOTH const T* ahead(const T* base, std::int32_t count, std::int32_t bytes) {
#ifdef __CUDA_ARCH__
  const T* p;
  asm("mad.wide.s32 %0, %1, %2, %3;" : "=l"(p) : "r"(count), "r"(bytes), "l"(base));
  return p;
#else
  return reinterpret_cast<const T*>(reinterpret_cast<const char*>(base) + std::int64_t{count} * bytes);
#endif
}
TESSERA_BOTH float float_of_bits(std::uint32_t bits) {
#ifdef __CUDA_ARCH__
  return __uint_as_float(bits);
#else
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
#endif
}
TESSERA_BOTH std::uint32_t bits_of(float x) {
#ifdef __CUDA_ARCH__
  return __float_as_uint(x);
#else
  std::uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
#endif
}

// Coordinates in units of 2^-32 voxels.
TESSERA_BOTH std::int64_t fixed(double voxels) {
  const double x = std::fmin(std::fmax(voxels, -1e9), 1e9) * 4294967296.0;
#ifdef __CUDA_ARCH__
  return __double2ll_rn(x);
#else
  return std::llrint(x);
#endif
}
TESSERA_BOTH std::int32_t cell_of(std::int64_t x) { return static_cast<std::int32_t>(x >> 32); }
// The part above the cell, 23 bits of it, as the mantissa of a number in [1, 2).
TESSERA_BOTH float part_of(std::int64_t x) {
  return float_of_bits(0x3f800000u | static_cast<std::uint32_t>(x) >> 9) - 1.0F;
}
/// max(0, 1 - distance), with the bits that a projection has.
TESSERA_BOTH float hat(std::int64_t x, std::int32_t voxel) {
  const std::int32_t cell = cell_of(x);
  const float part = part_of(x);
  return cell == voxel ? 1.0F - part : cell == voxel - 1 ? part : 0.0F;
}
TESSERA_BOTH double hat(double distance) { return std::fmax(0.0, 1.0 - std::fabs(distance)); }

/// One coordinate of a line's crossings, plane after plane.
template <class T>
struct Track;
template <>
struct Track<float> {
  std::int64_t at, slope, x;
  TESSERA_BOTH Track(double from, double step) : at(fixed(from)), slope(fixed(step)), x(at) {}
  TESSERA_BOTH void go_to(std::int64_t plane) { x = at + plane * slope; }
  TESSERA_BOTH void next() { x += slope; }
  TESSERA_BOTH std::int32_t cell() const { return cell_of(x); }
  TESSERA_BOTH float part() const { return part_of(x); }
};
template <>
struct Track<double> {
  double at, slope, x;
  std::int64_t plane = 0;
  TESSERA_BOTH Track(double from, double step) : at(from), slope(step), x(from) {}
  TESSERA_BOTH void go_to(std::int64_t p) {
    plane = p;
    x = at + static_cast<double>(p) * slope;
  }
  TESSERA_BOTH void next() { go_to(plane + 1); }
  TESSERA_BOTH std::int32_t cell() const { return static_cast<std::int32_t>(std::floor(x)); }
  TESSERA_BOTH double part() const { return x - std::floor(x); }
};

TESSERA_BOTH void column_thread(const ColumnTask& t, std::int64_t block, std::int32_t thread) {
  const std::int64_t n = block * kThreads + thread;
  if (n >= t.count * t.space.columns) return;
  const View& view = t.views[n / t.space.columns];
  if (view.way == Way::any) return;
  Ray ray = ray_of(t.space, view.shape, 0, n % t.space.columns);
  ray.direction[2] = 0;  // the main axis is not z
  const Line line = line_of(t.space.grid, ray);
  const std::size_t axis = 2 - line.main;
  t.columns.at[n] = fixed(line.at[1]);  // other[0] is the depth
  t.columns.slope[n] = fixed(line.slope[1]);
  t.columns.rate[n] = element(t.space.grid.voxel, axis) / element(ray.direction, axis);
  t.columns.start[n] = -index_at(t.space.grid, line.main, element(ray.point, axis)) * t.columns.rate[n];
  t.columns.main[n] = static_cast<std::int32_t>(line.main);
}
TESSERA_BOTH std::int64_t blocks(const ColumnTask& t) { return shares(t.count * t.space.columns, kThreads); }

/// The sum of work() for `planes` planes, by parts that are added up alone: less rounding.
template <class T, class Work>
TESSERA_BOTH T sum_planes(std::int64_t planes, Work work) {
  constexpr std::int64_t kPartial = 32;
  T sum = 0;
  for (; planes > 0; planes -= kPartial) {
    T some = 0;
    for (auto n = static_cast<std::int32_t>(planes < kPartial ? planes : kPartial); n > 0; --n)
      some += work();
    sum += some;
  }
  return sum;
}

/// Between four voxels in each plane: Step, numbers from one to the next along b, is a number or a constant.
template <class T, class Step>
TESSERA_BOTH T sum_between(const T* from, std::int64_t step, Step step_b, std::int32_t step_c,
                           std::int64_t planes, Track<T> b, Track<T> c) {
  constexpr auto kBytes = static_cast<std::int32_t>(sizeof(T));
  return sum_planes<T>(planes, [&] {
    const T* p = ahead(ahead(from, c.cell(), step_c * kBytes), b.cell(), step_b * kBytes);
    const T* q = p + step_c;
    const T p0 = read(p), p1 = read(p + step_b), q0 = read(q), q1 = read(q + step_b), part = b.part();
    const T here = p0 + part * (p1 - p0), there = q0 + part * (q1 - q0),
            value = here + c.part() * (there - here);
    b.next();
    c.next();
    from += step;
    return value;
  });
}

/// The integral along a line over the planes of a block, without its length.
template <class T>
TESSERA_BOTH T line_sum(const ProjectTask<T>& t, const Line& line) {
  PlaneRange planes = planes_of(line, t.lo, t.hi);
  if (planes.first >= planes.end) return 0;
  const std::size_t main = line.main;
  const std::int64_t lo_b = element(t.lo, line.other[0]), hi_b = element(t.hi, line.other[0]),
                     lo_c = element(t.lo, line.other[1]), hi_c = element(t.hi, line.other[1]);
  Track<T> b(line.at[0], line.slope[0]), c(line.at[1], line.slope[1]);
  // Between two planes whose crossings lie in the block and its rim all do.
  const auto inside = [&](std::int64_t plane) {
    b.go_to(plane);
    c.go_to(plane);
    return b.cell() >= lo_b - 1 && b.cell() < hi_b && c.cell() >= lo_c - 1 && c.cell() < hi_c;
  };
  while (planes.first < planes.end && !inside(planes.end - 1)) --planes.end;
  while (planes.first < planes.end && !inside(planes.first)) ++planes.first;
  const std::int64_t* const stride = t.stride[main];
  const std::int64_t step = stride[main], step_b = stride[line.other[0]], step_c = stride[line.other[1]];
  const T* from = t.volume[main] + (planes.first - element(t.lo, main)) * step - lo_c * step_c;
  const auto narrow_b = static_cast<std::int32_t>(step_b), narrow_c = static_cast<std::int32_t>(step_c);
  const std::int64_t count = planes.end - planes.first;
  if (line.slope[0] == 0 && b.part() == 0) {  // on the middles of voxels, as in pictures and level stacks
    from += (b.cell() - lo_b) * step_b;
    return sum_planes<T>(count, [&] {
      const T* p = ahead(from, c.cell(), narrow_c * static_cast<std::int32_t>(sizeof(T)));
      const T here = read(p), value = here + c.part() * (read(p + narrow_c) - here);
      c.next();
      from += step;
      return value;
    });
  }
  from -= lo_b * step_b;
  if (step_b == 1)
    return sum_between(from, step, std::integral_constant<std::int32_t, 1>(), narrow_c, count, b, c);
  return sum_between(from, step, narrow_b, narrow_c, count, b, c);
}

/// By rows: 32 rows by 8 columns of one view. Else 32 columns of one row of 8 views. Views first.
template <class T>
TESSERA_BOTH void project_thread(const ProjectTask<T>& t, std::int64_t block, std::int32_t thread) {
  const SampleBox& s = t.samples;
  const std::int64_t views = t.by_rows ? s.views : shares(s.views, kBands),
                     across = shares(s.columns, t.by_rows ? kBands : kLanes);
  std::int64_t view = block % views, column = block / views % across, row = block / views / across;
  const std::int32_t lane = thread % kLanes, band = thread / kLanes;
  row = t.by_rows ? row * kLanes + lane : row;
  column = t.by_rows ? column * kBands + band : column * kLanes + lane;
  view = t.by_rows ? view : view * kBands + band;
  if (view >= s.views || row >= s.rows || column >= s.columns) return;
  const Line line =
      line_of(t.space.grid, ray_of(t.space, t.views[s.view + view].shape, s.row + row, s.column + column));
  const T value = static_cast<T>(line.length) * line_sum(t, line);
  T& y = t.y[(view * s.rows + row) * s.columns + column];
  y = t.add ? y + value : value;
}
template <class T>
TESSERA_BOTH std::int64_t blocks(const ProjectTask<T>& t) {
  const SampleBox& s = t.samples;
  return t.by_rows ? s.views * shares(s.columns, kBands) * shares(s.rows, kLanes)
                   : shares(s.views, kBands) * shares(s.columns, kLanes) * s.rows;
}

TESSERA_BOTH void scale_thread(const ScaleTask& t, std::int64_t block, std::int32_t thread) {
  const SampleBox& s = t.samples;
  const std::int64_t high = s.rows + 2 * t.rim, across = shares(s.columns, kLanes),
                     down = shares(high, kBands);
  const std::int64_t column = block % across * kLanes + thread % kLanes,
                     place = block / across % down * kBands + thread / kLanes, row = place - t.rim,
                     view = block / across / down;
  if (place >= high || column >= s.columns) return;
  float value = 0;
  if (row >= 0 && row < s.rows) {
    const Line line =
        line_of(t.space.grid, ray_of(t.space, t.views[s.view + view].shape, s.row + row, s.column + column));
    value = static_cast<float>(line.length) * read(t.y + (view * s.rows + row) * s.columns + column);
  }
  t.scaled[(view * high + place) * s.columns + column] = value;
}
TESSERA_BOTH std::int64_t blocks(const ScaleTask& t) {
  return t.samples.views * shares(t.samples.rows + 2 * t.rim, kBands) * shares(t.samples.columns, kLanes);
}

/// A pixel of the block and a run of slices. Runs come last in the order of blocks, so that those at one height, which read
/// the same rows of the detector, are under way together.
struct PixelRun {
  std::int32_t h, w, first;
  bool inside;
};
TESSERA_BOTH PixelRun pixel_run(const Index3& lo, const Index3& hi, std::int64_t run, std::int64_t block,
                                std::int32_t thread) {
  const std::int64_t across = shares(hi[2] - lo[2], kLanes), down = shares(hi[1] - lo[1], kBands);
  PixelRun at;
  at.w = static_cast<std::int32_t>(lo[2] + block % across * kLanes + thread % kLanes);
  at.h = static_cast<std::int32_t>(lo[1] + block / across % down * kBands + thread / kLanes);
  at.first = static_cast<std::int32_t>((lo[0] / run + block / across / down) * run);
  at.inside = at.w < hi[2] && at.h < hi[1];
  return at;
}
TESSERA_BOTH std::int64_t pixel_runs(const Index3& lo, const Index3& hi, std::int64_t run) {
  return shares(hi[2] - lo[2], kLanes) * shares(hi[1] - lo[1], kBands) * (shares(hi[0], run) - lo[0] / run);
}

/// x += a run's sums.
template <int kRun>
TESSERA_BOTH void put(const GatherTask& t, const PixelRun& at, const float (&sums)[kRun]) {
  const std::int64_t wide = t.hi[2] - t.lo[2], slice = (t.hi[1] - t.lo[1]) * wide;
  float* x = t.x + (at.first - t.lo[0]) * slice + (at.h - t.lo[1]) * wide + at.w - t.lo[2];
  TESSERA_UNROLL
  for (int k = 0; k < kRun; ++k)
    if (at.first + k >= t.lo[0] && at.first + k < t.hi[0]) x[k * slice] += sums[k];
}

/// Columns [first, last] of a view that may meet a pixel, and little else: where a pixel to either side would be seen.
struct ColumnSpan {
  std::int32_t first, last;
};
TESSERA_BOTH float seen_at(const View& v, bool parallel, float h, float w) {
  const float column = v.near_column[0] + v.near_column[1] * h + v.near_column[2] * w;
  return parallel ? column : column / (v.near_depth[0] + v.near_depth[1] * h + v.near_depth[2] * w);
}
TESSERA_BOTH ColumnSpan columns_seen(const View& v, const GatherTask& t, std::int32_t h, std::int32_t w) {
  const bool parallel = t.space.beam == Beam::parallel;
  const auto y = static_cast<float>(h), x = static_cast<float>(w);
  float lo = 3e38F, hi = -3e38F;
  for (int axis = 0; axis < 2;
       ++axis) {  // cells lie along w where the main axis is that of rows, else along h
    if (!(v.mains >> axis & 1)) continue;
    const float dy = axis == 0 ? 0.0F : 1.0F, dx = 1.0F - dy;
    const float before = seen_at(v, parallel, y - dy, x - dx), after = seen_at(v, parallel, y + dy, x + dx);
    lo = std::fmin(lo, std::fmin(before, after));
    hi = std::fmax(hi, std::fmax(before, after));
  }
  const auto first = static_cast<float>(t.samples.column),
             last = static_cast<float>(t.samples.column + t.samples.columns - 1);
  return {static_cast<std::int32_t>(std::fmin(std::fmax(std::ceil(lo - v.rim), first), last + 1)),
          static_cast<std::int32_t>(std::fmax(std::fmin(std::floor(hi + v.rim), last), first - 1))};
}

/// The plane in which a column's line meets pixels, and its weight for one of them.
struct Meeting {
  std::int64_t line;  // its place in Columns
  std::int32_t plane;
  float weight;
};
TESSERA_BOTH Meeting meeting(const GatherTask& t, std::int64_t view, std::int64_t column,
                             const PixelRun& at) {
  Meeting m;
  m.line = view * t.space.columns + column;
  const bool rows = read(t.columns.main + m.line) == 1;
  m.plane = rows ? at.h : at.w;
  m.weight = hat(read(t.columns.at + m.line) + m.plane * read(t.columns.slope + m.line), rows ? at.w : at.h);
  return m;
}

template <int kRun>
TESSERA_BOTH void gather_level_thread(const GatherTask& t, std::int64_t block, std::int32_t thread) {
  const PixelRun at = pixel_run(t.lo, t.hi, kRun, block, thread);
  if (!at.inside) return;
  const SampleBox& s = t.samples;
  const std::int64_t high = s.rows + 2 * t.rim;
  float sums[kRun] = {};
  for (std::int64_t v = 0; v < s.views; ++v) {
    const View& view = t.views[s.view + v];
    const std::int64_t row = at.first + view.shift - s.row;
    if (row <= -kRun || row >= s.rows) continue;  // rows before and behind are zeros, rim of them
    const ColumnSpan span = columns_seen(view, t, at.h, at.w);
    const float* from = t.scaled + (v * high + t.rim + row) * s.columns - s.column;
    for (std::int32_t i = span.first; i <= span.last; ++i) {
      const Meeting m = meeting(t, s.view + v, i, at);
      if (m.weight <= 0) continue;
      const float* p = from + i;
      TESSERA_UNROLL
      for (int k = 0; k < kRun; ++k) {
        sums[k] += m.weight * read(p);
        p += s.columns;
      }
    }
  }
  put<kRun>(t, at, sums);
}

/// The least whole number that is not below x, or one more where x is one, as float and as int: |x| < 2^21.
struct Whole {
  float value;
  std::int32_t number;
};
TESSERA_BOTH Whole rounded_up(float x) {
  constexpr float kMagic = 12582912.0F;  // 1.5 * 2^23: numbers near it are a whole number apart
  const float shifted = (x + 0.5F) + kMagic;
  return {shifted - kMagic, static_cast<std::int32_t>(bits_of(shifted) - 0x4b400000u)};
}

TESSERA_BOTH void gather_upright_thread(const GatherTask& t, std::int64_t block, std::int32_t thread) {
  constexpr int kRun = kUprightRun;
  const PixelRun at = pixel_run(t.lo, t.hi, kRun, block, thread);
  if (!at.inside) return;
  const SampleBox& s = t.samples;
  const auto wide = static_cast<std::int32_t>(s.columns), rows = static_cast<std::int32_t>(s.rows),
             rim = static_cast<std::int32_t>(t.rim), first_row = static_cast<std::int32_t>(s.row);
  float sums[kRun] = {};
  for (std::int64_t v = 0; v < s.views; ++v) {
    const View& view = t.views[s.view + v];
    const ColumnSpan span = columns_seen(view, t, at.h, at.w);
    for (std::int32_t i = span.first; i <= span.last; ++i) {
      const Meeting m = meeting(t, s.view + v, i, at);
      if (m.weight <= 0) continue;
      // Row j is at slice z + j step, counted from the run's first; in double until a row near that slice is subtracted.
      const double q =
          read(t.columns.start + m.line) + static_cast<double>(m.plane) * read(t.columns.rate + m.line);
      const double z = view.slice + q * view.rise - static_cast<double>(at.first),
                   step = view.row_step * (1 + q * view.opens);
      const float between = static_cast<float>(step), per_slice = 1 / between, up = step > 0 ? 1.0F : -1.0F;
      const float guess = static_cast<float>(-z) * per_slice,
                  far = kRun * std::fabs(per_slice) + static_cast<float>(t.taps) + 2;
      if (!(guess > static_cast<float>(first_row) - far &&
            guess < static_cast<float>(first_row + rows) + far))
        continue;
      const auto near = static_cast<std::int32_t>(guess);
      const float off = static_cast<float>(z + step * near), first = (-up - off) * per_slice;
      const float slope = between * m.weight;
      float away[kRun];          // slices from row to voxel, times the weight
      std::int32_t place[kRun];  // of the row's sample
      TESSERA_UNROLL
      for (int k = 0; k < kRun; ++k) {
        const Whole n = rounded_up(first + static_cast<float>(k) * per_slice);
        away[k] = (off + between * n.value - static_cast<float>(k)) * m.weight;
        const std::int32_t row = near + n.number - first_row;
        place[k] = (rim + (row < -rim ? -rim : row > rows ? rows : row)) * wide;
      }
      const float* from = t.scaled + v * (s.rows + 2 * t.rim) * s.columns + (i - s.column);
      for (std::int32_t tap = 0; tap < t.taps; ++tap) {
        TESSERA_UNROLL
        for (int k = 0; k < kRun; ++k) {
          sums[k] += std::fmax(0.0F, m.weight - std::fabs(away[k])) * read(ahead(from, place[k], 4));
          away[k] += slope;
          place[k] += wide;
        }
      }
    }
  }
  put<kRun>(t, at, sums);
}
TESSERA_BOTH std::int64_t blocks(const GatherTask& t) { return pixel_runs(t.lo, t.hi, t.run); }

TESSERA_BOTH double affine(const double (&a)[4], double d, double h, double w) {
  return a[0] + a[1] * d + a[2] * h + a[3] * w;
}

/// Rows and columns of a view, within the samples, that may have a weight for a voxel: where it is seen, grown by 1.
struct SampleSpan {
  std::int64_t row, rows_end, column, columns_end;
};
TESSERA_BOTH SampleSpan samples_seen(const View& v, const SampleBox& s, bool cone, double d, double h,
                                     double w) {
  double lo[2] = {1e300, 1e300}, hi[2] = {-1e300, -1e300};
  for (int corner = 0; corner < 8; ++corner) {
    const double z = d + ((corner & 1) ? 1 : -1), y = h + ((corner & 2) ? 1 : -1),
                 x = w + ((corner & 4) ? 1 : -1);
    const double depth = affine(v.depth, z, y, x);
    const double row = affine(v.row, z, y, x) / (cone ? depth : 1),
                 column = affine(v.column, z, y, x) / depth;
    lo[0] = std::fmin(lo[0], row);
    hi[0] = std::fmax(hi[0], row);
    lo[1] = std::fmin(lo[1], column);
    hi[1] = std::fmax(hi[1], column);
  }
  constexpr double kRim = 2e-5;  // as that of shadow()
  const auto from = [&](double x, std::int64_t first, std::int64_t n) {
    return static_cast<std::int64_t>(std::fmin(std::fmax(std::ceil(x - kRim), static_cast<double>(first)),
                                               static_cast<double>(first + n)));
  };
  const auto to = [&](double x, std::int64_t first, std::int64_t n) {
    return static_cast<std::int64_t>(std::fmin(
        std::fmax(std::floor(x + kRim) + 1, static_cast<double>(first)), static_cast<double>(first + n)));
  };
  return {from(lo[0], s.row, s.rows), to(hi[0], s.row, s.rows), from(lo[1], s.column, s.columns),
          to(hi[1], s.column, s.columns)};
}

template <class T>
TESSERA_BOTH void gather_any_thread(const GatherAnyTask<T>& t, std::int64_t block, std::int32_t thread) {
  const PixelRun at = pixel_run(t.lo, t.hi, 1, block, thread);
  if (!at.inside) return;
  const SampleBox& s = t.samples;
  const Index3 voxel{at.first, at.h, at.w};
  double sum = 0;
  for (std::int64_t v = 0; v < s.views; ++v) {
    const View& view = t.views[s.view + v];
    const SampleSpan span = samples_seen(view, s, t.space.beam == Beam::cone, static_cast<double>(voxel[0]),
                                         static_cast<double>(voxel[1]), static_cast<double>(voxel[2]));
    for (std::int64_t row = span.row; row < span.rows_end; ++row) {
      for (std::int64_t column = span.column; column < span.columns_end; ++column) {
        const Line line = line_of(t.space.grid, ray_of(t.space, view.shape, row, column));
        const auto plane = static_cast<double>(element(voxel, line.main));
        double weight = line.length;
        for (std::size_t k = 0; k < 2; ++k)
          weight *=
              hat(line.at[k] + plane * line.slope[k] - static_cast<double>(element(voxel, line.other[k])));
        if (weight > 0)
          sum += weight *
                 static_cast<double>(read(t.y + (v * s.rows + row - s.row) * s.columns + column - s.column));
      }
    }
  }
  t.x[((at.first - t.lo[0]) * (t.hi[1] - t.lo[1]) + at.h - t.lo[1]) * (t.hi[2] - t.lo[2]) + at.w - t.lo[2]] +=
      static_cast<T>(sum);
}
template <class T>
TESSERA_BOTH std::int64_t blocks(const GatherAnyTask<T>& t) {
  return pixel_runs(t.lo, t.hi, 1);
}

}  // namespace tessera::rays
