// SPDX-License-Identifier: BSD-3-Clause
#include "circular_norm.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/fft_fft.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/polar.h>
#include <ATen/ops/view_as_real.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <numbers>

namespace tessera {
namespace {

// Columns transformed at a time: bounds memory at 1 MiB per 1000 rows.
constexpr std::int64_t kColumns = 64;

// Kernels on a torus of height x width: taps that fall on the same pixel add up.
at::Tensor fold(const at::Tensor& taps, std::int64_t height, std::int64_t width) {
  at::Tensor folded =
      at::zeros({taps.size(0), std::min(taps.size(1), height), std::min(taps.size(2), width)}, at::kDouble);
  for (std::int64_t r = 0; r < taps.size(1); r += height)
    for (std::int64_t c = 0; c < taps.size(2); c += width) {
      const at::Tensor part = taps.slice(1, r, r + height).slice(2, c, c + width);
      folded.slice(1, 0, part.size(1)).slice(2, 0, part.size(2)).add_(part);
    }
  return folded;
}

}  // namespace

at::Tensor spectrum_of(const at::Tensor& taps, const std::array<std::int64_t, 2>& origin, std::int64_t height,
                       std::int64_t width, std::int64_t begin, std::int64_t end) {
  const at::Tensor rows = at::fft_fft(fold(taps, height, width), width, 2).slice(2, begin, end);
  const at::Tensor all = at::fft_fft(rows, height, 1);
  // The tap at the origin stands at pixel 0: a turn of the phase.
  const double down = 2 * std::numbers::pi * static_cast<double>(origin[0]) / static_cast<double>(height);
  const double right = 2 * std::numbers::pi * static_cast<double>(origin[1]) / static_cast<double>(width);
  const at::Tensor angle = at::arange(height, at::kDouble).mul_(down).unsqueeze(1) +
                           at::arange(begin, end, at::kDouble).mul_(right).unsqueeze(0);
  return all.mul(at::polar(at::ones_like(angle), angle));
}

at::Tensor spectrum_squared(const at::Tensor& taps, std::int64_t height, std::int64_t width,
                            std::int64_t begin, std::int64_t end) {
  const at::Tensor parts = at::view_as_real(spectrum_of(taps, {0, 0}, height, width, begin, end));
  return parts.mul(parts).sum(-1);
}

at::Tensor alias_mean(const Convolution& part, std::int64_t height, std::int64_t width, std::int64_t begin,
                      std::int64_t end) {
  const std::int64_t f = part.factor, rows = height / f, columns = width / f;
  at::Tensor sum = at::zeros({part.taps.size(0), rows, end - begin}, at::kDouble);
  for (std::int64_t alias = 0; alias < f; ++alias) {
    const at::Tensor k =
        spectrum_squared(part.taps, height, width, begin + alias * columns, end + alias * columns);
    for (std::int64_t r = 0; r < f; ++r) sum.add_(k.slice(1, r * rows, (r + 1) * rows));
  }
  return sum.div_(static_cast<double>(f * f));
}

std::optional<double> circular_norm_squared(const std::vector<Convolution>& parts, const Box& image,
                                            const Communicator& comm) {
  const std::int64_t height = image.extent(1), width = image.extent(2), f = parts.front().factor;
  const bool decimated = std::any_of(parts.begin(), parts.end(), [](const auto& p) { return p.factor != 1; });
  if (decimated && (parts.size() > 1 || height % f != 0 || width % f != 0)) return std::nullopt;
  if (image.extent(0) != 1) return std::nullopt;

  double largest = 0;
  // Real kernels: columns beyond the half mirror those before it. A decimated spectrum has width / f columns
  // of its own.
  const std::int64_t columns = decimated ? width / f : width / 2 + 1;
  for (std::int64_t begin = comm.rank() * kColumns; begin < columns; begin += comm.size() * kColumns) {
    const std::int64_t end = std::min(columns, begin + kColumns);
    // Per channel of the image; one where all parts are alike on all channels.
    at::Tensor sum = at::zeros({1, height / f, end - begin}, at::kDouble);
    for (const Convolution& p : parts) sum = sum + alias_mean(p, height, width, begin, end);
    largest = std::max(largest, sum.max().item<double>());
  }
  comm.all_reduce({&largest, 1}, Reduce::max);
  return largest;
}

}  // namespace tessera
