// SPDX-License-Identifier: BSD-3-Clause
#include "engines/channel_attention.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "graph/attention.hpp"

namespace tessera {
namespace {

// Rows of an image summed at once: few where a core's cache is to hold them, many where every call costs.
std::int64_t rows_at_once(bool on_device) { return on_device ? 256 : 16; }

at::ScalarType sum_type(at::ScalarType type) { return type == at::kDouble ? at::kDouble : at::kFloat; }

/// An item of channels_last features as (rows, columns, channels).
at::Tensor pixels(const at::Tensor& x, std::int64_t item) { return x.select(0, item).permute({1, 2, 0}); }

}  // namespace

ChannelAttention::ChannelAttention(const Node& node, const at::Tensor& temperature)
    : node_(node), temperature_(temperature.to(at::kDouble)) {}

std::int64_t ChannelAttention::numbers(const Node& node) {
  const std::int64_t d = node.channels / node.heads;
  return node.heads * d * (d + 2);
}

std::int64_t ChannelAttention::scratch_bytes(const Node& node, std::int64_t rows, std::int64_t columns,
                                             at::ScalarType type, bool on_device) {
  const std::int64_t d = node.channels / node.heads, count = std::min(rows, rows_at_once(on_device));
  std::int64_t elements = d * (d + 1);                                  // products and lengths of a row
  if (sum_type(type) != type) elements += 2 * node.channels * columns;  // q and k, converted
  return count * elements * static_cast<std::int64_t>(c10::elementSize(sum_type(type)));
}

at::Tensor ChannelAttention::sums(const at::Tensor& x) const {
  const std::int64_t heads = node_.heads, c = node_.channels, d = c / heads;
  const std::int64_t rows = x.size(2), columns = x.size(3), most = std::min(rows, rows_at_once(x.is_cuda()));
  const at::ScalarType type = sum_type(x.scalar_type());
  const bool converts = type != x.scalar_type();
  const at::Tensor total = at::zeros({x.size(0), numbers(node_)}, x.options().dtype(at::kDouble));
  if (x.numel() == 0) return total;
  const at::Tensor scratch = at::empty({scratch_bytes(node_, rows, columns, x.scalar_type(), x.is_cuda()) /
                                        static_cast<std::int64_t>(c10::elementSize(type))},
                                       x.options().dtype(type));
  for (std::int64_t item = 0; item < x.size(0); ++item) {
    const at::Tensor image = pixels(x, item).narrow(2, 0, 2 * c), sum = total.select(0, item);
    const at::Tensor products = sum.narrow(0, 0, c * d).view({heads, d, d});
    const at::Tensor squares = sum.narrow(0, c * d, 2 * c).view({2, heads, d});
    for (std::int64_t first = 0; first < rows; first += most) {
      const std::int64_t count = std::min(most, rows - first);
      at::Tensor product = scratch.narrow(0, 0, count * d * d).view({count, d, d});
      at::Tensor length = scratch.narrow(0, count * d * d, count * d).view({count, d});
      at::Tensor in = image.narrow(0, first, count);
      if (converts)
        in = scratch.narrow(0, count * d * (d + 1), count * columns * 2 * c)
                 .view({count, columns, 2 * c})
                 .copy_(in);
      for (std::int64_t head = 0; head < heads; ++head) {
        const at::Tensor q = in.narrow(2, head * d, d), k = in.narrow(2, c + head * d, d);
        at::bmm_out(product, q.transpose(1, 2), k);
        products.select(0, head).add_(product.sum(0));
        for (const std::int64_t which : {0, 1}) {
          at::linalg_vector_norm_out(length, which == 0 ? q : k, 2, {1});
          squares.select(0, which).select(0, head).add_(length.square_().sum(0));
        }
      }
    }
  }
  return total;
}

at::Tensor ChannelAttention::apply(const at::Tensor& x, const at::Tensor& sums) const {
  const std::int64_t heads = node_.heads, c = node_.channels, d = c / heads, count = x.size(2) * x.size(3);
  const at::Tensor y = at::empty({x.size(0), c, x.size(2), x.size(3)},
                                 x.options().memory_format(at::MemoryFormat::ChannelsLast));
  if (x.numel() == 0) return y;
  const at::Tensor products = sums.narrow(1, 0, c * d).view({-1, heads, d, d});
  const at::Tensor lengths = sums.narrow(1, c * d, 2 * c).view({-1, 2, heads, d}).sqrt();
  const at::Tensor scores =
      channel_scores(products, lengths.select(1, 0), lengths.select(1, 1), temperature_).to(x.scalar_type());
  for (std::int64_t item = 0; item < x.size(0); ++item) {
    const at::Tensor values = pixels(x, item).narrow(2, 2 * c, c).reshape({count, c});
    const at::Tensor out = pixels(y, item).view({count, c});
    for (std::int64_t head = 0; head < heads; ++head) {
      at::Tensor mixed = out.narrow(1, head * d, d);
      at::mm_out(mixed, values.narrow(1, head * d, d), scores.select(0, item).select(0, head).t());
    }
  }
  return y;
}

}  // namespace tessera
