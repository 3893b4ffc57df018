// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "tessera/comm/communicator.hpp"
#include "tessera/physics/local_operator.hpp"

namespace tessera {

/// Columns of a spectrum of `size` (depth, height, width) that are worked on at a time in float64, a mebibyte or
/// a few.
std::int64_t columns_at_once(const Index3& size);

/// K of kernels (k, d, h, w) on the frequencies of an image of `size` (depth, height, width), columns [begin, end)
/// of the full spectrum: (k, depth, height, end - begin), complex of float64, host. The tap at `origin` stands at
/// pixel 0. A kernel larger than the image wraps around. The image itself is never needed: rows are transformed
/// from the kernel, columns a few at a time.
at::Tensor spectrum_of(const at::Tensor& taps, const Index3& origin, const Index3& size, std::int64_t begin,
                       std::int64_t end);

/// |K|^2 of them, float64: where a kernel is anchored changes the phase only.
at::Tensor spectrum_squared(const at::Tensor& taps, const Index3& size, std::int64_t begin, std::int64_t end);

/// Whether a decimation takes the same samples of an image of `size` wherever its torus is opened.
bool divides(const Index3& factor, const Index3& size);

/// Mean of |K|^2 over the frequencies that a decimation makes one: (k, depth, height, end - begin), columns
/// [begin, end) of the coarse grid's spectrum. It is the symbol of A A^T, which is circulant there. Needs a
/// factor that divides the size; with factor 1 it is |K|^2.
at::Tensor alias_mean(const Convolution& part, const Index3& size, std::int64_t begin, std::int64_t end);

/// |A|^2 of a stack of circular convolutions, by formula where there is one: the largest sum of |K_i|^2; for
/// one decimated part whose factor divides the image, the largest mean of |K|^2 over the aliases of a
/// low-resolution frequency. Each rank looks at its share of the columns. Collective.
std::optional<double> circular_norm_squared(const std::vector<Convolution>& parts, const Box& image,
                                            const Communicator& comm);

}  // namespace tessera
