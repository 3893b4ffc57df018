// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace tessera::io {

/// IEEE 754 binary16, which not every compiler has as a type.
inline double half_value(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  const double size = exponent == 31  ? (fraction ? std::numeric_limits<double>::quiet_NaN() : HUGE_VAL)
                      : exponent == 0 ? std::ldexp(fraction, -24)
                                      : std::ldexp(1024 + fraction, exponent - 25);
  return bits >> 15 ? -size : size;
}

/// The nearest value that a half has, of two the even one; infinity beyond the largest.
inline double nearest_half(double value) {
  int exponent = 0;
  std::frexp(value, &exponent);
  const double step = std::ldexp(1, std::max(exponent, -13) - 11);
  const double near = std::nearbyint(value / step) * step;
  return std::abs(near) > 65504 ? std::copysign(HUGE_VAL, near) : near;
}

}  // namespace tessera::io
