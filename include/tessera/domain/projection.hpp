// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>

#include "tessera/comm/array.hpp"
#include "tessera/domain/operator_plan.hpp"
#include "tessera/physics/projection_geometry.hpp"

namespace tessera {

/// Which projector is placed: kernels is that of a GPU, which on processors is a plain loop, for tests.
enum class ProjectorChoice { of_device, kernels };

/// Line integrals of a distributed picture or volume, and their exact adjoint (physics/projector.hpp).
///
/// The volume is cut into blocks along any axes; projections are owned by boxes of whole detector rows. A rank
/// projects its block onto its shadow; shadows are added into their owners by the transposed exchange, in rank
/// order, in batches of views, the exchange of a batch under way while the next is projected. The adjoint
/// fetches shadows the same way. Of a parallel beam whose rows are the volume's slices, cut along its axis,
/// nothing is sent.
///
/// The domain's box has the size of the geometry's volume. The range has one part: of a picture (views,
/// columns), one row; of a volume (views, rows, columns). Channels are projected one by one. On processors float32 in
/// vector code, float64 in plain code; on a GPU both in kernels (physics/ray_projector.hpp). `device` is the one
/// that the plan speaks of: memory is its. It is placed on any.
std::unique_ptr<OperatorPlan> plan_projection(std::shared_ptr<const ProjectionGeometry> geometry,
                                              Device device = {},
                                              ProjectorChoice choice = ProjectorChoice::of_device);

/// Of such a plan; null for any other.
std::shared_ptr<const ProjectionGeometry> geometry_of(const OperatorPlan& plan);

}  // namespace tessera
