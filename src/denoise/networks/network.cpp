// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/denoise/network.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "tessera/core/error.hpp"
#include "tessera/core/random.hpp"
#include "tessera/denoise/denoiser_table.hpp"
#include "tessera/denoise/layer.hpp"

namespace tessera {
bool Network::takes_sigma() const {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(),
                     [](const Node& node) { return node.op == Op::sigma_map; });
}

std::vector<std::string> network_names() {
  std::vector<std::string> names;
  for (const DenoiserRow& row : denoiser_table())
    if (row.network()) names.push_back(row.name);
  return names;
}

Graph make_graph(const NetworkOptions& options) {
  const DenoiserRow& row = find_denoiser(options.name);
  TESSERA_VALIDATE(row.network(), options.name, " is no network (it has no layers) name one of them");
  TESSERA_VALIDATE(options.channels > 0, "a network for ", options.channels,
                   " channels (an image has at least one) use 1 for gray, 3 for color");
  TESSERA_EXPECT(row.potential || !options.potential, "the potential of ", options.name,
                 " (it goes down on none) ask its row");
  for (const std::int64_t width : options.widths)
    TESSERA_VALIDATE(width > 0, "network width ", width, " (a layer has at least one channel) use ",
                     "positive widths");
  return row.graph(options);
}

std::vector<std::pair<std::string, std::vector<std::int64_t>>> weight_shapes(const Graph& graph) {
  std::vector<std::pair<std::string, std::vector<std::int64_t>>> shapes;
  std::set<std::string> listed;  // a transpose reads the weight of a layer before it
  for (const Node& node : graph.nodes()) {
    if (!node.weight.empty() && !listed.insert(node.weight).second) continue;
    Layer::Inputs in;
    for (const int from : node.inputs) in.push_back(&graph.nodes()[static_cast<std::size_t>(from)]);
    for (Layer::NamedShape& weight : layer_of(node.op).weights(node, in)) shapes.push_back(std::move(weight));
  }
  return shapes;
}

Network random_network(const NetworkOptions& options, std::uint64_t seed) {
  Network network{options, make_graph(options), {}, std::nullopt};
  std::uint32_t part = 0;
  for (const auto& [name, shape] : weight_shapes(network.graph)) {
    const Random random(seed, RandomStream::weights, part++);
    at::Tensor tensor = at::empty(shape, at::kFloat);
    float* values = tensor.data_ptr<float>();
    std::int64_t fan_in = shape.size() >= 4 ? 1 : 0;  // of a convolution
    for (std::size_t axis = 1; axis < shape.size(); ++axis) fan_in *= shape[axis];
    const bool variance = name.ends_with("running_var");
    const bool scale = (shape.size() == 1 && name.ends_with(".weight")) || shape.size() == 3;
    for (std::int64_t i = 0; i < tensor.numel(); ++i) {
      // Kaiming: fan-in for convolutions, whose inputs keep their variance through a ReLU. One-dimensional
      // entries are near their neutral values, yet not equal to them, so that tests see each of them.
      if (fan_in > 0)
        values[i] = static_cast<float>(random.normal(i) * std::sqrt(2.0 / static_cast<double>(fan_in)));
      else
        values[i] = static_cast<float>((variance || scale ? 1.0 : 0.0) + 0.1 * (random.uniform(i) - 0.5));
    }
    network.weights.emplace(name, std::move(tensor));
  }
  return network;
}

Network with_potential(Network network) {
  network.options.potential = true;
  network.graph = make_graph(network.options);
  return network;
}

Network fold_batch_norm(const Network& network) {
  Network folded = network;
  folded.options.batch_norm = false;
  const auto normalizes = [](const Node& n) { return n.op == Op::batch_norm; };
  if (std::none_of(network.graph.nodes().begin(), network.graph.nodes().end(), normalizes)) return folded;
  folded.graph = make_graph(folded.options);
  folded.weights.clear();

  // The convolutions of both graphs come in the same order; only the names differ.
  std::vector<const Node*> from, to;
  std::vector<const Node*> norm;  // behind from[i], or null
  const std::vector<Node>& nodes = network.graph.nodes();
  for (const Node& node : nodes) {
    if (is_convolution(node.op)) {
      from.push_back(&node);
      norm.push_back(nullptr);
    } else if (node.op == Op::batch_norm) {
      TESSERA_EXPECT(is_convolution(nodes[node.inputs[0]].op) && &nodes[node.inputs[0]] == from.back(),
                     "a batch norm that follows no convolution (nothing to fold it into) keep it");
      norm.back() = &node;
    }
  }
  for (const Node& node : folded.graph.nodes())
    if (is_convolution(node.op)) to.push_back(&node);
  TESSERA_EXPECT(from.size() == to.size(), "folding changed the number of convolutions");

  for (std::size_t i = 0; i < from.size(); ++i) {
    const at::ScalarType type = network.weights.at(from[i]->weight).scalar_type();
    at::Tensor weight = network.weights.at(from[i]->weight).to(at::kDouble);
    at::Tensor bias;
    if (!from[i]->bias.empty()) bias = network.weights.at(from[i]->bias).to(at::kDouble);
    if (norm[i]) {
      const auto part = [&](const char* name) {
        return network.weights.at(norm[i]->weight + name).to(at::kDouble);
      };
      const at::Tensor scale = part(".weight").div(part(".running_var").add(1e-5).sqrt());
      const at::Tensor shift = part(".bias").sub(part(".running_mean").mul(scale));
      std::vector<std::int64_t> outputs(static_cast<std::size_t>(weight.dim()), 1);
      outputs[from[i]->op == Op::conv_up ? 1 : 0] = -1;
      weight = weight.mul(scale.view(outputs));
      bias = bias.defined() ? bias.mul(scale).add(shift) : shift;
    }
    folded.weights.emplace(to[i]->weight, weight.to(type));
    if (!to[i]->bias.empty()) folded.weights.emplace(to[i]->bias, bias.to(type));
  }
  return folded;
}

}  // namespace tessera
