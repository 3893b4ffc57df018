// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>
#include <string>

#include "tessera/denoise/layer.hpp"

namespace tessera {

// The rows of the table of layers, one line each; their files say the rest.
std::unique_ptr<const Layer> input_layer();
std::unique_ptr<const Layer> sigma_map_layer();
std::unique_ptr<const Layer> conv_layer();
std::unique_ptr<const Layer> conv_down_layer();
std::unique_ptr<const Layer> conv_up_layer();
std::unique_ptr<const Layer> batch_norm_layer();
std::unique_ptr<const Layer> relu_layer();
std::unique_ptr<const Layer> elu_layer();
std::unique_ptr<const Layer> elu_gradient_layer();
std::unique_ptr<const Layer> sum_layer();
std::unique_ptr<const Layer> subtract_layer();
std::unique_ptr<const Layer> concat_layer();
std::unique_ptr<const Layer> max_pool_layer();
std::unique_ptr<const Layer> upsample_layer();
std::unique_ptr<const Layer> layer_norm_layer();
std::unique_ptr<const Layer> scale_norm_layer();
std::unique_ptr<const Layer> gelu_layer();
std::unique_ptr<const Layer> gelu_gate_layer();
std::unique_ptr<const Layer> window_attention_layer();
std::unique_ptr<const Layer> channel_attention_layer();

/// For layers whose inputs all have the same channels: Layer::complete().
std::string alike(Node& node, const Layer::Inputs& in, const Layer& layer);
/// For attention, whose input holds queries, keys and values side by side: the same.
std::string complete_attention(Node& node, const Layer::Inputs& in);

}  // namespace tessera
