// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include "tessera/core/box.hpp"
#include "tessera/physics/projection_geometry.hpp"

namespace tessera {

/// Whether the detector of every view has its rows along z and its columns across it, of a parallel beam across the rays too.
bool is_upright(const ProjectionGeometry& geometry);

/// A scan by the same sources on detectors that are upright and face the axis: of the same middles and pitches, and as large
/// as what a turned one covers of it (at most four times its own size). For rays that keep off z.
ProjectionGeometry upright_detector(const ProjectionGeometry& geometry);

/// The samples of a detector that those of the upright one in a box of one or more views lie between. Empty: none are wanted.
Box samples_behind(const ProjectionGeometry& turned, const ProjectionGeometry& upright, const Box& wanted);

/// Samples of the upright detector in a box: what lies between those of the turned one (cubic), of which `have` are
/// there; beyond its ends the nearest one. Dense (views, rows, columns), float32 or float64, any device. Not collective.
void onto_upright(const ProjectionGeometry& turned, const Box& have, const at::Tensor& y,
                  const ProjectionGeometry& upright, const Box& wanted, const at::Tensor& out);

}  // namespace tessera
