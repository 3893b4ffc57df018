// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include <array>

#include "tessera/core/words.hpp"
#include "tessera/physics/projection_geometry.hpp"

namespace tessera {

/// What the ramp is multiplied by up to the highest frequency f_N: 1, (1 + cos(pi f / f_N)) / 2, cos(pi f /
/// (2 f_N)).
enum class RampWindow { ram_lak, hann, cosine };
template <>
inline constexpr std::array kWords<RampWindow>{"ram-lak", "hann", "cosine"};

/// Rows times the ramp: q = pitch (h * y) along the last axis, of any others, float32 or float64, any
/// device.
///
/// h is the band-limited ramp's kernel, h[0] = 1 / (4 pitch^2), h[n] = -1 / (pi n pitch)^2 for odd n, else
/// 0: sampled as |f| its mean would be wrong by 2 to 6 %. Rows are continued by zeros to twice their length
/// or more. Source: A. C. Kak, M. Slaney, Principles of Computerized Tomographic Imaging, 1988, section
/// 3.3.3.
at::Tensor ramp_filtered(const at::Tensor& rows, double pitch, RampWindow window);

/// Direct reconstruction with the projector's own adjoint, of a parallel beam over any multiple of half a
/// turn (FBP) or a cone beam over full turns (FDK), at equal angles, on an upright detector:
///   x = scale A^T (after * ramp_filtered(before * y, pitch, window)).
///
/// The sum of Joseph's weights of a voxel in a view is the voxel's volume over the distance of rays there,
/// across them. In a cone that brings FDK's weight 1 / (distance of the voxel along the axis from the
/// source)^2 with it, and `after` takes the obliqueness out. Errors: InputError for a fan, whose weights
/// the adjoint does not bring, and for a detector that is not upright. Source: L. A. Feldkamp, L. C. Davis,
/// J. W. Kress, JOSA A 1 (1984) 612.
struct DirectReconstruction {
  at::Tensor before, after;  // (views or 1, rows, columns), float64; ones for a parallel beam: (1, 1, 1)
  double pitch = 1;          // of columns, at the axis
  double scale = 1;
};
DirectReconstruction direct_reconstruction(const ProjectionGeometry& geometry);

/// 1 / sums where they exceed `least` of the largest, else 0: SIRT's scaling from A 1 and A^T 1,
///   x += C A^T R (y - A x),  R = 1 / (A 1), C = 1 / (A^T 1).
at::Tensor sirt_scaling(const at::Tensor& sums, double least = 1e-6);

}  // namespace tessera
