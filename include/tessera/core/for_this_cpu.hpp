// SPDX-License-Identifier: BSD-3-Clause
#pragma once

namespace tessera {

/// A vector of numbers as wide as a register of `kBytes`.
template <class T, int kBytes>
struct Register {
  using Type [[gnu::vector_size(kBytes)]] = T;
};

/// Says that a vector is needed in a register: GCC reads one from memory again for every use of it. (Clang does
/// not, and knows no wide registers in a function without a target.)
template <class Vector>
[[gnu::always_inline]] inline void in_register([[maybe_unused]] Vector& v) {
#if defined(__x86_64__) && !defined(__clang__)
  asm("" : "+v"(v));
#endif
}

/// Calls the loop `Loop::row<kBytes>(args...)` with the widest registers of this CPU. It is static and always
/// inline, so that it becomes code of each instruction set here.
template <class Loop, class... Args>
class ForThisCpu {
 public:
  static void row(Args... args) {
    static const auto chosen = choose();
    chosen(args...);
  }

 private:
  static void plain(Args... args) { Loop::template row<16>(args...); }
#if defined(__x86_64__)
  [[gnu::target("avx2,fma")]] static void avx2(Args... args) { Loop::template row<32>(args...); }
  [[gnu::target("avx512f")]] static void avx512(Args... args) { Loop::template row<64>(args...); }
  static auto choose() {
    if (__builtin_cpu_supports("avx512f")) return avx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return avx2;
    return plain;
  }
#else
  static auto choose() { return plain; }
#endif
};

}  // namespace tessera
