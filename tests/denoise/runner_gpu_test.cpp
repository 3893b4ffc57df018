// SPDX-License-Identifier: BSD-3-Clause
// Runner and denoisers on a device against the same on the CPU.
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/rand.h>
#include <gtest/gtest.h>

#include "support/gpu.hpp"
#include "tessera/denoise/denoiser.hpp"
#include "tessera/denoise/runner.hpp"

namespace tessera {
namespace {

const Device kGpu{0};

at::Tensor on_gpu(const at::Tensor& x) { return x.to(c10::Device(c10::kCUDA, 0)); }

double relative(const at::Tensor& a, const at::Tensor& b) {
  return ((a.cpu() - b).abs().max() / b.abs().max()).item<double>();
}

Network narrow(const char* name) {
  NetworkOptions o;
  o.name = name;
  o.widths =
      name == std::string("dncnn") ? std::vector<std::int64_t>{16} : std::vector<std::int64_t>{8, 16, 24};
  o.blocks = 2;
  o.depth = 6;
  return random_network(o, 7);
}

TEST(RunnerGpu, equals_the_cpu) {
  TESSERA_NEEDS_GPU();
  for (const char* name : {"drunet", "unet", "dncnn"}) {
    SCOPED_TRACE(name);
    const Network network = narrow(name);
    const at::Tensor x = at::rand({2, 3, 32, 48});
    const at::Tensor want = Runner(network, {.type = at::kDouble}).run(x, 0.1);
    for (const bool fused : {true, false})
      EXPECT_LT(relative(Runner(network, {.fused = fused, .device = kGpu}).run(on_gpu(x), 0.1), want), 1e-5);
    EXPECT_LT(relative(Runner(network, {.tf32 = true, .device = kGpu}).run(on_gpu(x), 0.1), want), 2e-2);
    EXPECT_LT(relative(Runner(network, {.type = at::kBFloat16, .device = kGpu}).run(on_gpu(x), 0.1), want),
              0.1);
    EXPECT_LT(relative(Runner(network, {.type = at::kHalf, .device = kGpu}).run(on_gpu(x), 0.1), want), 2e-2);
    const at::Tensor exact = Runner(network, {.type = at::kDouble}).run(x.to(at::kDouble), 0.1);
    EXPECT_LT(
        relative(Runner(network, {.type = at::kDouble, .device = kGpu}).run(on_gpu(x.to(at::kDouble)), 0.1),
                 exact),
        1e-12);
  }
}

TEST(RunnerGpu, denoisers_on_windows_and_tv) {
  TESSERA_NEEDS_GPU();
  const Network network = narrow("drunet");
  const at::Tensor image = at::rand({3, 97, 45});
  const Decomposition d(Box::image2d(97, 45), {1, 4, 4}, {1, 1, 1});
  const auto context = [&](Device device) {
    return DenoiserContext{d, 3, Communicator(), make_transport(Communicator(), device, TransportKind::mpi)};
  };
  at::Tensor want = at::empty_like(image), got = on_gpu(want);
  make_network_denoiser(network, {}, context(Device{}))->apply(image, 0.1, want);
  make_network_denoiser(network, {.patch = 24, .device = kGpu}, context(kGpu))
      ->apply(on_gpu(image), 0.1, got);
  EXPECT_LT(relative(got, want), 1e-5);

  make_total_variation({}, context(Device{}), image.options())->apply(image, 0.1, want);
  make_total_variation({}, context(kGpu), got.options())->apply(on_gpu(image), 0.1, got);
  EXPECT_LT(relative(got, want), 1e-5);
}

}  // namespace
}  // namespace tessera
