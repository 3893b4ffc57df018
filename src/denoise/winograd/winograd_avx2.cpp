// SPDX-License-Identifier: BSD-3-Clause
// Compiled for AVX2 and FMA, see CMakeLists.txt; called on CPUs that have it.
#ifdef __AVX2__
#include <immintrin.h>

#include <cstdint>

#define TESSERA_WINOGRAD_ROWS 6  // 12 of the 16 registers hold sums
namespace {
constexpr int kLanes = 8;
using Vec = __m256;
using Half = __m128;
inline __m256i first_lanes(std::int64_t n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)),
                            _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
inline __m128i first_of_half(std::int64_t n) { return _mm256_castsi256_si128(first_lanes(n)); }
inline void load_some(const float* p, std::int64_t n, Vec& v) { v = _mm256_maskload_ps(p, first_lanes(n)); }
inline void load_some(const float* p, std::int64_t n, Half& v) { v = _mm_maskload_ps(p, first_of_half(n)); }
inline void store_some(float* p, Vec v, std::int64_t n) { _mm256_maskstore_ps(p, first_lanes(n), v); }
inline void store_some(float* p, Half v, std::int64_t n) { _mm_maskstore_ps(p, first_of_half(n), v); }
inline void stream(float* p, Vec v) { _mm256_stream_ps(p, v); }
inline void fence() { _mm_sfence(); }
}  // namespace
#include "winograd/winograd_kernels.hpp"

namespace tessera {
const WinogradKernels& winograd_avx2() {
  static const WinogradKernels kernels{kLanes, kRows, run, run_direct, run_patches, scratch_floats};
  return kernels;
}
}  // namespace tessera
#else  // another architecture: never called
#include "winograd/winograd_task.hpp"

namespace tessera {
const WinogradKernels& winograd_avx2() {
  static const WinogradKernels none{};
  return none;
}
}  // namespace tessera
#endif
