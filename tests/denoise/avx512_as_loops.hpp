// SPDX-License-Identifier: BSD-3-Clause
// The intrinsics of AVX-512, with those for bfloat16, that winograd/avx512_registers.hpp uses, as loops over their lanes:
// so its kernels are tested on processors with AVX2 alone. Source: Intel's intrinsics guide; products of bfloat16 are
// summed unrounded here, their conversions keep denormal numbers.
#pragma once

#include <immintrin.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace avx512_as_loops {

template <class To, class From>
To bits(const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}
template <class T, class V>
std::array<T, sizeof(V) / sizeof(T)> lanes(const V& v) {
  return bits<std::array<T, sizeof(V) / sizeof(T)>>(v);
}

// V from f(i) of type T in lane i.
template <class V, class T, class F>
V made(const F& f) {
  std::array<T, sizeof(V) / sizeof(T)> out{};
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = f(i);
  return bits<V>(out);
}
inline bool set(std::uint32_t mask, std::size_t i) { return (mask >> i & 1U) != 0; }

// Lanes whose bit is not set are not touched in memory.
template <class V, class T>
V load_some(std::uint32_t mask, const void* p) {
  return made<V, T>([&](std::size_t i) {
    T t{};
    if (set(mask, i)) std::memcpy(&t, static_cast<const T*>(p) + i, sizeof t);
    return t;
  });
}
template <class T, class V>
void store_some(void* p, std::uint32_t mask, const V& v) {
  const auto from = lanes<T>(v);
  for (std::size_t i = 0; i < from.size(); ++i)
    if (set(mask, i)) std::memcpy(static_cast<T*>(p) + i, &from[i], sizeof(T));
}
template <class V>
std::uint32_t unordered(const V& a, const V& b) {
  const auto x = lanes<float>(a), y = lanes<float>(b);
  std::uint32_t mask = 0;
  for (std::size_t i = 0; i < x.size(); ++i)
    if (x[i] != x[i] || y[i] != y[i]) mask |= 1U << i;
  return mask;
}
template <class V>
V mixed(const V& a, std::uint32_t mask, const V& b) {
  const auto x = lanes<std::int32_t>(a), y = lanes<std::int32_t>(b);
  return made<V, std::int32_t>([&](std::size_t i) { return set(mask, i) ? y[i] : x[i]; });
}
template <class V, class F>
V each(const V& a, const V& b, const F& f) {
  const auto x = lanes<std::uint32_t>(a), y = lanes<std::uint32_t>(b);
  return made<V, std::uint32_t>([&](std::size_t i) { return f(x[i], y[i]); });
}
template <class Narrow, class V>
Narrow low_halves(const V& v) {
  const auto x = lanes<std::uint32_t>(v);
  return made<Narrow, std::uint16_t>([&](std::size_t i) { return static_cast<std::uint16_t>(x[i]); });
}
template <class Wide, class V>
Wide zero_extended(const V& v) {
  const auto x = lanes<std::uint16_t>(v);
  return made<Wide, std::uint32_t>([&](std::size_t i) { return std::uint32_t{x[i]}; });
}
inline std::uint16_t bfloat16(float f) {
  const auto b = bits<std::uint32_t>(f);
  return f != f ? std::uint16_t{0x7fc0} : static_cast<std::uint16_t>((b + 0x7fff + (b >> 16 & 1U)) >> 16);
}
template <class Narrow, class V>
Narrow to_bfloat16(const V& v) {
  const auto x = lanes<float>(v);
  return made<Narrow, std::uint16_t>([&](std::size_t i) { return bfloat16(x[i]); });
}
// The one that takes the time: without calls, which the tests' build keeps.
template <class V, class Bf16s>
V sum_of_pairs(const V& sum, const Bf16s& a, const Bf16s& b) {
  constexpr std::size_t kLanes = sizeof(V) / sizeof(float);
  float s[kLanes];
  std::uint32_t x[kLanes], y[kLanes];
  __builtin_memcpy(s, &sum, sizeof sum);
  __builtin_memcpy(x, &a, sizeof a);
  __builtin_memcpy(y, &b, sizeof b);
  for (std::size_t i = 0; i < kLanes; ++i) {
    const std::uint32_t odd[2] = {x[i] & 0xffff0000U, y[i] & 0xffff0000U}, even[2] = {x[i] << 16, y[i] << 16};
    float p[2], q[2];
    __builtin_memcpy(p, odd, sizeof p);
    __builtin_memcpy(q, even, sizeof q);
    s[i] += p[0] * p[1];
    s[i] += q[0] * q[1];
  }
  V out;
  __builtin_memcpy(&out, s, sizeof out);
  return out;
}
inline __m512 from_float16(__m256i v) {
  const auto halves = lanes<__m128i>(v);
  return bits<__m512>(std::array<__m256, 2>{_mm256_cvtph_ps(halves[0]), _mm256_cvtph_ps(halves[1])});
}
inline __m256i to_float16(__m512 v) {
  const auto halves = lanes<__m256>(v);
  return bits<__m256i>(std::array<__m128i, 2>{_mm256_cvtps_ph(halves[0], _MM_FROUND_TO_NEAREST_INT),
                                              _mm256_cvtps_ph(halves[1], _MM_FROUND_TO_NEAREST_INT)});
}
inline __m512 in_low_half(__m256 v) {
  __m512 out{};
  std::memcpy(&out, &v, sizeof v);
  return out;
}
inline __m256 low_half(__m512 v) {
  __m256 out;
  std::memcpy(&out, &v, sizeof out);
  return out;
}
inline void stream(void* p, __m512 v) {
  if (reinterpret_cast<std::uintptr_t>(p) % sizeof v != 0) std::abort();  // the processor would fault
  std::memcpy(p, &v, sizeof v);
}

}  // namespace avx512_as_loops

