// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "tessera/comm/communicator.hpp"
#include "tessera/physics/local_operator.hpp"

namespace tessera {

/// |K(u, v)|^2 of a kernel on the frequencies of an H x W image, columns [begin, end) of the full spectrum:
/// (H, end - begin), float64, host. A kernel larger than the image wraps around. The image itself is never
/// needed: rows are transformed from the kernel, columns a few at a time.
at::Tensor spectrum_squared(const at::Tensor& taps, std::int64_t height, std::int64_t width,
                            std::int64_t begin, std::int64_t end);

/// |A|^2 of a stack of circular convolutions, by formula where there is one: the largest sum of |K_i|^2; for
/// one decimated part whose factor divides the image, the largest mean of |K|^2 over the aliases of a
/// low-resolution frequency. Each rank looks at its share of the columns. Collective.
std::optional<double> circular_norm_squared(const std::vector<CircularConvolution>& parts, const Box& image,
                                            const Communicator& comm);

}  // namespace tessera
