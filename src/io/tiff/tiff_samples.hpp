// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <tiffio.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

#include "half.hpp"

namespace tessera::io {

/// Samples first, first + step, ... of a row, numbers in this machine's order or packed bits.
struct Unpacker {
  std::uint16_t bits = 8, format = SAMPLEFORMAT_UINT;
  bool swapped = false;  // bytes of the other order

  template <class T>
  void numbers(const unsigned char* row, std::int64_t first, std::int64_t step, std::int64_t n,
               double* to) const {
    for (std::int64_t k = 0; k < n; ++k) {
      unsigned char bytes[sizeof(T)];
      std::memcpy(bytes, row + (first + k * step) * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
      if (swapped) std::reverse(bytes, bytes + sizeof(T));
      to[k] = static_cast<double>(std::bit_cast<T>(bytes));
    }
  }

  void operator()(const unsigned char* row, std::int64_t first, std::int64_t step, std::int64_t n,
                  double* to) const {
    const bool real = format == SAMPLEFORMAT_IEEEFP, negative = format == SAMPLEFORMAT_INT;
    switch (bits) {
      case 8:
        return negative ? numbers<std::int8_t>(row, first, step, n, to)
                        : numbers<std::uint8_t>(row, first, step, n, to);
      case 16:
        if (negative) return numbers<std::int16_t>(row, first, step, n, to);
        numbers<std::uint16_t>(row, first, step, n, to);
        for (std::int64_t k = 0; real && k < n; ++k) to[k] = half_value(static_cast<std::uint16_t>(to[k]));
        return;
      case 32:
        return real       ? numbers<float>(row, first, step, n, to)
               : negative ? numbers<std::int32_t>(row, first, step, n, to)
                          : numbers<std::uint32_t>(row, first, step, n, to);
      case 64:
        return real       ? numbers<double>(row, first, step, n, to)
               : negative ? numbers<std::int64_t>(row, first, step, n, to)
                          : numbers<std::uint64_t>(row, first, step, n, to);
      case 24:
        for (std::int64_t k = 0; k < n; ++k) {
          const unsigned char* b = row + (first + k * step) * 3;
          const bool big = swapped == (std::endian::native == std::endian::little);
          const std::int32_t value = big ? b[0] << 16 | b[1] << 8 | b[2] : b[2] << 16 | b[1] << 8 | b[0];
          to[k] = negative && value >= 1 << 23 ? value - (1 << 24) : value;
        }
        return;
      default:  // the highest bit of a byte first
        for (std::int64_t k = 0; k < n; ++k) {
          std::uint32_t value = 0;
          std::int64_t at = (first + k * step) * bits;
          for (int left = bits; left > 0;) {
            const int here = static_cast<int>(at % 8), take = std::min(left, 8 - here);
            value = value << take | (row[at / 8] >> (8 - here - take) & ((1U << take) - 1));
            at += take;
            left -= take;
          }
          to[k] = value;
        }
    }
  }
};

}  // namespace tessera::io
