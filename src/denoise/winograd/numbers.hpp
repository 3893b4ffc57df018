// SPDX-License-Identifier: BSD-3-Clause
// How the kernels read and write numbers, float32 or of 16 bits, and what their products are made of. For the register
// width kLanes and the registers that the including file has set.
#include <cstdint>

namespace tessera {
namespace {

using Size = std::int64_t;
using LooseVec = float __attribute__((vector_size(4 * kLanes), aligned(4), may_alias));
using LooseHalf = float __attribute__((vector_size(2 * kLanes), aligned(4), may_alias));

constexpr Size kPanel = 2 * kLanes, kHalf = kLanes / 2;

// Numbers of 16 bits as features are stored, which kernels widen to floats: bfloat16 and float16.
template <class E, class V>
inline void load_whole(const E* p, V& v) {
  widen(bits_of(p, v), E{}, v);
}
template <class E, class V>
inline void load_some(const E* p, Size n, V& v) {
  widen(some_bits_of(p, n, v), E{}, v);
}
template <class E, class V>
inline void store(E* p, V v) {
  put_bits(p, narrow(v, E{}), v);
}
template <class E, class V>
inline void store_some(E* p, V v, Size n) {
  put_some_bits(p, narrow(v, E{}), n, v);
}
template <class V>
inline void load_some(const float* p, Size n, V& v) {
  load_floats(p, n, v);
}
template <class V>
inline void store_some(float* p, V v, Size n) {
  store_floats(p, v, n);
}
inline void load_whole(const float* p, Vec& v) { v = *reinterpret_cast<const LooseVec*>(p); }
inline void load_whole(const float* p, Half& v) { v = *reinterpret_cast<const LooseHalf*>(p); }
inline void store(float* p, Vec v) { *reinterpret_cast<LooseVec*>(p) = v; }
inline void store(float* p, Half v) { *reinterpret_cast<LooseHalf*>(p) = v; }
template <class V = Vec, class E = float>
inline V load(const E* p) {
  V v;
  load_whole(p, v);
  return v;
}
template <class V, class E>
inline V load(const E* p, Size n) {  // the first n numbers, then zeros
  V v;
  load_some(p, n, v);
  return v;
}
// One number.
inline float number(const float* p) { return *p; }
template <class E>
float number(const E* p) {
  return load<Half>(p, 1)[0];
}
inline void put(float* p, float value) { *p = value; }
template <class E>
void put(E* p, float value) {
  store_some(p, Half{value}, 1);
}

// What products are made of: floats, or pairs of channels in bfloat16, which Winograd's transforms do not spoil: their
// rounding costs a picture no more than that of the features themselves.
struct Floats {
  using Number = float;
  static constexpr Size kStep = 1;  // channels of a product
  template <class V>
  static void add(V& sum, const float* x, V w) {
    sum += *x * w;
  }
};
struct Pairs {
  using Number = Bf16;
  static constexpr Size kStep = 2;
  template <class V>
  static void add(V& sum, const Bf16* x, V w) {
    V both;
    repeat_pair(x, both);
    add_pairs(sum, both, w);
  }
};
// Products of so many channels, one for each output.
template <class P>
Size steps(Size channels) {
  return (channels + P::kStep - 1) / P::kStep;
}

}  // namespace
}  // namespace tessera
