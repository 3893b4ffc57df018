// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include "tessera/domain/distributed_operator.hpp"
#include "tessera/domain/space.hpp"

namespace tessera {

/// Fills pixels that nothing measures smoothly from their neighbors: x with
///
///   (D + mu mean(D) grad^T grad) x = b,
///
/// D = diagonal of A^T W A (0 where nothing is measured), b = A^T W y; grad: forward differences, none across
/// the border. A small mu leaves measured pixels nearly as they are. By conjugate gradients from zero, 200 at
/// most: holes wider than that are filled from their rim inward only. Collective; the same for any number of
/// ranks to rounding.
void fill_unmeasured(const DistributedOperator& A, const at::Tensor& diagonal, const at::Tensor& b,
                     at::Tensor& x, const Space& space);

}  // namespace tessera
