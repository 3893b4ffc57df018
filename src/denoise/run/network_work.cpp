// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/denoise/network_work.hpp"

#include "run/feature_layout.hpp"
#include "winograd/winograd.hpp"

namespace tessera {

double NetworkWork::Layer::pixels(std::int64_t rows, std::int64_t columns) const {
  return pixels(Box::image2d(rows >> level, columns >> level));
}

double NetworkWork::Layer::pixels(const Box& part) const {
  const auto whole = [&](std::int64_t side) { return (side + tile - 1) / tile * tile; };
  return static_cast<double>(whole(part.extent(1)) * whole(part.extent(2)));
}

double NetworkWork::Layer::products() const {
  // Of a transposed 2 x 2 each sample lies under one tap.
  const int taps = op == Op::conv ? kernel * kernel : op == Op::conv_down ? 4 : 1;
  return static_cast<double>(taps) * static_cast<double>(in * out);
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
    if (node.op == Op::sigma_map) continue;
    NetworkWork::Layer layer{node.op, node.kernel, 0, node.channels, node.level, 0, s};
    for (const int i : node.inputs) layer.in += nodes[i].channels;
    if (node.op == Op::input) {  // in, and the result out again, each to another layout
      layer.in = layer.out;
      layer.passed = 4 * static_cast<double>(layer.out);
    } else if (node.depthwise) {  // as fast as memory
      layer.passed = 2 * static_cast<double>(layer.out);
      layer.in = 1;
    } else if (is_convolution(node.op)) {
      // 36 transformed numbers for 9 of a kernel where the library is Winograd's.
      const bool winograd = node.op == Op::conv && Winograd::suits(at::kFloat, layer.in, node.kernel) &&
                            Winograd::available() != Winograd::Instructions::none;
      const double kernel = winograd ? 36 : node.op == Op::conv ? node.kernel * node.kernel : 4;
      if (winograd && type == at::kFloat && !on_device) layer.tile = Winograd::kTile;
      work.packed += 4 * kernel * static_cast<double>(layer.in * layer.out);
    } else {
      // A pooled sample reads four, an upsampled one a quarter.
      const double read = node.op == Op::max_pool ? 4.0 : node.op == Op::upsample ? 0.25 : 1.0;
      layer.passed = read * static_cast<double>(layer.in) + static_cast<double>(layer.out);
      if (node.op == Op::window_attention)  // scores: biased, added to, shifted, summed, multiplied
        layer.passed += 8.0 * static_cast<double>(node.heads * node.window * node.window);
      if (node.op ==
          Op::channel_attention)  // squares; products of pairs of channels, as many passes as heads are wide
        layer.passed += 2.0 * static_cast<double>(node.channels);
    }
    work.layers.push_back(layer);
  }
  return work;
}

}  // namespace tessera
