// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "tessera/domain/conjugate_gradients.hpp"
#include "tessera/domain/distributed_operator.hpp"

namespace tessera {

/// Largest eigenvalue of `normal`, A^T W A with weights W >= 0, for step lengths: not below it.
///
/// Where A has no negative entry (kernels without negative taps, masks) an upper bound, at most 50 uses of
/// the map, within 1e-3 of the truth where they suffice: the ratios of L. Collatz (1942) and H. Wielandt
/// (1950). Else a power iteration from a vector made of `seed` and the global pixel index, plus 2 %.
/// Collective.
double largest_eigenvalue(const DistributedOperator& A, const LinearMap& normal, const Space& space,
                          std::uint64_t seed);

}  // namespace tessera
