// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include "tessera/denoise/layer_step.hpp"

namespace tessera {

// Layers that change the level see and make blocks alone, since a margin may be odd.

/// The first input without its margin.
at::Tensor block_of_input(const StepCall& call);
/// Whether features of the result's level have a margin.
bool has_margin(const StepCall& call);
/// The result with room for its margin.
at::Tensor with_margin(const StepCall& call, const at::Tensor& block);

}  // namespace tessera
