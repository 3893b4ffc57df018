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
inline void load_floats(const float* p, std::int64_t n, Vec& v) { v = _mm256_maskload_ps(p, first_lanes(n)); }
inline void load_floats(const float* p, std::int64_t n, Half& v) { v = _mm_maskload_ps(p, first_of_half(n)); }
inline void store_floats(float* p, Vec v, std::int64_t n) { _mm256_maskstore_ps(p, first_lanes(n), v); }
inline void store_floats(float* p, Half v, std::int64_t n) { _mm_maskstore_ps(p, first_of_half(n), v); }
inline void stream(float* p, Vec v) { _mm256_stream_ps(p, v); }
inline void fence() { _mm_sfence(); }

// As many numbers of 16 bits as a register, or half a one, has lanes; in half a one the first four.
struct Bf16 {
  std::uint16_t bits;
};
struct F16 {
  std::uint16_t bits;
};
inline __m128i bits_of(const void* p, const Vec&) { return _mm_loadu_si128(static_cast<const __m128i*>(p)); }
inline __m128i bits_of(const void* p, const Half&) { return _mm_loadl_epi64(static_cast<const __m128i*>(p)); }
// n numbers, at most 8: all, or four, two and one of them where there are so many. A copy of any length would be a call.
inline void copy_few(const void* from, void* to, std::int64_t n) {
  const char* f = static_cast<const char*>(from);
  char* t = static_cast<char*>(to);
  if (n & 8) __builtin_memcpy(t, f, 16);
  if (n & 4) {
    __builtin_memcpy(t, f, 8);
    f += 8;
    t += 8;
  }
  if (n & 2) {
    __builtin_memcpy(t, f, 4);
    f += 4;
    t += 4;
  }
  if (n & 1) __builtin_memcpy(t, f, 2);
}
template <class V>
inline __m128i some_bits_of(const void* p, std::int64_t n, const V&) {
  __m128i bits{};
  copy_few(p, &bits, n);
  return bits;
}
inline void put_bits(void* p, __m128i bits, const Vec&) { _mm_storeu_si128(static_cast<__m128i*>(p), bits); }
inline void put_bits(void* p, __m128i bits, const Half&) { _mm_storel_epi64(static_cast<__m128i*>(p), bits); }
template <class V>
inline void put_some_bits(void* p, __m128i bits, std::int64_t n, const V&) {
  copy_few(&bits, p, n);
}

inline void widen(__m128i bits, F16, Vec& v) { v = _mm256_cvtph_ps(bits); }
inline void widen(__m128i bits, F16, Half& v) { v = _mm_cvtph_ps(bits); }
inline __m128i narrow(Vec v, F16) { return _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT); }
inline __m128i narrow(Half v, F16) { return _mm_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT); }
inline void widen(__m128i bits, Bf16, Vec& v) {
  v = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}
inline void widen(__m128i bits, Bf16, Half& v) {
  v = _mm_castsi128_ps(_mm_unpacklo_epi16(_mm_setzero_si128(), bits));
}
// To the nearest, ties to even; a NaN, which rounding might take for infinity, becomes one of all bits.
inline __m256i rounded(Vec v) {
  const __m256i b = _mm256_castps_si256(v);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(b, 16), _mm256_set1_epi32(1));
  const __m256i up = _mm256_add_epi32(b, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
  const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
  return _mm256_srli_epi32(_mm256_or_si256(up, nan), 16);
}
inline __m128i narrow(Vec v, Bf16) {
  const __m256i b = rounded(v);
  return _mm_packus_epi32(_mm256_castsi256_si128(b), _mm256_extracti128_si256(b, 1));
}
inline __m128i narrow(Half v, Bf16) {
  const __m128i b = _mm256_castsi256_si128(rounded(_mm256_castps128_ps256(v)));
  return _mm_packus_epi32(b, b);
}

inline void repeat_pair(const void* p, Vec& v) { v = _mm256_broadcast_ss(static_cast<const float*>(p)); }
inline void repeat_pair(const void* p, Half& v) { v = _mm_broadcast_ss(static_cast<const float*>(p)); }
// Without an instruction for it: the products are those of floats.
inline void add_pairs(Vec& sum, Vec x, Vec w) {
  const __m256i high = _mm256_set1_epi32(static_cast<int>(0xffff0000U));
  const auto odd = [&](Vec v) { return _mm256_castsi256_ps(_mm256_and_si256(_mm256_castps_si256(v), high)); };
  const auto even = [](Vec v) { return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(v), 16)); };
  sum += odd(x) * odd(w);
  sum += even(x) * even(w);
}
inline void add_pairs(Half& sum, Half x, Half w) {
  Vec all = _mm256_castps128_ps256(sum);
  add_pairs(all, _mm256_castps128_ps256(x), _mm256_castps128_ps256(w));
  sum = _mm256_castps256_ps128(all);
}
}  // namespace
#include "winograd/winograd_kernels.hpp"

namespace tessera {
const WinogradKernels& winograd_avx2() {
  static constexpr WinogradKernels kernels = all_kernels();  // without code, which not every CPU could run
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
