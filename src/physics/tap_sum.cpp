// SPDX-License-Identifier: BSD-3-Clause
#include "tap_sum.hpp"

#include <algorithm>
#include <cstring>

#include "for_this_cpu.hpp"

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
[[gnu::always_inline]] inline void columns_of_row(const T* in, const std::int64_t* offset, const T* weight,
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

template <class T>
struct TapSum {
  template <int kBytes>
  [[gnu::always_inline]] static void row(const T* in, const Taps<T>& taps, T* out, std::int64_t n) {
    columns_of_row<typename Register<T, kBytes>::Type>(in, taps.offset.data(), taps.weight.data(),
                                                       static_cast<std::int64_t>(taps.weight.size()), out, n);
  }
};

template <class T>
void sum(const T* in, const Taps<T>& taps, T* out, std::int64_t n) {
  ForThisCpu<TapSum<T>, const T*, const Taps<T>&, T*, std::int64_t>::row(in, taps, out, n);
}

}  // namespace

void tap_sum(const float* in, const Taps<float>& taps, float* out, std::int64_t n) { sum(in, taps, out, n); }
void tap_sum(const double* in, const Taps<double>& taps, double* out, std::int64_t n) {
  sum(in, taps, out, n);
}

}  // namespace tessera
