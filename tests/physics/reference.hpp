// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cstdint>

#include "tessera/core/random.hpp"
#include "tessera/physics/operators.hpp"

namespace tessera::test {

/// Numbers in (-0.5, 0.5) that differ from element to element; float64.
inline at::Tensor random_tensor(at::IntArrayRef sizes, std::uint64_t seed) {
  at::Tensor t = at::empty(sizes, at::kDouble);
  const Random random(seed, RandomStream::scene);
  double* value = t.data_ptr<double>();
  for (std::int64_t i = 0; i < t.numel(); ++i) value[i] = random.uniform(i) - 0.5;
  return t;
}

/// Pixel i of a line of n pixels, continued beyond its ends; -1 where it counts as 0.
inline std::int64_t source(std::int64_t i, std::int64_t n, Border border) {
  switch (border) {
    case Border::circular:
      return (i % n + n) % n;
    case Border::replicate:
      return std::clamp<std::int64_t>(i, 0, n - 1);
    case Border::reflect: {
      if (n == 1) return 0;
      const std::int64_t period = 2 * (n - 1), k = (i % period + period) % period;
      return k < n ? k : period - k;
    }
    default:
      return i >= 0 && i < n ? i : -1;
  }
}

/// x continued to `box` by the definition, pixel by pixel.
inline at::Tensor extend(const at::Tensor& x, const Box& box, Border border) {
  at::Tensor out = at::zeros({x.size(0), box.extent(1), box.extent(2)}, at::kDouble);
  const auto in = x.accessor<double, 3>();
  auto to = out.accessor<double, 3>();
  for (std::int64_t c = 0; c < out.size(0); ++c)
    for (std::int64_t h = 0; h < out.size(1); ++h)
      for (std::int64_t w = 0; w < out.size(2); ++w) {
        const std::int64_t r = source(h + box.lo()[1], x.size(1), border);
        const std::int64_t s = source(w + box.lo()[2], x.size(2), border);
        if (r >= 0 && s >= 0) to[c][h][w] = in[c][r][s];
      }
  return out;
}

/// The blur by its definition: y[k] = sum_j taps[j] x[factor k + offset + origin - j].
inline at::Tensor blur_by_definition(const at::Tensor& x, const at::Tensor& taps,
                                     const std::array<std::int64_t, 2>& origin, const LocalOperator& op) {
  const Box samples = op.measurement(Box::image2d(x.size(1), x.size(2)));
  const Anchor a = op.anchor();
  at::Tensor y = at::zeros({x.size(0), samples.extent(1), samples.extent(2)}, at::kDouble);
  const auto in = x.accessor<double, 3>();
  const auto tap = taps.accessor<double, 2>();
  auto out = y.accessor<double, 3>();
  for (std::int64_t c = 0; c < y.size(0); ++c)
    for (std::int64_t h = 0; h < y.size(1); ++h)
      for (std::int64_t w = 0; w < y.size(2); ++w)
        for (std::int64_t i = 0; i < taps.size(0); ++i)
          for (std::int64_t j = 0; j < taps.size(1); ++j) {
            const std::int64_t r =
                source(a.factor[1] * h + a.offset[1] + origin[0] - i, x.size(1), op.border());
            const std::int64_t s =
                source(a.factor[2] * w + a.offset[2] + origin[1] - j, x.size(2), op.border());
            if (r >= 0 && s >= 0) out[c][h][w] += tap[i][j] * in[c][r][s];
          }
  return y;
}

inline double scalar_product(const at::Tensor& a, const at::Tensor& b) {
  return (a * b).sum().item<double>();
}

/// The largest absolute difference, relative to the largest value of the second.
inline double difference(const at::Tensor& a, const at::Tensor& b) {
  if (a.numel() == 0) return 0;
  const double scale = b.abs().max().item<double>();
  return (a - b).abs().max().item<double>() / (scale > 0 ? scale : 1.0);
}

}  // namespace tessera::test
