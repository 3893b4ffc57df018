// SPDX-License-Identifier: BSD-3-Clause
// The program of conv_throughput.sh: a full pass of a network against its convolutions one by one, each with
// its own inputs at hand and nothing between. With "turns" in the place of the rounds for in_turn.py.
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "engines/convolution.hpp"
#include "tessera/core/error.hpp"
#include "tessera/denoise/network.hpp"
#include "tessera/denoise/pass_plan.hpp"
#include "tessera/denoise/runner.hpp"
#include "tessera/domain/tensor_memory.hpp"
#include "turns.hpp"

namespace {

using namespace tessera;

clockid_t measured_clock = CLOCK_MONOTONIC;

double now() {
  timespec t{};
  clock_gettime(measured_clock, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

template <class Work>
double seconds(const Work& work) {
  const double start = now();
  work();
  return now() - start;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Convolutions of one kind: same sizes, same fused operations.
struct Kind {
  Op op;
  std::int64_t inputs, outputs, kernel, side;  // of the input image
  bool relu, add;
  friend auto operator<=>(const Kind&, const Kind&) = default;
};

const char* with(const Kind& kind) {
  return kind.op == Op::conv_up     ? "up"
         : kind.op == Op::conv_down ? "down"
         : kind.add                 ? "add"
         : kind.relu                ? "relu"
                                    : "-";
}

struct TimedLayer {
  int count = 0;
  double flops = 0;  // of one, by the direct sum
  std::optional<ConvolutionLayer> ours, library;
  at::Tensor x, other;
  std::vector<double> ours_seconds, library_seconds;
};

at::Tensor image(std::int64_t channels, std::int64_t side) {
  return at::rand({1, channels, side, side}).contiguous(at::MemoryFormat::ChannelsLast);
}

std::map<Kind, TimedLayer> layers_of(const Graph& graph, std::int64_t side) {
  std::map<Kind, TimedLayer> layers;
  for (const Step& step : make_pass_plan(graph, true).steps) {
    const Node& node = step.node;
    if (!is_convolution(node.op)) continue;
    const Node& from = graph.nodes()[static_cast<std::size_t>(node.inputs[0])];
    const std::int64_t kernel = node.op == Op::conv ? node.kernel : 2;
    const Kind kind{node.op,   from.channels,  node.channels, kernel, side >> from.level,
                    step.relu, step.other >= 0};
    TimedLayer& layer = layers[kind];
    if (layer.count++ > 0) continue;
    const std::int64_t out = side >> node.level;
    layer.flops = 2.0 * static_cast<double>(kind.inputs * kind.outputs * out * out) *
                  static_cast<double>(node.op == Op::conv_up ? 1 : kernel * kernel);
    const bool up = node.op == Op::conv_up;
    const at::Tensor weight =
        at::randn({up ? kind.inputs : kind.outputs, up ? kind.outputs : kind.inputs, kernel, kernel}) /
        static_cast<double>(kernel * kind.inputs);
    ConvolutionLayer::Shape shape{.stride = node.op == Op::conv ? 1 : 2,
                                  .padding = node.op == Op::conv ? kernel / 2 : 0,
                                  .transposed = up};
    layer.ours.emplace(ConvolutionLibrary::onednn, weight, std::nullopt, shape);
    shape.winograd = false;
    layer.library.emplace(ConvolutionLibrary::onednn, weight, std::nullopt, shape);
    layer.x = image(kind.inputs, kind.side);
    if (kind.add) layer.other = image(kind.outputs, out);
  }
  return layers;
}

// The first run finds another layer's data in the caches.
double best_of(int runs, ConvolutionLayer& convolution, const TimedLayer& layer, const Kind& kind) {
  double best = 1e30;
  for (int i = 0; i < runs; ++i)
    best = std::min(best, seconds([&] {
                      if (kind.add)
                        convolution.add(layer.x, layer.other, true);  // in place, as in a pass
                      else
                        convolution.apply(layer.x, kind.relu);
                    }));
  return best;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string name = argc > 1 ? argv[1] : "drunet";
  const std::int64_t side = argc > 2 ? std::atol(argv[2]) : 512;
  const int rounds = argc > 3 ? std::atoi(argv[3]) : 5;
  const double target = argc > 4 ? std::atof(argv[4]) : 0.85;
  const std::string clock = argc > 5 ? argv[5] : "wall";
  if (clock == "cpu") measured_clock = CLOCK_PROCESS_CPUTIME_ID;
  const at::NoGradGuard no_grad;
  track_tensor_memory();
  if (probe_convolutions(at::kFloat, false, true) != ConvolutionLibrary::onednn) {
    std::fprintf(stderr, "no oneDNN here (nothing to compare with)\n");
    return 77;
  }
  NetworkOptions options;
  options.name = name;
  const Network network = random_network(options, 1);
  Runner runner(network, {});
  std::map<Kind, TimedLayer> layers = layers_of(fold_batch_norm(network).graph, side);
  const at::Tensor x = at::rand({1, 3, side, side});

  if (rounds == 0) {  // "turns"
    std::vector<TimedRow> rows{{"full pass", [&] { return 1e3 * seconds([&] { runner.run(x, 0.1); }); }}};
    for (auto& [kind, layer] : layers)
      rows.push_back(
          {concat(layer.count, " x ", kind.inputs, " -> ", kind.outputs, ", ", kind.side, ", ", with(kind)),
           [&kind, &layer] {
             const ReuseScope pool;
             return 1e3 * best_of(3, *layer.ours, layer, kind);
           }});
    measure_in_turn(rows);
    return 0;
  }
  std::vector<double> passes, shares, gains;
  for (int round = 0; round <= rounds; ++round) {
    double best = 0, library = 0;  // of all layers, one by one
    {
      const ReuseScope pool;
      for (auto& [kind, layer] : layers) {
        const double a = best_of(4, *layer.ours, layer, kind), b = best_of(4, *layer.library, layer, kind);
        best += layer.count * std::min(a, b);
        library += layer.count * b;
        if (round == 0) continue;  // warms up
        layer.ours_seconds.push_back(a);
        layer.library_seconds.push_back(b);
      }
    }
    runner.run(x, 0.1);
    const double pass = std::min(seconds([&] { runner.run(x, 0.1); }), seconds([&] { runner.run(x, 0.1); }));
    if (round == 0) continue;
    passes.push_back(pass);
    shares.push_back(best / pass);
    gains.push_back(library / pass);
  }

  double flops = 0;
  std::printf("%s, %ld x %ld color, float32, %d threads, %d rounds; GFLOP/s of the direct sum\n",
              name.c_str(), static_cast<long>(side), static_cast<long>(side), at::get_num_threads(), rounds);
  std::printf("%6s %9s %6s %-6s %9s %9s %9s %7s\n", "count", "channels", "side", "with", "ms", "GFLOP/s",
              "oneDNN", "ratio");
  for (const auto& [kind, layer] : layers) {
    const double a = median(layer.ours_seconds), b = median(layer.library_seconds);
    flops += layer.count * layer.flops;
    std::printf("%6d %4ld %4ld %6ld %-6s %9.3f %9.0f %9.0f %7.2f\n", layer.count,
                static_cast<long>(kind.inputs), static_cast<long>(kind.outputs), static_cast<long>(kind.side),
                with(kind), a * 1e3, layer.flops / a * 1e-9, layer.flops / b * 1e-9, b / a);
  }
  const double share = median(shares);
  std::printf("full pass: %.1f ms, %.0f GFLOP/s\n", median(passes) * 1e3, flops / median(passes) * 1e-9);
  std::printf(
      "share of the best single layers' throughput: %.1f %% (least %.1f, most %.1f), target %.0f %%\n",
      100 * share, 100 * *std::min_element(shares.begin(), shares.end()),
      100 * *std::max_element(shares.begin(), shares.end()), 100 * target);
  std::printf("against the time of oneDNN's layers alone: %.2f\n", median(gains));
  std::printf("%s\n", share >= target ? "reached" : "missed");
}
