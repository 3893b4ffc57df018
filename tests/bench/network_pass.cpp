// SPDX-License-Identifier: BSD-3-Clause
// What a pass of a network over a square image spends its time on, step by step, each with the bytes that it reads
// and writes and the products that its kernels compute:
//   bench_network_pass WEIGHTS SIDE PASSES [PRECISION]   WEIGHTS: a shipped name, or random for DRUNet's published
//   widths; PRECISION: float32 (or none), bfloat16 or float16
// Seconds are of the processor, all threads together, the least of PASSES. With "turns" or "wall" in the place of PASSES for
// in_turn.py: the full pass alone.
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/rand.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

#include "tessera/core/error.hpp"
#include "tessera/core/words.hpp"
#include "tessera/denoise/execution.hpp"
#include "tessera/denoise/layer.hpp"
#include "tessera/denoise/network.hpp"
#include "tessera/denoise/pass_plan.hpp"
#include "tessera/denoise/runner.hpp"
#include "tessera/domain/tensor_memory.hpp"
#include "turns.hpp"

namespace {

using namespace tessera;

double cpu_seconds() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

struct StepTime {
  std::string name;
  double floats = 0;    // read and written
  double products = 0;  // multiply-adds of the kernels: a quarter of the direct sum's where Winograd's run
  double least = 1e30;
};

std::vector<StepTime> steps_of(const PassPlan& plan, const Graph& graph, double pixels) {
  std::vector<StepTime> steps;
  for (const Step& step : plan.steps) {
    StepTime time;
    const Node& node = step.node;
    const auto area = [&](int level) { return pixels / static_cast<double>(std::int64_t{1} << (2 * level)); };
    double inputs = 0;
    for (const int k : node.inputs) {
      const Node& from = graph.nodes()[static_cast<std::size_t>(k)];
      inputs += static_cast<double>(from.channels);
      if (from.op != Op::sigma_map) time.floats += static_cast<double>(from.channels) * area(from.level);
    }
    const double made = static_cast<double>(node.channels) * area(node.level);
    time.floats += step.other >= 0 ? 2 * made : made;
    const std::int64_t kernel = node.op == Op::conv ? node.kernel : 2;
    if (is_convolution(node.op)) {
      const bool winograd = node.op == Op::conv && inputs >= 16 && node.channels > 4;
      time.products = inputs * made * (node.op == Op::conv_up ? 1 : static_cast<double>(kernel * kernel)) /
                      (winograd ? 4 : 1);
    }
    time.name =
        concat(layer_of(node.op).name(), " ", static_cast<std::int64_t>(inputs), " to ", node.channels,
               step.relu         ? ", relu"
               : step.other >= 0 ? ", add"
                                 : "",
               ", level ", node.level);
    steps.push_back(time);
  }
  return steps;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string weights = argc > 1 ? argv[1] : "drunet_small_color";
  const std::int64_t side = argc > 2 ? std::atol(argv[2]) : 1024;
  const int passes = argc > 3 ? std::atoi(argv[3]) : 5;
  const auto precision = argc > 4 ? from_word<Precision>(argv[4]) : Precision::float32;
  if (!precision || precision == Precision::tf32) {
    std::fprintf(stderr,
                 "the precision %s (it is none of those of a CPU) take float32, bfloat16 or float16\n",
                 argv[4]);
    return 2;
  }
  const at::NoGradGuard no_grad;
  track_tensor_memory();
  const Network network = weights == "random" ? random_network({}, 1) : load_network("drunet", weights, 0);
  Runner runner(network, {.type = scalar_type(*precision)});
  const at::Tensor x = at::rand({1, network.channels(), side, side});
  if (passes == 0) {  // "turns"
    measure_in_turn({{"full pass", [&] {
                        const double start = cpu_seconds();
                        runner.run(x, 0.1);
                        return 1e3 * (cpu_seconds() - start);
                      }}});
    return 0;
  }
  const Network folded = fold_batch_norm(network);
  const double pixels = static_cast<double>(side * side);
  std::vector<StepTime> steps = steps_of(runner.plan(), folded.graph, pixels);
  double least = 1e30;
  for (int pass = 0; pass <= passes; ++pass) {
    const double start = cpu_seconds();
    double before = start;
    std::size_t k = 0;
    runner.run(x, 0.1, [&] {
      const double now = cpu_seconds();
      if (pass > 0) steps[k].least = std::min(steps[k].least, now - before);
      ++k;
      before = now;
    });
    if (pass > 0) least = std::min(least, cpu_seconds() - start);
  }
  std::printf("%s, %ld x %ld, %s, %d threads, least CPU time of %d passes\n", weights.c_str(),
              static_cast<long>(side), static_cast<long>(side), word(*precision), at::get_num_threads(),
              passes);
  std::printf("%-34s %9s %9s %8s %9s %8s\n", "step", "ms", "MB", "GB/s", "Mproducts", "GFLOP/s");
  const auto bytes = static_cast<double>(element_bytes(*precision));
  StepTime all;
  all.least = 0;
  for (const StepTime& step : steps) {
    std::printf("%-34s %9.2f %9.1f %8.1f %9.0f %8.1f\n", step.name.c_str(), 1e3 * step.least,
                1e-6 * bytes * step.floats, 1e-9 * bytes * step.floats / step.least, 1e-6 * step.products,
                2e-9 * step.products / step.least);
    all.least += step.least;
    all.floats += step.floats;
    all.products += step.products;
  }
  std::printf("%-34s %9.2f %9.1f %8.1f %9.0f %8.1f\n", "all steps", 1e3 * all.least,
              1e-6 * bytes * all.floats, 1e-9 * bytes * all.floats / all.least, 1e-6 * all.products,
              2e-9 * all.products / all.least);
  std::printf("full pass %.2f ms, %.1f ns per pixel\n", 1e3 * least, 1e9 * least / pixels);
}
