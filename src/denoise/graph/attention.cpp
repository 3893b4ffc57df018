// SPDX-License-Identifier: BSD-3-Clause
#include "graph/attention.hpp"

#include <ATen/TensorIndexing.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/softmax.h>

#include <array>
#include <cmath>
#include <limits>
#include <vector>

namespace tessera {

at::Tensor position_bias(const Node& node, const at::Tensor& positions) {
  const std::int64_t w = node.window;
  const at::Tensor line = at::arange(w, at::TensorOptions().dtype(at::kLong).device(positions.device()));
  const at::Tensor apart = line.view({w, 1}) - line.view({1, w}) + (w - 1);  // query less key
  const at::Tensor rows = apart.view({w, 1, w, 1}), columns = apart.view({1, w, 1, w});
  using at::indexing::Slice;
  return positions.index({Slice(), 0, rows, columns}).reshape({node.heads, w * w, w * w});
}

at::Tensor attend(const Node& node, const at::Tensor& x, const at::Tensor& positions) {
  const std::int64_t w = node.window, s = node.shift, heads = node.heads, d = node.channels / heads;
  const std::array<std::int64_t, 4> pad = {s, s > 0 ? w - s : 0, s, s > 0 ? w - s : 0};
  const at::Tensor wide = at::constant_pad_nd(x, pad);
  const std::int64_t items = x.size(0), ny = wide.size(2) / w, nx = wide.size(3) / w;
  // (N, 3, heads, d, ny, w, nx, w) -> 3 of (N, ny, nx, heads, w w, d)
  const at::Tensor parts = wide.reshape({items, 3, heads, d, ny, w, nx, w})
                               .permute({1, 0, 4, 6, 2, 5, 7, 3})
                               .reshape({3, items, ny, nx, heads, w * w, d});
  at::Tensor scores = at::matmul(parts[0], parts[1].transpose(-2, -1)) / std::sqrt(static_cast<double>(d)) +
                      position_bias(node, positions);
  if (s > 0) {  // what lies beyond the image is no key
    const at::Tensor there = at::constant_pad_nd(at::ones({x.size(2), x.size(3)}, x.options()), pad)
                                 .view({ny, w, nx, w})
                                 .permute({0, 2, 1, 3})
                                 .reshape({1, ny, nx, 1, 1, w * w});
    scores = scores.masked_fill(there == 0, -std::numeric_limits<double>::infinity());
  }
  const at::Tensor y = at::matmul(at::softmax(scores, -1), parts[2])  // (N, ny, nx, heads, w w, d)
                           .reshape({items, ny, nx, heads, w, w, d})
                           .permute({0, 3, 6, 1, 4, 2, 5})
                           .reshape({items, node.channels, ny * w, nx * w});
  return y.narrow(2, s, x.size(2)).narrow(3, s, x.size(3));
}

at::Tensor channel_scores(const at::Tensor& products, const at::Tensor& queries, const at::Tensor& keys,
                          const at::Tensor& temperature) {
  constexpr double kLeast = 1e-12;  // of a length
  const at::Tensor lengths = queries.clamp_min(kLeast).unsqueeze(-1) * keys.clamp_min(kLeast).unsqueeze(-2);
  return at::softmax(products / lengths * temperature, -1);
}

at::Tensor attend_channels(const Node& node, const at::Tensor& x, const at::Tensor& temperature) {
  const std::int64_t items = x.size(0), heads = node.heads, d = node.channels / heads;
  const at::Tensor parts = x.reshape({items, 3, heads, d, -1}).transpose(0, 1);
  const at::Tensor products = at::matmul(parts[0], parts[1].transpose(-2, -1));
  const auto length = [](const at::Tensor& t) { return at::linalg_vector_norm(t, 2, {-1}); };
  const at::Tensor scores = channel_scores(products, length(parts[0]), length(parts[1]), temperature);
  std::vector<std::int64_t> sizes = x.sizes().vec();
  sizes[1] = node.channels;
  return at::matmul(scores, parts[2]).reshape(sizes);
}

}  // namespace tessera
