// SPDX-License-Identifier: BSD-3-Clause
// The registers of winograd_kernels.hpp for AVX-512, with the instructions for bfloat16 where the including file is
// compiled for them.
#include <immintrin.h>

#include <cstdint>

#define TESSERA_WINOGRAD_ROWS 14  // 28 of the 32 registers hold sums
namespace {
constexpr int kLanes = 16;
using Vec = __m512;
using Half = __m256;
inline __mmask16 first_lanes(std::int64_t n) { return static_cast<__mmask16>((1U << n) - 1); }
inline __mmask8 first_of_half(std::int64_t n) { return static_cast<__mmask8>(first_lanes(n)); }
inline void load_floats(const float* p, std::int64_t n, Vec& v) {
  v = _mm512_maskz_loadu_ps(first_lanes(n), p);
}
inline void load_floats(const float* p, std::int64_t n, Half& v) {
  v = _mm256_maskz_loadu_ps(first_of_half(n), p);
}
inline void store_floats(float* p, Vec v, std::int64_t n) { _mm512_mask_storeu_ps(p, first_lanes(n), v); }
inline void store_floats(float* p, Half v, std::int64_t n) { _mm256_mask_storeu_ps(p, first_of_half(n), v); }
inline void stream(float* p, Vec v) { _mm512_stream_ps(p, v); }
inline void fence() { _mm_sfence(); }

// As many numbers of 16 bits as a register, or half a one, has lanes.
struct Bf16 {
  std::uint16_t bits;
};
struct F16 {
  std::uint16_t bits;
};
inline __m256i bits_of(const void* p, const Vec&) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(p));
}
inline __m128i bits_of(const void* p, const Half&) { return _mm_loadu_si128(static_cast<const __m128i*>(p)); }
inline __m256i some_bits_of(const void* p, std::int64_t n, const Vec&) {
  return _mm256_maskz_loadu_epi16(first_lanes(n), p);
}
inline __m128i some_bits_of(const void* p, std::int64_t n, const Half&) {
  return _mm_maskz_loadu_epi16(first_of_half(n), p);
}
inline void put_bits(void* p, __m256i bits, const Vec&) {
  _mm256_storeu_si256(static_cast<__m256i*>(p), bits);
}
inline void put_bits(void* p, __m128i bits, const Half&) { _mm_storeu_si128(static_cast<__m128i*>(p), bits); }
inline void put_some_bits(void* p, __m256i bits, std::int64_t n, const Vec&) {
  _mm256_mask_storeu_epi16(p, first_lanes(n), bits);
}
inline void put_some_bits(void* p, __m128i bits, std::int64_t n, const Half&) {
  _mm_mask_storeu_epi16(p, first_of_half(n), bits);
}

inline void widen(__m256i bits, F16, Vec& v) { v = _mm512_cvtph_ps(bits); }
inline void widen(__m128i bits, F16, Half& v) { v = _mm256_cvtph_ps(bits); }
inline __m256i narrow(Vec v, F16) { return _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT); }
inline __m128i narrow(Half v, F16) { return _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT); }
inline void widen(__m256i bits, Bf16, Vec& v) {
  v = _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}
inline void widen(__m128i bits, Bf16, Half& v) {
  v = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}

inline void repeat_pair(const void* p, Vec& v) {
  std::int32_t pair;
  __builtin_memcpy(&pair, p, sizeof pair);
  v = _mm512_castsi512_ps(_mm512_set1_epi32(pair));
}
inline void repeat_pair(const void* p, Half& v) {
  std::int32_t pair;
  __builtin_memcpy(&pair, p, sizeof pair);
  v = _mm256_castsi256_ps(_mm256_set1_epi32(pair));
}
#ifdef __AVX512BF16__
inline __m256i narrow(Vec v, Bf16) { return (__m256i)_mm512_cvtneps_pbh(v); }
inline __m128i narrow(Half v, Bf16) { return (__m128i)_mm256_cvtneps_pbh(v); }
inline void add_pairs(Vec& sum, Vec x, Vec w) { sum = _mm512_dpbf16_ps(sum, (__m512bh)x, (__m512bh)w); }
inline void add_pairs(Half& sum, Half x, Half w) { sum = _mm256_dpbf16_ps(sum, (__m256bh)x, (__m256bh)w); }
#else
// To the nearest, ties to even; any NaN becomes the quiet one, which rounding might take for infinity.
inline __m256i narrow(Vec v, Bf16) {
  const __m512i b = _mm512_castps_si512(v);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(b, 16), _mm512_set1_epi32(1));
  const __m512i up = _mm512_add_epi32(b, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
  const __m512i known =
      _mm512_mask_mov_epi32(up, _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), _mm512_set1_epi32(0x7fc00000));
  return _mm512_cvtepi32_epi16(_mm512_srli_epi32(known, 16));
}
inline __m128i narrow(Half v, Bf16) {
  return _mm256_castsi256_si128(narrow(_mm512_castps256_ps512(v), Bf16{}));
}
inline void add_pairs(Vec& sum, Vec x, Vec w) {
  const __m512i high = _mm512_set1_epi32(static_cast<int>(0xffff0000U));
  const auto odd = [&](Vec v) { return _mm512_castsi512_ps(_mm512_and_si512(_mm512_castps_si512(v), high)); };
  const auto even = [](Vec v) { return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(v), 16)); };
  sum += odd(x) * odd(w);
  sum += even(x) * even(w);
}
inline void add_pairs(Half& sum, Half x, Half w) {
  Vec all = _mm512_castps256_ps512(sum);
  add_pairs(all, _mm512_castps256_ps512(x), _mm512_castps256_ps512(w));
  sum = _mm512_castps512_ps256(all);
}
#endif
}  // namespace
