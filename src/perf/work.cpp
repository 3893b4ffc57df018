// SPDX-License-Identifier: BSD-3-Clause
// What a network costs: the seconds of each of its fused steps.
#include <algorithm>
#include <cmath>
#include <limits>

#include <c10/core/ScalarType.h>

#include "tessera/core/error.hpp"
#include "tessera/perf/model.hpp"

namespace tessera {
namespace {

constexpr double kHalving = 1.15;  // slower per product with tiles of half the size; an estimate

// The measured convolution that is like this one: the same kind, channels nearest in ratio.
const LayerRate* nearest_shape(const Throughput& t, const NetworkWork::Layer& layer) {
  const LayerRate* best = nullptr;
  double least = std::numeric_limits<double>::infinity();
  const auto ratio = [](std::int64_t a, std::int64_t b) {
    return std::abs(std::log(static_cast<double>(a) / static_cast<double>(b)));
  };
  for (const LayerRate& shape : t.layers) {
    if (!is_convolution(shape.op)) continue;
    double distance = ratio(shape.in, layer.in) + ratio(shape.out, layer.out);
    if (shape.axes != layer.axes) distance += 20;
    if (shape.op != layer.op) distance += 10;
    if (shape.kernel != layer.kernel) distance += 5;
    if (distance < least) {
      least = distance;
      best = &shape;
    }
  }
  return best;
}

const Throughput& throughput(const Machine& machine, Precision precision) {
  const auto found = machine.precisions.find(precision);
  TESSERA_VALIDATE(found != machine.precisions.end(), "the machine '", machine.name, "' has no ",
                   word(precision),
                   " (its layers were not measured in it) measure them with tessera tune, or use "
                   "another denoiser.precision");
  return found->second;
}

}  // namespace

bool measures(const LayerRate& r, const NetworkWork::Layer& layer) {
  return r.op == layer.op && r.axes == layer.axes && r.kernel == layer.kernel && r.in == layer.in &&
         r.out == layer.out;
}

double convolution_seconds(const Machine& machine, Precision precision, const NetworkWork::Layer& layer,
                           double pixels) {
  const Throughput& t = throughput(machine, precision);
  if (const LayerRate* shape = nearest_shape(t, layer)) {
    const NetworkWork::Layer known{
        .op = shape->op, .kernel = shape->kernel, .in = shape->in, .out = shape->out, .axes = shape->axes};
    return shape->seconds.at(pixels) * layer.products() / known.products();
  }
  double flops = 2 * layer.products() * pixels;
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
  const double bytes = pixels * static_cast<double>((layer.in + layer.out) * element_bytes(precision));
  return machine.call + std::max(flops / (t.peak * t.fraction), machine.copy.at(bytes));
}

double layer_seconds(const Machine& machine, Precision precision, const NetworkWork::Layer& layer,
                     double pixels) {
  if (layer.passed == 0) return convolution_seconds(machine, precision, layer, pixels);
  for (const LayerRate& rate : throughput(machine, precision).layers)
    if (measures(rate, layer)) return rate.seconds.at(pixels);
  return machine.call +
         machine.copy.at(pixels * layer.passed * static_cast<double>(element_bytes(precision)));
}

bool knows(const Machine& machine, const NetworkWork& network, Precision precision) {
  const auto t = machine.precisions.find(precision);
  if (t == machine.precisions.end()) return false;
  const std::vector<LayerRate>& known = t->second.layers;
  return std::all_of(network.layers.begin(), network.layers.end(), [&](const NetworkWork::Layer& layer) {
    return std::any_of(known.begin(), known.end(), [&](const LayerRate& r) { return measures(r, layer); });
  });
}

double pass_seconds(const Machine& machine, const NetworkWork& network, Precision precision,
                    const Index3& window, std::int64_t batch) {
  double seconds = 0;
  for (const NetworkWork::Layer& layer : network.layers)
    seconds += layer_seconds(machine, precision, layer, layer.pixels(window) * static_cast<double>(batch));
  return seconds;
}

double pass_seconds(const Machine& machine, const NetworkWork& network, Precision precision,
                    const Box& window, const Box& core, std::int64_t batch) {
  const std::vector<Box> parts = computed_parts(*network.plan, window, core, network.in_parts);
  double seconds = 0;
  for (const NetworkWork::Layer& layer : network.layers) {
    const Box& part = parts[static_cast<std::size_t>(network.plan->steps[layer.step].out)];
    seconds += layer_seconds(machine, precision, layer, layer.pixels(part) * static_cast<double>(batch));
  }
  return seconds;
}

}  // namespace tessera
