// SPDX-License-Identifier: BSD-3-Clause
// Compiled for AVX-512, see CMakeLists.txt; called on CPUs that have it.
#ifdef __AVX512F__
#include <immintrin.h>

#include <cstdint>

#define TESSERA_WINOGRAD_ROWS 14  // 28 of the 32 registers hold sums
namespace {
constexpr int kLanes = 16;
using Vec = __m512;
using Half = __m256;
inline __mmask16 first_lanes(std::int64_t n) { return static_cast<__mmask16>((1U << n) - 1); }
inline void load_some(const float* p, std::int64_t n, Vec& v) {
  v = _mm512_maskz_loadu_ps(first_lanes(n), p);
}
inline void load_some(const float* p, std::int64_t n, Half& v) {
  v = _mm256_maskz_loadu_ps(static_cast<__mmask8>(first_lanes(n)), p);
}
inline void store_some(float* p, Vec v, std::int64_t n) { _mm512_mask_storeu_ps(p, first_lanes(n), v); }
inline void store_some(float* p, Half v, std::int64_t n) {
  _mm256_mask_storeu_ps(p, static_cast<__mmask8>(first_lanes(n)), v);
}
inline void stream(float* p, Vec v) { _mm512_stream_ps(p, v); }
inline void fence() { _mm_sfence(); }
}  // namespace
#include "winograd/winograd_kernels.hpp"

namespace tessera {
const WinogradKernels& winograd_avx512() {
  static const WinogradKernels kernels{kLanes, kRows, run, run_direct, run_patches, scratch_floats};
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
