// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <optional>

#include "tessera/comm/exchange_plan.hpp"

namespace tessera::test {

/// The image coordinate that coordinate i is, found by walking, one step at a time; nullopt: none.
inline std::optional<std::int64_t> walk(std::int64_t i, std::int64_t lo, std::int64_t hi, Border border) {
  if (lo <= i && i < hi) return i;
  switch (border) {
    case Border::none:
    case Border::zero:
      return std::nullopt;
    case Border::replicate:
      return i < lo ? lo : hi - 1;
    case Border::circular:
      while (i < lo) i += hi - lo;
      while (i >= hi) i -= hi - lo;
      return i;
    case Border::reflect:
      break;
  }
  std::int64_t at = lo, direction = i < lo ? -1 : 1;
  for (std::int64_t steps = i < lo ? lo - i : i - lo; steps > 0 && hi - lo > 1; --steps) {
    if (at + direction < lo || at + direction >= hi) direction = -direction;
    at += direction;
  }
  return at;
}

inline std::optional<Index3> walk(const Index3& p, const Box& image, Border border) {
  Index3 q{};
  for (std::size_t d = 0; d < 3; ++d) {
    const auto at = walk(p[d], image.lo()[d], image.hi()[d], border);
    if (!at) return std::nullopt;
    q[d] = *at;
  }
  return q;
}

constexpr Border kBorders[] = {Border::none, Border::circular, Border::reflect, Border::replicate,
                               Border::zero};

}  // namespace tessera::test
