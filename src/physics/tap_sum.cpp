// SPDX-License-Identifier: BSD-3-Clause
#include "tap_sum.hpp"

#include <algorithm>
#include <cstring>

namespace tessera {
namespace {

// `kVectors` vectors of columns.
template <int kVectors, class Vector, class T>
[[gnu::always_inline]] inline void columns(const T* in, const std::int64_t* offset, const T* weight,
                                           std::int64_t taps, T* out) {
  Vector sum[kVectors] = {};
  for (std::int64_t k = 0; k < taps; ++k)
    for (int v = 0; v < kVectors; ++v) {
      Vector x;
      std::memcpy(&x, in + offset[k] + v * static_cast<std::int64_t>(sizeof(Vector) / sizeof(T)), sizeof x);
      sum[v] += weight[k] * x;
    }
  std::memcpy(out, sum, sizeof sum);
}

template <class Vector, class T>
[[gnu::always_inline]] inline void row(const T* in, const std::int64_t* offset, const T* weight,
                                       std::int64_t taps, T* out, std::int64_t n) {
  constexpr std::int64_t kLanes = sizeof(Vector) / sizeof(T);
  constexpr int kMany = 4;  // sums under way: as many as hide the time of a multiplication
  // The last block ends at n and makes some columns of the one before again.
  if (n >= kMany * kLanes) {
    for (std::int64_t c = 0; c < n; c += kMany * kLanes) {
      const std::int64_t at = std::min(c, n - kMany * kLanes);
      columns<kMany, Vector>(in + at, offset, weight, taps, out + at);
    }
    return;
  }
  if (n >= kLanes) {
    for (std::int64_t c = 0; c < n; c += kLanes) {
      const std::int64_t at = std::min(c, n - kLanes);
      columns<1, Vector>(in + at, offset, weight, taps, out + at);
    }
    return;
  }
  for (std::int64_t c = 0; c < n; ++c) {
    T sum = 0;
    for (std::int64_t k = 0; k < taps; ++k) sum += weight[k] * in[offset[k] + c];
    out[c] = sum;
  }
}

// A register of `kBytes`.
template <class T, int kBytes>
struct Register {
  using Type [[gnu::vector_size(kBytes)]] = T;
};

template <class T>
using Row = void (*)(const T*, const std::int64_t*, const T*, std::int64_t, T*, std::int64_t);

template <class T>
void row_plain(const T* in, const std::int64_t* offset, const T* weight, std::int64_t taps, T* out,
               std::int64_t n) {
  row<typename Register<T, 16>::Type>(in, offset, weight, taps, out, n);
}

#if defined(__x86_64__)
template <class T>
[[gnu::target("avx2,fma")]] void row_avx2(const T* in, const std::int64_t* offset, const T* weight,
                                          std::int64_t taps, T* out, std::int64_t n) {
  row<typename Register<T, 32>::Type>(in, offset, weight, taps, out, n);
}
template <class T>
[[gnu::target("avx512f")]] void row_avx512(const T* in, const std::int64_t* offset, const T* weight,
                                           std::int64_t taps, T* out, std::int64_t n) {
  row<typename Register<T, 64>::Type>(in, offset, weight, taps, out, n);
}
template <class T>
Row<T> best() {
  if (__builtin_cpu_supports("avx512f")) return row_avx512<T>;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return row_avx2<T>;
  return row_plain<T>;
}
#else
template <class T>
Row<T> best() {
  return row_plain<T>;
}
#endif

template <class T>
void sum(const T* in, const Taps<T>& taps, T* out, std::int64_t n) {
  static const Row<T> row = best<T>();
  row(in, taps.offset.data(), taps.weight.data(), static_cast<std::int64_t>(taps.weight.size()), out, n);
}

}  // namespace

void tap_sum(const float* in, const Taps<float>& taps, float* out, std::int64_t n) { sum(in, taps, out, n); }
void tap_sum(const double* in, const Taps<double>& taps, double* out, std::int64_t n) {
  sum(in, taps, out, n);
}

}  // namespace tessera
