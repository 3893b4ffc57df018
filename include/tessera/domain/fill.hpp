// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include "tessera/domain/distributed_operator.hpp"
#include "tessera/domain/space.hpp"

namespace tessera {

/// x = A^T W y becomes each pixel's mean of the samples that see it, x / D, D = A^T W A 1; those with D < least,
/// which hardly any or none sees, are filled smoothly from their neighbors: there
///
///   (D + mu mean(D) grad^T grad) x = A^T W y,
///
/// mean(D) over the others; grad: forward differences, none across the border. By conjugate gradients on these
/// pixels, until a hundredth of the first residual is left, 200 at most: holes wider than that are filled from
/// their rim inward only. Collective; the same for any number of ranks to rounding.
void fill_unmeasured(const DistributedOperator& A, const at::Tensor& diagonal, double least, at::Tensor& x,
                     const Space& space);

}  // namespace tessera
