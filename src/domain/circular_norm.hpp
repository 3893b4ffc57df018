// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "tessera/comm/communicator.hpp"
#include "tessera/physics/local_operator.hpp"

namespace tessera {

/// K(u, v) of kernels (k, h, w) on the frequencies of a height x width image, columns [begin, end) of the
/// full spectrum: (k, height, end - begin), complex of float64, host. The tap at `origin` stands at pixel 0.
/// A kernel larger than the image wraps around. The image itself is never needed: rows are transformed from
/// the kernel, columns a few at a time.
at::Tensor spectrum_of(const at::Tensor& taps, const std::array<std::int64_t, 2>& origin, std::int64_t height,
                       std::int64_t width, std::int64_t begin, std::int64_t end);

/// |K(u, v)|^2 of them, float64: where a kernel is anchored changes the phase only.
at::Tensor spectrum_squared(const at::Tensor& taps, std::int64_t height, std::int64_t width,
                            std::int64_t begin, std::int64_t end);

/// Mean of |K|^2 over the factor^2 frequencies that a decimation makes one: (k, height / factor, end -
/// begin), columns [begin, end) of the coarse grid's spectrum. It is the symbol of A A^T, which is circulant
/// there. Needs a factor that divides height and width; with factor 1 it is |K|^2.
at::Tensor alias_mean(const Convolution& part, std::int64_t height, std::int64_t width, std::int64_t begin,
                      std::int64_t end);

/// |A|^2 of a stack of circular convolutions, by formula where there is one: the largest sum of |K_i|^2; for
/// one decimated part whose factor divides the image, the largest mean of |K|^2 over the aliases of a
/// low-resolution frequency. Each rank looks at its share of the columns. Collective.
std::optional<double> circular_norm_squared(const std::vector<Convolution>& parts, const Box& image,
                                            const Communicator& comm);

}  // namespace tessera
