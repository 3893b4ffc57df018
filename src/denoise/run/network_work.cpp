// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/denoise/network_work.hpp"

#include "run/feature_layout.hpp"
#include "tessera/denoise/layer.hpp"

namespace tessera {

double NetworkWork::Layer::pixels(const Index3& window) const {
  return pixels(at_level(Box({0, 0, 0}, window), level, axes));
}

double NetworkWork::Layer::pixels(const Box& part) const {
  const auto whole = [&](std::int64_t side) { return (side + tile - 1) / tile * tile; };
  return static_cast<double>(part.extent(0) * whole(part.extent(1)) * whole(part.extent(2)));
}

double NetworkWork::Layer::products() const {
  const Node before{.channels = in};
  return layer_of(op).products({.op = op, .channels = out, .kernel = kernel, .axes = axes}, {&before});
}

Index3 window_halo(const Network& network) { return network.graph.global() ? Index3{} : network.halo(); }

NetworkWork network_work(const Network& network, at::ScalarType type, bool on_device) {
  const Network folded = fold_batch_norm(network);
  const ConvolutionLibrary library = library_for(folded.graph, type, on_device, /*fused=*/true);
  const auto plan = std::make_shared<PassPlan>(make_pass_plan(folded.graph, fuses_add(library)));
  const std::vector<Node>& nodes = folded.graph.nodes();
  NetworkWork work;
  work.name = network.options.name;
  work.alignment = network.alignment();
  work.halo = window_halo(network);
  work.channels = network.channels();
  work.axes = network.graph.axes();
  work.global = network.graph.global();
  work.memory = std::make_shared<MemoryModel>(network, type, /*fused=*/true, Device{on_device ? 0 : -1});
  for (const auto& [key, weight] : folded.weights) work.weights += static_cast<double>(weight.numel());
  work.plan = plan;
  work.in_parts = in_parts(*plan, type, library);
  for (std::size_t s = 0; s < plan->steps.size(); ++s) {
    const Node& node = plan->steps[s].node;
    tessera::Layer::Inputs in;
    for (const int i : node.inputs) in.push_back(&nodes[static_cast<std::size_t>(i)]);
    const StepWork step = layer_of(node.op).work(node, in, type, on_device);
    if (step.in == 0) continue;  // nothing is computed
    work.packed += step.packed;
    work.layers.push_back(
        {node.op, node.kernel, step.in, node.channels, node.level, step.passed, s, step.tile, node.axes});
  }
  return work;
}

}  // namespace tessera
