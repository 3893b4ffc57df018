// SPDX-License-Identifier: BSD-3-Clause
// What the drivers ask of the kernels, which are compiled once per instruction set. Plain structs only: an
// inline function here would be compiled with wide instructions and might be linked into code for every
// CPU.
//
// A view's main axis is rows (y) or columns (x) of the volume; across it are *planes* (rows or columns of
// voxels), in a plane *cells*. Column i of the detector crosses plane p at cell at[i] + p slope[i]
// (ray.hpp). Indices are of the whole volume; pointers stand on the block's first voxel.
#pragma once

#include <cstdint>

namespace tessera {

constexpr std::int64_t kMargin = 32;  // zeros on each side of a row that kernels read two registers of
constexpr std::int64_t kAlign =
    16;  // a volume's slices and columns are taken in groups that begin at multiples of it
constexpr std::int64_t kMostPlanes = 64;  // of one call
constexpr int kMostTaps = 16;             // columns of a view that meet a pixel
constexpr int kMostPhases = 8;

/// Lines of neighboring columns with one main axis.
struct LineSpan {
  std::int64_t columns;
  const double* at;
  const double* slope;
};
/// Voxels of a block by planes and cells, strides in floats. A projection takes crossings between cells
/// first_cell + lowest and first_cell + cells, of a whole block -1; of a part of it that follows another
/// one 0.
struct PlaneSpan {
  std::int64_t first_plane, planes;
  std::int64_t first_cell, cells, lowest;
  std::int64_t plane_stride, cell_stride;
};

/// One slice, columns side by side: sums[i] += integral of the lines over the planes, without their length.
/// Rows of the image have kMargin zeros on both sides; at most kMostPlanes planes.
struct SliceProject {
  const float* image;  // cell_stride is 1
  PlaneSpan span;
  LineSpan lines;
  float* sums;
};

/// One slice, parallel beam: pixels gather. The column of a pixel's middle is start + right w + down h;
/// column i has the weight max(0, 1 - steep |i - that|), steep >= 1.
struct SliceGatherView {
  double start, right, down;
  float steep;
};
struct SliceGather {
  const SliceGatherView* view;
  std::int64_t views;
  const float*
      samples;  // of the first view, times length; kMargin zeros on both sides; stands on first_column
  std::int64_t view_stride, first_column, columns;
  std::int64_t row, rows, column,
      vectors;  // of the tile; column is a multiple of kAlign, vectors of kAlign pixels
  float* tile;  // rows x (kAlign vectors), added to
};

/// One slice, any lines: pixels (plane, cell) gather. Seen near line (n0 + n1 p + n2 c) / (d0 + d1 p + d2
/// c) of the span.
struct SliceGatherLines {
  LineSpan lines;
  const float*
      samples;  // of the span's first line, times length; kMargin finite numbers on both sides of the span
  double number[3], depth[3];
  int taps;                                   // 2 to 4: columns that may meet a pixel
  std::int64_t plane, planes, cell, vectors;  // of the tile; cell is a multiple of kAlign, vectors at most 4
  float* tile;                                // planes x (kAlign vectors), added to
  float* room;                                // for columns + 2 kMargin floats
};

/// Slices innermost, each detector row on one: sums[i][z] += integral of the lines, without their length.
struct StackProject {
  const float* volume;  // one zero cell on both sides of every plane
  PlaneSpan span;
  LineSpan lines;
  float* sums;
  std::int64_t sum_stride;
  std::int64_t slices;  // a multiple of kAlign, at most StackKernels' slices
};

/// Parallel beam, columns at least a cell apart: the two columns that may meet each pixel of a tile and
/// their weights, as StackGather wants them; zeros where there is no such column among `columns` from
/// first_column on.
struct StackWeigh {
  SliceGatherView view;
  std::int64_t first_column, columns;
  std::int64_t row, rows, column, width;  // of the tile
  std::int32_t* first;
  float* weights;
};

/// Slices innermost: pixels gather. Pixel n gets, from view k, weights[(k pixels + n) taps + j] of column
/// first + j.
struct StackGather {
  const float* samples;  // views x columns x slices, times length
  std::int64_t view_stride, column_stride;
  std::int64_t views;
  int taps;
  std::int64_t pixels;        // of the tile: rows x columns
  const std::int32_t* first;  // views x pixels, a column of samples
  const float* weights;
  float* volume;                                        // the tile's first pixel
  std::int64_t rows, columns, row_stride, column_step;  // of the tile
  std::int64_t slices;
};

/// Rows of the detector in a cone beam: row j crosses plane p of column i at slice z + (g0 + g1 j) t, t =
/// t0[i] + t1[i] p.
struct ConeRows {
  double z, g0, g1;
  const double* t0;
  const double* t1;
};
/// sums[i][j] += integral of the rays, without their length.
struct ConeProject {
  const float*
      volume;  // slices innermost, kMargin zeros before and behind; one zero cell on both sides of planes
  PlaneSpan span;
  LineSpan lines;
  ConeRows rows;
  std::int64_t first_slice, slices;
  std::int64_t first_row, vectors;  // vectors of kAlign rows
  float* sums;
  std::int64_t sum_stride;
};
/// Samples of a view sorted by column, then by row modulo `phases`, which makes their distance in such a
/// sorted row so many times larger: row j = phases m + n of column i stands at
///   samples[i column_stride + n phase_stride + m - first_row].
struct ConeSorted {
  const float* samples;  // times length; kMargin zeros before and behind every sorted row
  std::int64_t column_stride, phase_stride;
  int phases;
  std::int64_t first_row, rows;  // of m
};
/// Voxels gather.
struct ConeGather {
  const ConeSorted*
      sorted;  // by phases, one after the other, up to most_phases: so many that neighbors are a slice apart
  int most_phases;
  PlaneSpan span;  // the tile: planes and cells
  LineSpan lines;
  ConeRows rows;
  std::int64_t first_slice, vectors;  // first_slice a multiple of kAlign
  float* volume;                      // slices innermost
};

struct ProjectorKernelTable {
  std::int64_t stack_slices;  // of a call of the stack's kernels, at most
  void (*slice_project)(const SliceProject&);
  void (*slice_gather)(const SliceGather&);
  void (*slice_gather_lines)(const SliceGatherLines&);
  void (*stack_project)(const StackProject&);
  void (*stack_weigh)(const StackWeigh&);
  void (*stack_gather)(const StackGather&);
  void (*cone_project)(const ConeProject&);
  void (*cone_gather)(const ConeGather&);
};
/// Without kernels (null pointers) on other architectures.
const ProjectorKernelTable& projector_kernels_avx2();
const ProjectorKernelTable& projector_kernels_avx512();

}  // namespace tessera
