// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include "tessera/denoise/graph.hpp"

namespace tessera {

/// r of Op::window_attention for every pair of a window's pixels, row by row: (heads, window^2, window^2),
/// queries before keys. `positions`: the node's weight.
at::Tensor position_bias(const Node& node, const at::Tensor& positions);

/// The definition of Op::window_attention on whole images x (N, 3 C, H, W), differentiable -> (N, C, H, W).
/// Source: Liu et al., "Swin transformer", ICCV 2021; shifted windows end with the image instead of going on
/// at its other side, which is what the mask of that paper amounts to.
at::Tensor attend(const Node& node, const at::Tensor& x, const at::Tensor& positions);

/// The definition of Op::channel_attention on whole images x (N, 3 C, [D,] H, W), differentiable -> C channels.
/// `temperature`: the node's weight.
/// Source: Zamir et al., "Restormer: efficient transformer for high-resolution image restoration", CVPR 2022.
at::Tensor attend_channels(const Node& node, const at::Tensor& x, const at::Tensor& temperature);

/// softmax(t q^T k) of channels from what pixels add up to: products (..., heads, d, d) of q and k, lengths
/// (..., heads, d) of either.
at::Tensor channel_scores(const at::Tensor& products, const at::Tensor& queries, const at::Tensor& keys,
                          const at::Tensor& temperature);

}  // namespace tessera
