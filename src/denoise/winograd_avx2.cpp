// SPDX-License-Identifier: BSD-3-Clause
// Compiled for AVX2 and FMA, see CMakeLists.txt; called on CPUs that have it.
#define TESSERA_WINOGRAD_ROWS 6  // 12 of the 16 registers hold sums
namespace {
constexpr int kLanes = 8;
}
#include "winograd_kernels.hpp"

namespace tessera {
const WinogradKernels& winograd_avx2() {
  static const WinogradKernels kernels{kLanes, run, scratch_floats};
  return kernels;
}
}  // namespace tessera
