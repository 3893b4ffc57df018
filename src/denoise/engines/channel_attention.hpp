// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "tessera/denoise/graph.hpp"

namespace tessera {

/// Op::channel_attention made ready to run: what attend_channels() computes, on parts of an image too.
///
/// What an image's pixels add up to is little (numbers()): parts of an image are summed, their sums added, and
/// each part is mixed by the same scores. Rows are summed in float, or double where x is, and added up in
/// double, so that the cut hardly matters. channels_last; x may be a part of a larger feature. No gradients.
class ChannelAttention {
 public:
  /// `temperature`: the node's weight.
  ChannelAttention(const Node& node, const at::Tensor& temperature);

  /// Numbers that an image adds up to: products of all pairs of channels of q and k in a head, and their
  /// squares.
  static std::int64_t numbers(const Node& node);
  /// Of x (N, 3 C, H, W): (N, numbers()), float64, on x's device.
  at::Tensor sums(const at::Tensor& x) const;
  /// By the sums of the whole image -> a new tensor (N, C, H, W).
  at::Tensor apply(const at::Tensor& x, const at::Tensor& sums) const;

  /// Bytes that sums() takes for a moment, for an image of so many rows and columns.
  static std::int64_t scratch_bytes(const Node& node, std::int64_t rows, std::int64_t columns,
                                    at::ScalarType type, bool on_device);

 private:
  Node node_;
  at::Tensor temperature_;  // (heads, 1, 1), float64
};

}  // namespace tessera
