// SPDX-License-Identifier: BSD-3-Clause
// One body for the host rows (pack_host.cpp) and the device kernel (pack_device.cu); C++17.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "pack.hpp"
#include "tessera/core/both.hpp"

namespace tessera::pack {

template <class T>
struct Complex {
  T re, im;
  TESSERA_BOTH Complex& operator+=(const Complex& other) {
    re += other.re;
    im += other.im;
    return *this;
  }
};

/// Bytes that are moved, never summed.
template <class U, int N = 1>
struct alignas(sizeof(U) * N) Raw {
  U bits[N];
};
template <class T>
constexpr bool kRaw = false;
template <class U, int N>
constexpr bool kRaw<Raw<U, N>> = true;

/// What sums are kept in: 16-bit types sum in float and round once.
template <class T>
struct Wide {
  using type = T;
  TESSERA_BOTH static type load(const T& v) { return v; }
  TESSERA_BOTH static T store(const type& v) { return v; }
};
template <>
struct Wide<__half> {
  using type = float;
  TESSERA_BOTH static float load(const __half& v) { return __half2float(v); }
  TESSERA_BOTH static __half store(float v) { return __float2half_rn(v); }
};
template <>
struct Wide<__nv_bfloat16> {
  using type = float;
  TESSERA_BOTH static float load(const __nv_bfloat16& v) { return __bfloat162float(v); }
  TESSERA_BOTH static __nv_bfloat16 store(float v) { return __float2bfloat16_rn(v); }
};

/// A lone term that replaces its target is copied bit for bit (keeps -0 and NaN payloads).
TESSERA_BOTH bool is_copy(Mode mode, const Cell& cell, const Term* terms) {
  return mode == Mode::assign && cell.terms == 1 && terms->repeat[0] == 1 && terms->repeat[1] == 1 &&
         terms->repeat[2] == 1;
}

/// Element (c, d, h, w) of a cell; `terms` are the cell's own.
template <class T>
TESSERA_BOTH void put(Mode mode, const Cell& cell, const Term* terms, T* to, const T* from, std::int64_t c,
                      std::int64_t d, std::int64_t h, std::int64_t w) {
  T& target =
      to[cell.offset + c * cell.stride[0] + d * cell.stride[1] + h * cell.stride[2] + w * cell.stride[3]];
  if (kRaw<T> ? cell.terms > 0 : is_copy(mode, cell, terms)) {
    target = from[terms->offset + c * terms->stride[0] + d * terms->stride[1] + h * terms->stride[2] +
                  w * terms->stride[3]];
    return;
  }
  if constexpr (kRaw<T>) {
    target = T{};  // a cell without terms
  } else {
    typename Wide<T>::type sum{};
    if (mode == Mode::add) sum = Wide<T>::load(target);
    for (std::int64_t i = 0; i < cell.terms; ++i) {
      const Term& t = terms[i];
      const T* first =
          from + t.offset + c * t.stride[0] + d * t.stride[1] + h * t.stride[2] + w * t.stride[3];
      for (std::int64_t x = 0; x < t.repeat[0]; ++x)
        for (std::int64_t y = 0; y < t.repeat[1]; ++y)
          for (std::int64_t z = 0; z < t.repeat[2]; ++z)
            sum += Wide<T>::load(
                first[x * t.repeat_stride[0] + y * t.repeat_stride[1] + z * t.repeat_stride[2]]);
    }
    target = Wide<T>::store(sum);
  }
}

TESSERA_BOTH std::uint32_t divide(std::uint32_t n, const Divisor& d) {
#ifdef __CUDA_ARCH__
  return (__umulhi(n, d.factor) + n) >> d.shift;
#else
  return static_cast<std::uint32_t>(((static_cast<std::uint64_t>(n) * d.factor >> 32) + n) >> d.shift);
#endif
}

/// Element i of a cell is (channel, depth, height, width). Neighbors in a warp take neighbors in memory:
/// channels where they lie side by side, else columns.
struct At {
  std::int64_t c, d, h, w;
};
TESSERA_BOTH At unravel(const DeviceCell& cell, std::uint32_t i) {
  const std::uint32_t a = divide(i, cell.fast), b = divide(a, cell.middle), e = divide(b, cell.slow);
  const std::int64_t fast = i - a * cell.fast.value, middle = a - b * cell.middle.value,
                     slow = b - e * cell.slow.value;
  return cell.channels_inside ? At{fast, e, slow, middle} : At{e, slow, middle, fast};
}

/// What thread `thread` of a block of `threads` does with its share.
template <class T>
TESSERA_BOTH void run_share(Mode mode, const DeviceCell* cells, const Term* terms, const Share& share, T* to,
                            const T* from, std::uint32_t thread, std::uint32_t threads) {
  const DeviceCell& cell = cells[share.cell];
  const std::uint32_t left = cell.elements - share.first, count = left < kShare ? left : kShare;
  for (std::uint32_t k = thread; k < count; k += threads) {
    const At at = unravel(cell, share.first + k);
    put(mode, cell.cell, terms + cell.cell.first_term, to, from, at.c, at.d, at.h, at.w);
  }
}

/// Calls f with a null pointer of a raw type of so many bytes.
template <class F>
void with_unit(std::int64_t bytes, F f) {
  switch (bytes) {
    case 2:
      return f(static_cast<Raw<std::uint16_t>*>(nullptr));
    case 4:
      return f(static_cast<Raw<std::uint32_t>*>(nullptr));
    case 8:
      return f(static_cast<Raw<std::uint64_t>*>(nullptr));
    default:
      return f(static_cast<Raw<std::uint64_t, 2>*>(nullptr));
  }
}

/// Calls f with a null pointer of the C++ type of an element type.
template <class F>
void with_type(ElementType type, F f) {
  switch (type) {
    case ElementType::float32:
      return f(static_cast<float*>(nullptr));
    case ElementType::float64:
      return f(static_cast<double*>(nullptr));
    case ElementType::bfloat16:
      return f(static_cast<__nv_bfloat16*>(nullptr));
    case ElementType::float16:
      return f(static_cast<__half*>(nullptr));
    case ElementType::complex64:
      return f(static_cast<Complex<float>*>(nullptr));
    case ElementType::complex128:
      return f(static_cast<Complex<double>*>(nullptr));
  }
}

}  // namespace tessera::pack
