// SPDX-License-Identifier: BSD-3-Clause
// What RayProjector hands to kernels on a GPU, or to the loops that stand for them on the host. Plain structs of pointers
// into its tensors, all on one device; C++17.
#pragma once

#include <cstdint>

#include "ray.hpp"

namespace tessera::rays {

/// The end of a division that leaves nothing over.
constexpr std::int64_t shares(std::int64_t n, std::int64_t each) { return (n + each - 1) / each; }

/// How the adjoint takes a view. level: rows stand along z on the middles of slices. upright: rows stand along z and z is
/// the main axis of no ray. any: voxel by voxel, in double.
enum class Way : std::int32_t { level, upright, any };

/// One view. Voxel (d, h, w) of the whole volume is seen at column `column . (1, d, h, w)` over `depth . (1, d, h, w)`, at
/// row `row . (1, d, h, w)` over the same, of a fan and a parallel beam over 1.
struct View {
  ProjectionView shape;
  double column[4], row[4], depth[4];
  Way way;
  // What follows is of views that are level or upright.
  std::int32_t mains;  // bit 0: rays with main axis 1 (rows of the volume), bit 1: with 2 (columns)
  float near_column[3], near_depth[3];  // column and depth by (1, h, w)
  float rim;                            // columns by which rounding may misplace a voxel
  std::int32_t shift;                   // level: slice d meets row d + shift
  // Row j of column i is at slice slice + q rise + j row_step (1 + q opens) in plane p, q = start[i] + rate[i] p.
  double slice, rise, row_step, opens;
};

/// Lines of columns in the plane of x and y, of all views: (views, columns). Crossings in units of 2^-32 voxels.
struct Columns {
  std::int64_t* at;
  std::int64_t* slope;
  double* start;
  double* rate;
  std::int32_t* main;
};

/// SampleBox (view, row, column) of a box, dense.
struct SampleBox {
  std::int64_t view, views, row, rows, column, columns;
};

/// Fills the lines of views that are level or upright. A thread each column of each view.
struct ColumnTask {
  RaySpace space;
  const View* views;
  std::int64_t count;  // of views
  Columns columns;
};

/// y = or += A x. A thread each sample; neighbors along rows (`by_rows`, where slices stand side by side in memory) or along
/// columns.
template <class T>
struct ProjectTask {
  RaySpace space;
  const View* views;
  Index3 lo, hi;  // of the block
  // For each main axis a copy of the block with a rim of zeros, one voxel on each side: voxel lo stands at volume[main],
  // strides in numbers; those along the other axes fit 32 bits.
  const T* volume[3];
  std::int64_t stride[3][3];
  SampleBox samples;
  T* y;
  bool by_rows, add;
};

/// SampleBox times the length of their rays between planes, with rows of zeros before and behind: (views, rows + 2 rim,
/// columns).
struct ScaleTask {
  RaySpace space;
  const View* views;
  SampleBox samples;
  const float* y;
  std::int64_t rim;
  float* scaled;
};

/// x += A^T y of views that are level (or upright), from scaled samples. A thread each pixel (h, w) of the block and each
/// run of slices; runs begin at multiples of their length.
struct GatherTask {
  RaySpace space;
  const View* views;
  Index3 lo, hi;
  Columns columns;
  SampleBox samples;
  const float* scaled;
  std::int64_t rim;   // rows of zeros
  std::int32_t run;   // slices of a thread: kUprightRun, else kLevelRun or of a picture 1
  std::int32_t taps;  // upright: rows that may meet a voxel
  float* x;
};

/// x += A^T y of any views, a thread each voxel.
template <class T>
struct GatherAnyTask {
  RaySpace space;
  const View* views;
  Index3 lo, hi;
  SampleBox samples;
  const T* y;
  T* x;
};

constexpr std::int32_t kThreads = 256;  // of a block: kLanes neighbors, kBands of them
constexpr std::int32_t kLanes = 32;
constexpr std::int32_t kBands = kThreads / kLanes;
constexpr std::int32_t kLevelRun = 16;    // slices of a thread
constexpr std::int32_t kUprightRun = 10;  // as many as 64 registers hold

/// Enqueues a task on a cudaStream_t and returns at once; the device is the current one. RunError.
void on_device(const ColumnTask& task, void* stream);
void on_device(const ScaleTask& task, void* stream);
void on_device(const ProjectTask<float>& task, void* stream);
void on_device(const ProjectTask<double>& task, void* stream);
void on_device(const GatherTask& task, Way way, void* stream);
void on_device(const GatherAnyTask<float>& task, void* stream);
void on_device(const GatherAnyTask<double>& task, void* stream);

/// The same on the host, block after block, thread after thread, shared out among its cores.
void on_host(const ColumnTask& task);
void on_host(const ScaleTask& task);
void on_host(const ProjectTask<float>& task);
void on_host(const ProjectTask<double>& task);
void on_host(const GatherTask& task, Way way);
void on_host(const GatherAnyTask<float>& task);
void on_host(const GatherAnyTask<double>& task);

}  // namespace tessera::rays
