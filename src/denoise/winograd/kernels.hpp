// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>

#include "winograd/winograd.hpp"
#include "winograd/winograd_task.hpp"

namespace tessera {

/// Those of an instruction set.
const WinogradKernels& winograd_kernels(Winograd::Instructions instructions);
/// The place of the type's kernels in their table.
std::size_t winograd_element(at::ScalarType type);

}  // namespace tessera
