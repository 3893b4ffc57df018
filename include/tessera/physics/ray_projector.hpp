// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>

#include "tessera/core/box.hpp"
#include "tessera/physics/projection_geometry.hpp"
#include "tessera/physics/projector.hpp"

namespace tessera {

/// The projector of a block whose tensors are on a GPU: Projector's A and A^T, the same weights. On the host too, as a plain
/// loop over what the kernels' threads do, for tests; there Projector is the fast one.
///
/// float32, or float64 throughout. Tensors are dense, on one device: the block (d, h, w), samples (view, row, column) over
/// a box of them, which may be any. A voxel or a sample is summed by one thread, views, columns and rows in their order:
/// no atomics, the same bits every time, and in the adjoint the same at a voxel whatever block it is in, under Projector's
/// conditions. Kernels go to the stream that torch uses; nothing waits for them. Memory is torch's: a copy of the block
/// with a rim of zeros, in project() nothing else, in gather() a copy of the samples.
///
/// Not collective; one caller at a time. InputError where a block or the detector is larger than indices are.
class RayProjector {
 public:
  /// Keeps the geometry, which validate() has accepted; `block` lies in its volume. `stream` is asked for torch's current
  /// cudaStream_t of the device; on the host it may be empty.
  RayProjector(std::shared_ptr<const ProjectionGeometry> geometry, const Box& block,
               at::TensorOptions options, std::function<void*()> stream);
  ~RayProjector();
  RayProjector(RayProjector&&) noexcept;
  RayProjector& operator=(RayProjector&&) noexcept;

  void load(const at::Tensor& x);
  /// y = or += A x on these samples.
  void project(const Box& samples, const at::Tensor& y, ProjectorInto into = ProjectorInto::replace) const;
  /// x += A^T y, of samples in this box.
  void gather(const Box& samples, const at::Tensor& y, const at::Tensor& x) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Bytes that it holds or takes for a moment, in numbers of so many bytes; at most so many samples at once.
std::int64_t ray_projector_bytes(const ProjectionGeometry& geometry, const Box& block, std::int64_t samples,
                                 std::int64_t element_bytes);

}  // namespace tessera
