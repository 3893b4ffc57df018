// SPDX-License-Identifier: BSD-3-Clause
// Compiled for AVX-512, see CMakeLists.txt; called on CPUs that have it.
#ifdef __AVX512F__
#include "winograd/avx512_registers.hpp"
#include "winograd/winograd_kernels.hpp"

namespace tessera {
const WinogradKernels& winograd_avx512() {
  static constexpr WinogradKernels kernels = all_kernels();  // without code, which not every CPU could run
  return kernels;
}
}  // namespace tessera
#else  // another architecture: never called
#include "winograd/winograd_task.hpp"

namespace tessera {
const WinogradKernels& winograd_avx512() {
  static const WinogradKernels none{};
  return none;
}
}  // namespace tessera
#endif