// Macros of the compiler's own where it does not optimize.
#undef _mm512_slli_epi32
#undef _mm512_srli_epi32
#undef _mm512_cmp_ps_mask
#undef _mm512_cvtps_ph

#define AS_LOOPS avx512_as_loops
#define _mm512_castps_si512(v) AS_LOOPS::bits<__m512i>(v)
#define _mm512_castsi512_ps(v) AS_LOOPS::bits<__m512>(v)
#define _mm512_castps256_ps512(v) AS_LOOPS::in_low_half(v)
#define _mm512_castps512_ps256(v) AS_LOOPS::low_half(v)
#define _mm512_maskz_loadu_ps(m, p) AS_LOOPS::load_some<__m512, float>(m, p)
#define _mm256_maskz_loadu_ps(m, p) AS_LOOPS::load_some<__m256, float>(m, p)
#define _mm512_mask_storeu_ps(p, m, v) AS_LOOPS::store_some<float>(p, m, v)
#define _mm256_mask_storeu_ps(p, m, v) AS_LOOPS::store_some<float>(p, m, v)
#define _mm256_maskz_loadu_epi16(m, p) AS_LOOPS::load_some<__m256i, std::uint16_t>(m, p)
#define _mm_maskz_loadu_epi16(m, p) AS_LOOPS::load_some<__m128i, std::uint16_t>(m, p)
#define _mm256_mask_storeu_epi16(p, m, v) AS_LOOPS::store_some<std::uint16_t>(p, m, v)
#define _mm_mask_storeu_epi16(p, m, v) AS_LOOPS::store_some<std::uint16_t>(p, m, v)
#define _mm512_stream_ps(p, v) AS_LOOPS::stream(p, v)
#define _mm512_set1_epi32(x) AS_LOOPS::made<__m512i, std::int32_t>([&](std::size_t) { return x; })
#define _mm512_add_epi32(a, b) AS_LOOPS::each(a, b, [](std::uint32_t x, std::uint32_t y) { return x + y; })
#define _mm512_and_si512(a, b) AS_LOOPS::each(a, b, [](std::uint32_t x, std::uint32_t y) { return x & y; })
#define _mm512_slli_epi32(a, n) AS_LOOPS::each(a, a, [](std::uint32_t x, std::uint32_t) { return x << (n); })
#define _mm512_srli_epi32(a, n) AS_LOOPS::each(a, a, [](std::uint32_t x, std::uint32_t) { return x >> (n); })
#define _mm512_cmp_ps_mask(a, b, unordered_only) AS_LOOPS::unordered(a, b)
#define _mm512_mask_mov_epi32(a, m, b) AS_LOOPS::mixed(a, m, b)
#define _mm512_cvtepi32_epi16(v) AS_LOOPS::low_halves<__m256i>(v)
#define _mm512_cvtepu16_epi32(v) AS_LOOPS::zero_extended<__m512i>(v)
#define _mm512_cvtph_ps(v) AS_LOOPS::from_float16(v)
#define _mm512_cvtps_ph(v, to_nearest) AS_LOOPS::to_float16(v)
#define _mm512_cvtneps_pbh(v) AS_LOOPS::to_bfloat16<__m256bh>(v)
#define _mm256_cvtneps_pbh(v) AS_LOOPS::to_bfloat16<__m128bh>(v)
#define _mm512_dpbf16_ps(s, a, b) AS_LOOPS::sum_of_pairs(s, a, b)
#define _mm256_dpbf16_ps(s, a, b) AS_LOOPS::sum_of_pairs(s, a, b)
