// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

namespace tessera {

/// What the assembler gave our kernels on each architecture that they were built for, one line per kernel: as
/// it was compiled, no GPU is asked.
std::string kernel_table();

}  // namespace tessera
