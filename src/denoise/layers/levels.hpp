// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "tessera/denoise/layer_step.hpp"

namespace tessera {

/// Pixels of the finer level under these of the coarser one, and the other way round: Layer::reads().
inline Interval coarse_reads(const Interval& out) { return {2 * out.lo, 2 * out.hi}; }
inline Interval fine_reads(const Interval& out) {
  const auto floor_half = [](std::int64_t i) { return i >= 0 ? i / 2 : -((1 - i) / 2); };
  return {floor_half(out.lo), floor_half(out.hi - 1) + 1};
}

}  // namespace tessera
