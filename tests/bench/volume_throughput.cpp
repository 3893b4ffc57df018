// SPDX-License-Identifier: BSD-3-Clause
// The program of volume_throughput.sh: convolutions of volumes, 3 x 3 x 3, and a pass of drunet3d, ours and torch's in
// turn: oneDNN's convolutions, channels last; the same network by torch's operators.
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mkldnn_convolution.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <string>
#include <vector>

#include "tessera/denoise/network.hpp"
#include "tessera/denoise/runner.hpp"
#include "winograd/winograd.hpp"

namespace {

using namespace tessera;

constexpr auto kLast = at::MemoryFormat::ChannelsLast3d;

clockid_t measured_clock = CLOCK_MONOTONIC;

double now() {
  timespec t{};
  clock_gettime(measured_clock, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// The medians of both, in turn; the first round warms up.
std::array<double, 2> in_turn(int rounds, const std::array<std::function<at::Tensor()>, 2>& works) {
  std::array<std::vector<double>, 2> seconds;
  for (int round = 0; round <= rounds; ++round)
    for (std::size_t k = 0; k < 2; ++k) {
      const double start = now();
      works[k]();
      if (round > 0) seconds[k].push_back(now() - start);
    }
  return {median(seconds[0]), median(seconds[1])};
}

void print(const std::string& name, const std::array<double, 2>& seconds, double products, double error) {
  std::printf("%-22s %9.1f %9.1f %7.2f %9.1f %9.1e\n", name.c_str(), seconds[0] * 1e3, seconds[1] * 1e3,
              seconds[1] / seconds[0], products / seconds[0] * 1e-9, error);
  std::fflush(stdout);
}

double relative(const at::Tensor& got, const at::Tensor& want) {
  return ((got - want).abs().max() / want.abs().max()).item<double>();
}

void compare_convolutions(std::int64_t inputs, std::int64_t outputs, std::int64_t side, int rounds) {
  const at::Tensor x = at::randn({1, inputs, side, side, side}).contiguous(kLast);
  const at::Tensor w = at::randn({outputs, inputs, 3, 3, 3}) / std::sqrt(27.0 * static_cast<double>(inputs));
  const at::Tensor packed = w.contiguous(kLast);
  const Winograd layer(w, std::nullopt, Winograd::available());
  const std::array<std::int64_t, 3> one{1, 1, 1};
  const auto ours = [&] {
    at::Tensor y = at::empty({1, outputs, side, side, side}, x.options().memory_format(kLast));
    layer.run(x, {1, 1}, nullptr, false, y, 1);
    return y;
  };
  const auto torchs = [&] { return at::mkldnn_convolution(x, packed, std::nullopt, one, one, one, 1); };
  const double products = 27.0 * static_cast<double>(inputs * outputs * side * side * side);
  print("conv " + std::to_string(inputs) + " -> " + std::to_string(outputs), in_turn(rounds, {ours, torchs}),
        products, relative(ours(), torchs()));
}

void compare_networks(const std::vector<std::int64_t>& widths, std::int64_t side, int rounds) {
  const Network network =
      random_network({.name = "drunet3d", .channels = 1, .widths = widths, .blocks = 1}, 1);
  Runner runner(network, {});
  const at::Tensor x = at::rand({1, 1, side, side, side}).contiguous(kLast), sigma = at::full({1}, 0.1);
  const auto ours = [&] { return runner.run(x, 0.1); };
  const auto torchs = [&] { return evaluate(network.graph, network.weights, x, sigma); };
  std::string name = "drunet3d";
  for (const std::int64_t width : widths) name.append(" ").append(std::to_string(width));
  print(name, in_turn(rounds, {ours, torchs}),
        network.graph.macs_per_pixel() * static_cast<double>(side * side * side), relative(ours(), torchs()));
}

}  // namespace

int main(int argc, char** argv) {
  const std::int64_t side = argc > 1 ? std::atol(argv[1]) : 64;
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 5;
  if (argc > 3 && std::string(argv[3]) == "cpu") measured_clock = CLOCK_PROCESS_CPUTIME_ID;
  if (Winograd::available() == Winograd::Instructions::none) {
    std::fprintf(stderr, "no AVX2 here (nothing of ours to compare)\n");
    return 77;
  }
  const at::NoGradGuard no_grad;
  std::printf("%ld voxels a side, float32, %d threads, median of %d rounds in turn\n",
              static_cast<long>(side), at::get_num_threads(), rounds);
  std::printf("%-22s %9s %9s %7s %9s %9s\n", "", "ours, ms", "torch, ms", "ratio", "GMAC/s", "differ by");
  for (const std::int64_t channels : {16, 32, 64}) compare_convolutions(channels, channels, side, rounds);
  compare_convolutions(16, 1, side, rounds);
  compare_networks({16, 32, 64}, side, rounds);
  compare_networks({32, 64, 128}, side, rounds);
  compare_networks({16, 32, 64, 128}, side, rounds);  // deepinv's has four levels
}
