// SPDX-License-Identifier: BSD-3-Clause
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/conv_transpose2d.h>
#include <ATen/ops/elu.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/sqrt.h>
#include <ATen/ops/upsample_nearest2d.h>
#include <ATen/ops/var.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "graph/attention.hpp"
#include "tessera/core/error.hpp"
#include "tessera/denoise/network.hpp"

namespace tessera {

at::Tensor applied_weight(const Node& node, const at::Tensor& weight) {
  if (!node.adjoint) return weight;
  return weight.narrow(1, 0, node.channels).transpose(0, 1).flip({2, 3});
}

at::Tensor evaluate(const Graph& graph, const std::map<std::string, at::Tensor>& weights, const at::Tensor& x,
                    const at::Tensor& sigma) {
  const std::vector<Node>& nodes = graph.nodes();
  TESSERA_EXPECT(x.dim() == 4 && x.size(2) % graph.alignment() == 0 && x.size(3) % graph.alignment() == 0,
                 "evaluate() on sizes ", x.sizes(), " (sides must be multiples of ", graph.alignment(),
                 ") pad the image first");
  std::vector<int> last_reader(nodes.size(), -1);  // features are released behind their last reader
  for (std::size_t i = 0; i < nodes.size(); ++i)
    for (const int from : nodes[i].inputs) last_reader[from] = static_cast<int>(i);

  // Weights follow the image's type and device; with gradients they do so inside the graph of derivatives,
  // which is what lets training keep float32 weights and compute in bfloat16.
  const auto weight = [&](const std::string& name) { return weights.at(name).to(x.options()); };
  const auto bias = [&](const std::string& name) -> std::optional<at::Tensor> {
    return name.empty() ? std::nullopt : std::optional<at::Tensor>(weight(name));
  };
  std::vector<at::Tensor> value(nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const Node& node = nodes[i];
    const auto in = [&](std::size_t k) -> const at::Tensor& { return value[node.inputs[k]]; };
    switch (node.op) {
      case Op::input:
        value[i] = x;
        break;
      case Op::sigma_map:
        value[i] = sigma.to(x.options()).view({-1, 1, 1, 1}).expand({x.size(0), 1, x.size(2), x.size(3)});
        break;
      case Op::conv:
        value[i] = at::conv2d(in(0), applied_weight(node, weight(node.weight)), bias(node.bias), /*stride=*/1,
                              /*padding=*/node.kernel / 2, /*dilation=*/1,
                              /*groups=*/node.depthwise ? node.channels : 1);
        break;
      case Op::conv_down:
        value[i] = at::conv2d(in(0), weight(node.weight), bias(node.bias), /*stride=*/2);
        break;
      case Op::conv_up:
        value[i] = at::conv_transpose2d(in(0), weight(node.weight), bias(node.bias), /*stride=*/2);
        break;
      case Op::batch_norm:
        value[i] = at::batch_norm(in(0), weight(node.weight + ".weight"), weight(node.weight + ".bias"),
                                  weight(node.weight + ".running_mean"), weight(node.weight + ".running_var"),
                                  /*training=*/false,
                                  /*momentum=*/0, /*eps=*/1e-5, /*cudnn_enabled=*/false);
        break;
      case Op::relu:
        value[i] = at::relu(in(0));
        break;
      case Op::elu:
        value[i] = at::elu(in(0));
        break;
      case Op::elu_gradient:  // exp(x) = y + 1 where x is not positive
        value[i] = in(0) * (in(1).clamp_max(0) + 1);
        break;
      case Op::subtract:
        value[i] = in(0) - in(1);
        break;
      case Op::add:
        value[i] = in(0) + in(1);
        for (std::size_t k = 2; k < node.inputs.size(); ++k) value[i] = value[i] + in(k);
        break;
      case Op::concat: {
        std::vector<at::Tensor> parts;
        for (std::size_t k = 0; k < node.inputs.size(); ++k) parts.push_back(in(k));
        value[i] = at::cat(parts, 1);
        break;
      }
      case Op::max_pool:
        value[i] = at::max_pool2d(in(0), 2);
        break;
      case Op::upsample:
        value[i] = at::upsample_nearest2d(in(0), {2 * in(0).size(2), 2 * in(0).size(3)});
        break;
      case Op::layer_norm:
        value[i] =
            at::layer_norm(in(0).permute({0, 2, 3, 1}), {node.channels}, weight(node.weight + ".weight"),
                           weight(node.weight + ".bias"), /*eps=*/1e-5)
                .permute({0, 3, 1, 2});
        break;
      case Op::scale_norm:
        value[i] = in(0) / at::sqrt(at::var(in(0), {1}, /*unbiased=*/false, /*keepdim=*/true) + 1e-5) *
                   weight(node.weight + ".weight").view({1, -1, 1, 1});
        break;
      case Op::gelu:
        value[i] = at::gelu(in(0));
        break;
      case Op::gelu_gate:
        value[i] =
            at::gelu(in(0).narrow(1, 0, node.channels)) * in(0).narrow(1, node.channels, node.channels);
        break;
      case Op::window_attention:
        value[i] = attend(node, in(0), weight(node.weight));
        break;
      case Op::channel_attention:
        value[i] = attend_channels(node, in(0), weight(node.weight));
        break;
    }
    for (const int from : node.inputs)
      if (last_reader[from] == static_cast<int>(i)) value[from].reset();
  }
  return value.back();
}

}  // namespace tessera
