// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>

#include "tessera/core/box.hpp"
#include "tessera/physics/projection_geometry.hpp"

namespace tessera {

/// The code of a projector. plain: any geometry, one ray after the other. The others need the CPU's
/// instructions and detectors whose rows stand along z; views that they cannot take go the plain way.
enum class ProjectorKernels { plain, avx2, avx512 };
/// The fastest of this CPU.
ProjectorKernels fastest_projector_kernels();

/// What becomes of the numbers that stand where a result goes.
enum class ProjectorInto { replace, add };

/// Joseph's forward projection A of one block of a volume, and its exact adjoint with the same weights
/// (physics/projector/ray.hpp has the rule): line integrals in the units of the geometry.
///
/// Voxels outside of the block are left out of the sums, so that projections of blocks that cut a volume
/// add up to the volume's. Arrays are dense: the block (d, h, w), samples (view, row, column) over a box of
/// them, which may be any; only those of shadow() are ever touched by the block. Nothing is stored per ray:
/// beside the arrays there is a copy of the block and, per thread, room for a few views.
///
///   project: load(x), then project() as often as there are batches of views
///   adjoint: clear(), gather() for each batch, then store()
///
/// A sample and a voxel are summed by one thread in an order that no number of threads changes. The
/// adjoint's bits at a voxel do not depend on the block that it is in, as long as the batches of views are
/// the same and hold all samples of the block's shadow; those of a projection depend on the block by
/// rounding only. float32: coordinates are rounded to about 2e-6 of a voxel. Host; not collective; one
/// caller at a time.
class Projector {
 public:
  /// Keeps the geometry, which validate() has accepted; `block` lies in its volume.
  Projector(std::shared_ptr<const ProjectionGeometry> geometry, const Box& block,
            ProjectorKernels kernels = fastest_projector_kernels());
  ~Projector();
  Projector(Projector&&) noexcept;
  Projector& operator=(Projector&&) noexcept;

  void load(const float* x);
  /// y = or += A x on these samples.
  void project(const Box& samples, float* y, ProjectorInto into = ProjectorInto::replace) const;
  void clear();
  /// The sum grows by A^T y, of samples in this box; those outside of it count as 0.
  void gather(const Box& samples, const float* y);
  /// x = or += the sum.
  void store(float* x, ProjectorInto into = ProjectorInto::replace) const;

  const ProjectionGeometry& geometry() const;
  const Box& block() const;
  /// Bytes of the copy of the block that load() or clear() makes.
  std::int64_t bytes() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The definition, in double, plain code for any geometry: y = or += A x of a block.
void project_plain(const ProjectionGeometry& geometry, const Box& block, const double* x, const Box& samples,
                   double* y, ProjectorInto into = ProjectorInto::replace);
/// x = or += A^T y.
void gather_plain(const ProjectionGeometry& geometry, const Box& block, const Box& samples, const double* y,
                  double* x, ProjectorInto into = ProjectorInto::replace);

}  // namespace tessera
