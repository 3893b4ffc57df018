// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

// Loops over a row of pixels are compiled for several instruction sets and chosen when the program starts.
// The folder is compiled without contraction (no fused multiply-add) and uses no library function but sqrt,
// which IEEE 754 rounds exactly: all of them give the same bits. Not under sanitizers: what chooses runs before
// they are ready.
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define TESSERA_ROW_LOOP __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define TESSERA_ROW_LOOP
#endif
// A call inside such a loop would leave the clone's instruction set.
#define TESSERA_INLINE [[gnu::always_inline]] inline

namespace tessera::scene {

TESSERA_INLINE float clamp01(float v) {
  v = v > 0 ? v : 0;
  return v < 1 ? v : 1;
}

/// Rounded down, |v| < 2^31.
TESSERA_INLINE float whole(float v) {
  const auto i = static_cast<float>(static_cast<std::int32_t>(v));
  return i > v ? i - 1 : i;
}

/// cos(2 pi turns) to 1e-5.
TESSERA_INLINE float cosine(float turns) {
  float t = turns - whole(turns);  // [0, 1)
  t = t < 0.5F ? t : 1 - t;        // even: [0, 1/2]
  const float x = 0.25F - t;       // cos(2 pi t) = sin(2 pi x), |x| <= 1/4
  const float z = x * x;
  return x * (6.2831853F + z * (-41.341702F + z * (81.605249F + z * (-76.7058597F + z * 42.0586939F))));
}

/// A mix of 32 bits for choices inside of an item (which letter, which window). Source: C. Wellons,
/// "Prospecting for hash functions" (2018), lowbias32.
TESSERA_INLINE std::uint32_t mix(std::uint32_t v) {
  v = (v ^ (v >> 16)) * 0x7feb352dU;
  v = (v ^ (v >> 15)) * 0x846ca68bU;
  return v ^ (v >> 16);
}

}  // namespace tessera::scene
