// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "tessera/core/box.hpp"
#include "tessera/physics/projection_geometry.hpp"

namespace tessera {

/// y += A x, x += A^T y of views [samples.lo, samples.hi), ray after ray; coordinates and weights in
/// double. Arrays as Projector's. T: float, double.
template <class T>
void plain_project(const ProjectionGeometry& geometry, const Box& block, const T* x, const Box& samples,
                   T* y);
template <class T>
void plain_gather(const ProjectionGeometry& geometry, const Box& block, const Box& samples, const T* y, T* x);

}  // namespace tessera
