// SPDX-License-Identifier: BSD-3-Clause
// Compiled for AVX-512, see CMakeLists.txt; called on CPUs that have it.
#define TESSERA_WINOGRAD_ROWS 14  // 28 of the 32 registers hold sums
namespace {
constexpr int kLanes = 16;
}
#include "winograd_kernels.hpp"

namespace tessera {
const WinogradKernels& winograd_avx512() {
  static const WinogradKernels kernels{kLanes, run, scratch_floats};
  return kernels;
}
}  // namespace tessera
