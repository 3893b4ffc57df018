// SPDX-License-Identifier: BSD-3-Clause
#include "spectrum_product.hpp"

#include <cstring>
#include <utility>

#include "tessera/core/for_this_cpu.hpp"

namespace tessera {
namespace {

template <class Vector, int... kLane>
[[gnu::always_inline]] inline Vector real_parts(const Vector& v, std::integer_sequence<int, kLane...>) {
  return __builtin_shufflevector(v, v, (kLane & ~1)...);
}
template <class Vector, int... kLane>
[[gnu::always_inline]] inline Vector imaginary_parts(const Vector& v, std::integer_sequence<int, kLane...>) {
  return __builtin_shufflevector(v, v, (kLane | 1)...);
}
template <class Vector, int... kLane>
[[gnu::always_inline]] inline Vector swapped_parts(const Vector& v, std::integer_sequence<int, kLane...>) {
  return __builtin_shufflevector(v, v, (kLane ^ 1)...);
}

template <class T, Filter kFilter, Into kInto>
struct Product {
  // (a + ib)(c + id) = (ac - bd) + i(bc + ad): lanes (a, b) c, and (b, a) d with alternating signs.
  template <int kBytes>
  [[gnu::always_inline]] static void row(const T* x, const T* k, T* out, std::int64_t n) {
    using Vector = typename Register<T, kBytes>::Type;
    constexpr int kLanes = kBytes / static_cast<int>(sizeof(T));
    constexpr auto lanes = std::make_integer_sequence<int, kLanes>{};
    constexpr T even = kFilter == Filter::as_is ? -1 : 1;
    std::int64_t c = 0;
    Vector signs;
    for (int lane = 0; lane < kLanes; ++lane) signs[lane] = lane % 2 == 0 ? even : -even;
    for (; c + kLanes <= 2 * n; c += kLanes) {
      Vector a, f, sum = {};
      std::memcpy(&a, x + c, sizeof a);
      std::memcpy(&f, k + c, sizeof f);
      if constexpr (kInto == Into::add) std::memcpy(&sum, out + c, sizeof sum);
      sum += a * real_parts(f, lanes) + swapped_parts(a, lanes) * (signs * imaginary_parts(f, lanes));
      std::memcpy(out + c, &sum, sizeof sum);
    }
    for (; c < 2 * n; c += 2) {
      const T real = x[c] * k[c] + even * x[c + 1] * k[c + 1],
              imaginary = x[c + 1] * k[c] - even * x[c] * k[c + 1];
      out[c] = kInto == Into::add ? out[c] + real : real;
      out[c + 1] = kInto == Into::add ? out[c + 1] + imaginary : imaginary;
    }
  }
};

template <Filter kFilter, Into kInto, class T>
void row(const T* x, const T* k, T* out, std::int64_t n) {
  ForThisCpu<Product<T, kFilter, kInto>, const T*, const T*, T*, std::int64_t>::row(x, k, out, n);
}

template <class T>
void product(const T* x, const T* k, T* out, std::int64_t n, Filter filter, Into into) {
  if (filter == Filter::as_is)
    into == Into::add ? row<Filter::as_is, Into::add>(x, k, out, n)
                      : row<Filter::as_is, Into::replace>(x, k, out, n);
  else
    into == Into::add ? row<Filter::conjugate, Into::add>(x, k, out, n)
                      : row<Filter::conjugate, Into::replace>(x, k, out, n);
}

}  // namespace

void spectrum_product(const float* x, const float* k, float* out, std::int64_t n, Filter filter, Into into) {
  product(x, k, out, n, filter, into);
}
void spectrum_product(const double* x, const double* k, double* out, std::int64_t n, Filter filter,
                      Into into) {
  product(x, k, out, n, filter, into);
}

}  // namespace tessera
