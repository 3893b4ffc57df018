// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "tessera/physics/projection_geometry.hpp"

namespace tessera {

/// Shares of the volume's voxels whose middle no view sees, and not all views see. On a grid of some 4,000 voxels and at
/// most 90 views: to about a percent.
struct Coverage {
  double unseen = 0, partly = 0;
};
Coverage coverage(const ProjectionGeometry& geometry);

}  // namespace tessera
