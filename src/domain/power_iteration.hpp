// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "tessera/domain/conjugate_gradients.hpp"
#include "tessera/domain/distributed_operator.hpp"

namespace tessera {

/// Largest eigenvalue of the symmetric, positive map `normal` on A's images. Collective.
double power_iteration(const DistributedOperator& A, const LinearMap& normal, const Space& space,
                       std::uint64_t seed, double relative_tolerance, int max_iterations);

}  // namespace tessera
