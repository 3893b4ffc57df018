// SPDX-License-Identifier: BSD-3-Clause
#include "study_tools.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <cuda_runtime_api.h>

#include <algorithm>

#include "tessera/core/error.hpp"
#include "tessera/core/memory.hpp"
#include "tessera/core/phase.hpp"
#include "tessera/denoise/denoiser_table.hpp"
#include "tessera/denoise/runner.hpp"
#include "tessera/domain/torch_cuda.hpp"

namespace tessera {

at::TensorOptions study_tensor(Device device, at::ScalarType type) {
  const at::TensorOptions options(type);
  return device.is_cuda()
             ? options.device(c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(device.index)))
             : options;
}

void finish(Device device) {
  if (!device.is_cuda()) return;
  const cudaError_t code = cudaDeviceSynchronize();
  if (code != cudaSuccess) throw RunError(concat("cudaDeviceSynchronize: ", cudaGetErrorString(code)));
}

double study_seconds(Device device, int least, double seconds, const std::function<void()>& work) {
  work();
  finish(device);
  std::vector<double> times;
  for (double spent = 0;
       static_cast<int>(times.size()) < least || (spent < seconds && times.size() < 1000);) {
    const double start = now();
    work();
    finish(device);
    times.push_back(now() - start);
    spent += times.back();
  }
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
  return times[times.size() / 2];
}

std::int64_t study_peak(Device device, const std::function<void()>& work) {
  if (!device.is_cuda()) {
    memory_reset_peak();
    work();
    return memory_peak();
  }
  reset_device_peak(device.index);
  work();
  finish(device);
  return device_memory(device.index).peak;
}

std::int64_t study_memory(Device device) {
  if (!device.is_cuda()) return memory_now();
  return device_memory(device.index).now;
}

double copy_bandwidth(Device device, std::int64_t bytes) {
  const at::Tensor from = at::ones({bytes / 4}, study_tensor(device)),
                   to = at::ones({bytes / 4}, study_tensor(device));
  return 2.0 * static_cast<double>(bytes) / study_seconds(device, 5, 0.2, [&] { to.copy_(from); });
}

double arithmetic_peak(Device device) {
  const at::NoGradGuard no_grad;
  const std::int64_t n = device.is_cuda() ? 4096 : 1024, side = device.is_cuda() ? 512 : 96;
  const at::Tensor a = at::rand({n, n}, study_tensor(device));
  const double product =
      2.0 * static_cast<double>(n * n * n) / study_seconds(device, 3, 0.2, [&] { at::mm(a, a); });
  NetworkOptions o;
  o.name = "dncnn";
  o.widths = {128};
  o.depth = 6;
  const Network network = random_network(o, 1);
  Runner runner(network, {.device = device});
  const at::Tensor x = at::rand({1, 3, side, side}, study_tensor(device));
  const double seconds = study_seconds(device, 3, 0.2, [&] { runner.run(x, 0.1); });
  return std::max(product, 2 * network.graph.macs_per_pixel() * static_cast<double>(side * side) / seconds);
}

double bytes_per_pixel(const Graph& graph) {
  const auto& nodes = graph.nodes();
  const auto values = [&](const Node& n) {
    return static_cast<double>(n.channels) / static_cast<double>(std::int64_t{1} << (2 * n.level));
  };
  double passed = 0;
  for (const Node& node : nodes) {
    if (node.op == Op::relu || node.op == Op::batch_norm || node.op == Op::input || node.op == Op::sigma_map)
      continue;
    if (node.op == Op::add) {
      passed += values(node);  // the other operand, read in the pass of the convolution
      continue;
    }
    for (const int i : node.inputs) passed += values(nodes[static_cast<std::size_t>(i)]);
    passed += values(node);
  }
  return 4 * passed;
}

Network study_network(const std::string& name) { return random_network(published_network(name), 1); }

std::int64_t round_up(std::int64_t n, std::int64_t unit) { return (n + unit - 1) / unit * unit; }

}  // namespace tessera
