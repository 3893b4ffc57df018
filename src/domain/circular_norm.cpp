// SPDX-License-Identifier: BSD-3-Clause
#include "circular_norm.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/fft_fft.h>
#include <ATen/ops/view_as_real.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

namespace tessera {
namespace {

// Columns transformed at a time: bounds memory at 1 MiB per 1000 rows.
constexpr std::int64_t kColumns = 64;

// The kernel on a torus of height x width: taps that fall on the same pixel add up.
at::Tensor fold(const at::Tensor& taps, std::int64_t height, std::int64_t width) {
  at::Tensor folded = at::zeros({std::min(taps.size(0), height), std::min(taps.size(1), width)}, at::kDouble);
  for (std::int64_t r = 0; r < taps.size(0); r += height)
    for (std::int64_t c = 0; c < taps.size(1); c += width) {
      const at::Tensor part = taps.slice(0, r, r + height).slice(1, c, c + width);
      folded.slice(0, 0, part.size(0)).slice(1, 0, part.size(1)).add_(part);
    }
  return folded;
}

}  // namespace

at::Tensor spectrum_squared(const at::Tensor& taps, std::int64_t height, std::int64_t width,
                            std::int64_t begin, std::int64_t end) {
  // Where the kernel is anchored changes the phase only.
  const at::Tensor rows = at::fft_fft(fold(taps, height, width), width, 1).slice(1, begin, end);
  const at::Tensor all = at::fft_fft(rows, height, 0);
  const at::Tensor parts = at::view_as_real(all);
  return parts.mul(parts).sum(-1);
}

std::optional<double> circular_norm_squared(const std::vector<CircularConvolution>& parts, const Box& image,
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
    at::Tensor sum = at::zeros({height / f, end - begin}, at::kDouble);
    for (const CircularConvolution& p : parts)
      for (std::int64_t alias = 0; alias < f; ++alias) {
        const std::int64_t shift = alias * (width / f);
        const at::Tensor k = spectrum_squared(p.taps, height, width, begin + shift, end + shift);
        for (std::int64_t r = 0; r < f; ++r) sum.add_(k.slice(0, r * (height / f), (r + 1) * (height / f)));
      }
    largest = std::max(largest, sum.max().item<double>() / static_cast<double>(f * f));
  }
  comm.all_reduce({&largest, 1}, Reduce::max);
  return largest;
}

}  // namespace tessera
