// SPDX-License-Identifier: BSD-3-Clause
// C++17, for .cpp and .cu.
#pragma once

#include <cuda_runtime_api.h>

namespace tessera {

/// Every CUDA runtime return goes through here; throws RunError.
void check_cuda(cudaError_t code, const char* call, const char* file, int line);
#define TESSERA_CUDA(call) ::tessera::check_cuda((call), #call, __FILE__, __LINE__)

}  // namespace tessera
