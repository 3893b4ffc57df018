// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/denoise/network_work.hpp"

#include "run/feature_layout.hpp"
#include "tessera/denoise/layer.hpp"

namespace tessera {

double NetworkWork::Layer::pixels(std::int64_t rows, std::int64_t columns) const {
  return pixels(Box::image2d(rows >> level, columns >> level));
}

double NetworkWork::Layer::pixels(const Box& part) const {
  const auto whole = [&](std::int64_t side) { return (side + tile - 1) / tile * tile; };
  return static_cast<double>(whole(part.extent(1)) * whole(part.extent(2)));
}

double NetworkWork::Layer::products() const {
  const Node before{.channels = in};
  return layer_of(op).products({.op = op, .channels = out, .kernel = kernel}, {&before});
}

std::int64_t window_halo(const Network& network) { return network.graph.global() ? 0 : network.halo(); }

NetworkWork network_work(const Network& network, at::ScalarType type, bool on_device) {
  const Network folded = fold_batch_norm(network);
  const auto plan = std::make_shared<RunPlan>(make_run_plan(folded.graph, /*fuse_add=*/true));
  const std::vector<Node>& nodes = folded.graph.nodes();
  NetworkWork work;
  work.name = network.options.name;
  work.alignment = network.alignment();
  work.halo = window_halo(network);
  work.channels = network.channels();
  work.global = network.graph.global();
  work.memory = std::make_shared<MemoryModel>(network, type, /*fused=*/true, Device{on_device ? 0 : -1});
  for (const auto& [key, weight] : folded.weights) work.weights += static_cast<double>(weight.numel());
  work.plan = plan;
  work.in_parts = in_parts(*plan, type, probe_convolutions(type, on_device, /*fused=*/true));
  for (std::size_t s = 0; s < plan->steps.size(); ++s) {
    const Node& node = plan->steps[s].node;
    tessera::Layer::Inputs in;
    for (const int i : node.inputs) in.push_back(&nodes[static_cast<std::size_t>(i)]);
    const StepWork step = layer_of(node.op).work(node, in, type, on_device);
    if (step.in == 0) continue;  // nothing is computed
    work.packed += step.packed;
    work.layers.push_back(
        {node.op, node.kernel, step.in, node.channels, node.level, step.passed, s, step.tile});
  }
  return work;
}

}  // namespace tessera
