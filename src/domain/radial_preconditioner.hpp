// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "tessera/domain/prox_plan.hpp"

namespace tessera {

/// Its row: projections from all around, pictures and volumes (OperatorTraits::radial).
///
/// About the inverse of gamma A^T W A + 1: in Fourier space A^T W A is taken for a symbol S that depends on the
/// distance from the axis of rotation alone, and of volumes whose slices share rays on four bands of frequencies
/// along it. S is the mean over a ring of the diagonal of F A^T W A F^*, estimated from one image of random signs
/// x: Re(conj(F x) F A^T W A x) / |F x|^2 (Hutchinson's probe). So limb and corners of the image, detectors that
/// cut it, rays between pixels and gaps between views enter as they are on average, which the response to one
/// pixel does not say; between rings S |f|, which hardly changes, is smoothed. Where samples have weights, pixels
/// are scaled before and after: at the median of S the inverse is then that of each pixel's own weight.
///
/// Symmetric, positive. Two transforms forth and one back at construction, one forth and back per use.
/// Source: M. Hutchinson, Commun. Stat. Simul. Comput. 18 (1989) 1059; circulant approximations of projections:
///   N. Clinthorne, T.-S. Pan, P.-C. Chiao, W. Rogers, J. Stamos, IEEE Trans. Med. Imaging 12 (1993) 78; scaling by
///   weights: J. Fessler, S. Booth, IEEE Trans. Image Process. 8 (1999) 688. Rings and bands are ours.
PreconditionerRow radial_preconditioner();

}  // namespace tessera
