// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>

namespace tessera {

constexpr std::int64_t kSsimRadius = 5;  // of the 11 x 11 window

/// Sums of SSIM over the pixels of one plane, and over those in rows [inner[0], inner[1]) and columns [inner[2],
/// inner[3]) of them. `x`, `y`: (height + 10, width + 10), on the host, float32 or float64, rows contiguous; the sums
/// are made in float64, in an order that threads do not change.
///
/// A band of rows and a strip of columns at a time: what is smoothed along rows of eleven lines stands in the cache,
/// each line is smoothed once in a band.
std::array<double, 2> ssim_sums(const at::Tensor& x, const at::Tensor& y,
                                const std::array<std::int64_t, 4>& inner);

}  // namespace tessera
