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

// Kernels on a torus of this size: taps that fall on the same pixel add up.
at::Tensor fold(const at::Tensor& taps, const Index3& size) {
  at::Tensor folded = at::zeros({taps.size(0), std::min(taps.size(1), size[0]),
                                 std::min(taps.size(2), size[1]), std::min(taps.size(3), size[2])},
                                at::kDouble);
  for (std::int64_t d = 0; d < taps.size(1); d += size[0])
    for (std::int64_t r = 0; r < taps.size(2); r += size[1])
      for (std::int64_t c = 0; c < taps.size(3); c += size[2]) {
        const at::Tensor part =
            taps.slice(1, d, d + size[0]).slice(2, r, r + size[1]).slice(3, c, c + size[2]);
        folded.slice(1, 0, part.size(1)).slice(2, 0, part.size(2)).slice(3, 0, part.size(3)).add_(part);
      }
  return folded;
}

}  // namespace

std::int64_t columns_at_once(const Index3& size) {
  constexpr std::int64_t kNumbers = 1 << 20, kMost = 64;
  return std::clamp<std::int64_t>(kNumbers / (size[0] * size[1]), 1, kMost);
}

at::Tensor spectrum_of(const at::Tensor& taps, const Index3& origin, const Index3& size, std::int64_t begin,
                       std::int64_t end) {
  at::Tensor all = at::fft_fft(fold(taps, size), size[2], 3).slice(3, begin, end);
  all = at::fft_fft(all, size[1], 2);
  if (size[0] > 1) all = at::fft_fft(all, size[0], 1);
  // The tap at the origin stands at pixel 0: a turn of the phase.
  const auto turn = [&](std::size_t axis, std::int64_t from, std::int64_t to) {
    return at::arange(from, to, at::kDouble)
        .mul_(2 * std::numbers::pi * static_cast<double>(origin[axis]) / static_cast<double>(size[axis]));
  };
  at::Tensor angle = turn(1, 0, size[1]).unsqueeze(1) + turn(2, begin, end).unsqueeze(0);
  if (size[0] > 1) angle = turn(0, 0, size[0]).unsqueeze(1).unsqueeze(2) + angle;
  return all.mul_(at::polar(at::ones_like(angle), angle));
}

at::Tensor spectrum_squared(const at::Tensor& taps, const Index3& size, std::int64_t begin,
                            std::int64_t end) {
  const at::Tensor parts = at::view_as_real(spectrum_of(taps, {}, size, begin, end));
  return parts.mul(parts).sum(-1);
}

bool divides(const Index3& factor, const Index3& size) {
  return size[0] % factor[0] == 0 && size[1] % factor[1] == 0 && size[2] % factor[2] == 0;
}

at::Tensor alias_mean(const Convolution& part, const Index3& size, std::int64_t begin, std::int64_t end) {
  const Index3& f = part.factor;
  const std::int64_t slices = size[0] / f[0], rows = size[1] / f[1], columns = size[2] / f[2];
  at::Tensor sum = at::zeros({part.taps.size(0), slices, rows, end - begin}, at::kDouble);
  for (std::int64_t alias = 0; alias < f[2]; ++alias) {
    const at::Tensor k = spectrum_squared(part.taps, size, begin + alias * columns, end + alias * columns);
    for (std::int64_t d = 0; d < f[0]; ++d)
      for (std::int64_t r = 0; r < f[1]; ++r)
        sum.add_(k.slice(1, d * slices, (d + 1) * slices).slice(2, r * rows, (r + 1) * rows));
  }
  return sum.div_(static_cast<double>(f[0] * f[1] * f[2]));
}

std::optional<double> circular_norm_squared(const std::vector<Convolution>& parts, const Box& image,
                                            const Communicator& comm) {
  const Index3 size = image.extents(), f = parts.front().factor;
  const bool decimated = std::any_of(parts.begin(), parts.end(), [](const auto& p) { return p.decimates(); });
  if (decimated && (parts.size() > 1 || !divides(f, size))) return std::nullopt;

  double largest = 0;
  // Real kernels: columns beyond the half mirror those before it. A decimated spectrum has width / f columns
  // of its own.
  const std::int64_t columns = decimated ? size[2] / f[2] : size[2] / 2 + 1, most = columns_at_once(size);
  for (std::int64_t begin = comm.rank() * most; begin < columns; begin += comm.size() * most) {
    const std::int64_t end = std::min(columns, begin + most);
    // Per channel of the image; one where all parts are alike on all channels.
    at::Tensor sum = at::zeros({1, size[0] / f[0], size[1] / f[1], end - begin}, at::kDouble);
    for (const Convolution& p : parts) sum = sum + alias_mean(p, size, begin, end);
    largest = std::max(largest, sum.max().item<double>());
  }
  comm.all_reduce({&largest, 1}, Reduce::max);
  return largest;
}

}  // namespace tessera
