// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "tessera/comm/exchange_plan.hpp"

namespace tessera::border {

/// An interval of needed coordinates on one axis and its image coordinates: lo + k is from + step * k.
struct Segment {
  std::int64_t lo = 0, hi = 0;
  std::int64_t from = 0;
  std::int64_t step = 1;
};

inline std::int64_t floor_div(std::int64_t a, std::int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }

/// [lo, hi) cut where the border rule changes its map onto the image's [first, last), ascending. The cuts
/// depend on the image alone, so any two intervals are cut alike where they overlap: sender and receiver
/// find the same pieces.
inline std::vector<Segment> segments(std::int64_t lo, std::int64_t hi, std::int64_t first, std::int64_t last,
                                     Border rule) {
  std::vector<Segment> out;
  const std::int64_t n = last - first;
  const auto add = [&](Segment s) {  // clips to [lo, hi)
    const std::int64_t start = std::max(s.lo, lo), end = std::min(s.hi, hi);
    if (start < end) out.push_back({start, end, s.from + s.step * (start - s.lo), s.step});
  };
  if (n <= 0) return out;
  if (rule == Border::none || rule == Border::zero) {
    add({first, last, first, 1});
  } else if (n == 1) {  // every rule repeats the only pixel; reflect has no period there
    add({lo, hi, first, 0});
  } else if (rule == Border::replicate) {
    add({std::min(lo, first), first, first, 0});
    add({first, last, first, 1});
    add({last, std::max(hi, last), last - 1, 0});
  } else {
    const std::int64_t period = rule == Border::circular ? n : 2 * (n - 1);
    for (std::int64_t start = first + floor_div(lo - first, period) * period; start < hi; start += period) {
      add({start, start + n, first, 1});
      if (rule == Border::reflect) add({start + n, start + period, last - 2, -1});
    }
  }
  return out;
}

}  // namespace tessera::border
