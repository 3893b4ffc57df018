// SPDX-License-Identifier: BSD-3-Clause
// What a network costs: its fused steps, and the seconds of each.
#include <algorithm>
#include <cmath>
#include <limits>

#include <c10/core/ScalarType.h>

#include "run_plan.hpp"
#include "tessera/core/error.hpp"
#include "tessera/perf/model.hpp"
#include "winograd.hpp"

namespace tessera {
namespace {

constexpr double kHalving = 1.15;  // slower per product with tiles of half the size; an estimate

bool convolves(Op op) { return op == Op::conv || op == Op::conv_down || op == Op::conv_up; }

double taps(const NetworkWork::Layer& layer) {
  if (layer.op == Op::conv) return static_cast<double>(layer.kernel) * layer.kernel;
  return layer.op == Op::conv_down ? 4 : 1;  // of a transposed 2 x 2 each sample lies under one tap
}
double products(const NetworkWork::Layer& layer) {
  return taps(layer) * static_cast<double>(layer.in * layer.out);
}

// The measured convolution that is like this one: the same kind, channels nearest in ratio.
const LayerRate* nearest_shape(const Throughput& t, const NetworkWork::Layer& layer) {
  const LayerRate* best = nullptr;
  double least = std::numeric_limits<double>::infinity();
  const auto ratio = [](std::int64_t a, std::int64_t b) {
    return std::abs(std::log(static_cast<double>(a) / static_cast<double>(b)));
  };
  for (const LayerRate& shape : t.layers) {
    if (!convolves(shape.op)) continue;
    double distance = ratio(shape.in, layer.in) + ratio(shape.out, layer.out);
    if (shape.op != layer.op) distance += 10;
    if (shape.kernel != layer.kernel) distance += 5;
    if (distance < least) {
      least = distance;
      best = &shape;
    }
  }
  return best;
}

const Throughput& throughput(const Machine& machine, const std::string& precision) {
  const auto found = machine.precisions.find(precision);
  TESSERA_VALIDATE(found != machine.precisions.end(), "the machine '", machine.name, "' has no ", precision,
                   " (its layers were not measured in it) measure them with tessera tune, or use "
                   "another denoiser.precision");
  return found->second;
}

}  // namespace

std::int64_t precision_bytes(const std::string& precision) {
  return precision == "bfloat16" || precision == "float16" ? 2 : 4;
}

NetworkWork network_work(const Network& network, const std::string& precision, bool gpu) {
  const Network folded = fold_batch_norm(network);
  const auto plan = std::make_shared<RunPlan>(make_run_plan(folded.graph, /*fuse_add=*/true));
  const std::vector<Node>& nodes = folded.graph.nodes();
  NetworkWork work;
  work.name = network.options.name;
  work.alignment = network.alignment();
  work.halo = network.halo();
  work.channels = network.channels();
  const at::ScalarType type = precision == "bfloat16"  ? at::kBFloat16
                              : precision == "float16" ? at::kHalf
                                                       : at::kFloat;
  work.memory = std::make_shared<MemoryModel>(network, type, /*fused=*/true, Device{gpu ? 0 : -1});
  for (const auto& [key, weight] : folded.weights) work.weights += static_cast<double>(weight.numel());
  work.plan = plan;
  for (std::size_t s = 0; s < plan->steps.size(); ++s) {
    const Node& node = plan->steps[s].node;
    if (node.op == Op::sigma_map) continue;
    NetworkWork::Layer layer{node.op, node.kernel, 0, node.channels, node.level, 0, s};
    for (const int i : node.inputs) layer.in += nodes[i].channels;
    if (node.op == Op::input) {  // in, and the result out again, each to another layout
      layer.in = layer.out;
      layer.passed = 4 * static_cast<double>(layer.out);
    } else if (!convolves(node.op)) {
      // A pooled sample reads four, an upsampled one a quarter.
      const double read = node.op == Op::max_pool ? 4.0 : node.op == Op::upsample ? 0.25 : 1.0;
      layer.passed = read * static_cast<double>(layer.in) + static_cast<double>(layer.out);
    }
    if (convolves(node.op)) {
      // 36 transformed numbers for 9 of a kernel where the library is Winograd's.
      const bool winograd = node.op == Op::conv && Winograd::suits(at::kFloat, layer.in, node.kernel) &&
                            Winograd::available() != Winograd::Instructions::none;
      const double kernel = winograd ? 36 : node.op == Op::conv ? node.kernel * node.kernel : 4;
      if (winograd && type == at::kFloat && !gpu) layer.tile = Winograd::kTile;
      work.packed += 4 * kernel * static_cast<double>(layer.in * layer.out);
    }
    work.layers.push_back(layer);
  }
  return work;
}

bool measures(const LayerRate& r, const NetworkWork::Layer& layer) {
  return r.op == layer.op && r.kernel == layer.kernel && r.in == layer.in && r.out == layer.out;
}

double convolution_seconds(const Machine& machine, const std::string& precision,
                           const NetworkWork::Layer& layer, double pixels) {
  const Throughput& t = throughput(machine, precision);
  if (const LayerRate* shape = nearest_shape(t, layer)) {
    const NetworkWork::Layer known{shape->op, shape->kernel, shape->in, shape->out};
    return shape->seconds.at(pixels) * products(layer) / products(known);
  }
  double flops = 2 * products(layer) * pixels;
  if (machine.processors > 0) {
    // Output tiles are dealt to the processors in rounds; the last round may be a short one. A library has
    // smaller tiles for small outputs, and pays for each halving with reuse of what it reads.
    double least = std::numeric_limits<double>::infinity(), price = 1;
    for (double tile = machine.tile; tile >= machine.tile / 8; tile /= 2, price *= kHalving) {
      const double tiles = std::ceil(pixels * static_cast<double>(layer.out) / tile);
      const double rounds = std::ceil(tiles / machine.processors);
      least = std::min(least, price * rounds * machine.processors * tile);
    }
    flops *= least / (pixels * static_cast<double>(layer.out));
  }
  const double bytes = pixels * static_cast<double>((layer.in + layer.out) * precision_bytes(precision));
  return machine.call + std::max(flops / (t.peak * t.fraction), machine.copy.at(bytes));
}

double NetworkWork::Layer::pixels(std::int64_t rows, std::int64_t columns) const {
  const auto whole = [&](std::int64_t side) { return ((side >> level) + tile - 1) / tile * tile; };
  return static_cast<double>(whole(rows) * whole(columns));
}

double layer_seconds(const Machine& machine, const std::string& precision, const NetworkWork::Layer& layer,
                     double pixels) {
  if (layer.passed == 0) return convolution_seconds(machine, precision, layer, pixels);
  for (const LayerRate& rate : throughput(machine, precision).layers)
    if (measures(rate, layer)) return rate.seconds.at(pixels);
  return machine.call +
         machine.copy.at(pixels * layer.passed * static_cast<double>(precision_bytes(precision)));
}

bool knows(const Machine& machine, const NetworkWork& network, const std::string& precision) {
  const auto t = machine.precisions.find(precision);
  if (t == machine.precisions.end()) return false;
  const std::vector<LayerRate>& known = t->second.layers;
  return std::all_of(network.layers.begin(), network.layers.end(), [&](const NetworkWork::Layer& layer) {
    return std::any_of(known.begin(), known.end(), [&](const LayerRate& r) { return measures(r, layer); });
  });
}

double pass_seconds(const Machine& machine, const NetworkWork& network, const std::string& precision,
                    std::int64_t rows, std::int64_t columns, std::int64_t batch) {
  double seconds = 0;
  for (const NetworkWork::Layer& layer : network.layers)
    seconds +=
        layer_seconds(machine, precision, layer, layer.pixels(rows, columns) * static_cast<double>(batch));
  return seconds;
}

}  // namespace tessera
