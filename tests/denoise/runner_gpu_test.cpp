// SPDX-License-Identifier: BSD-3-Clause
// Runner and denoisers on a device against the same on the CPU.
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <gtest/gtest.h>

#include <vector>

#include "support/gpu.hpp"
#include "tessera/core/error.hpp"
#include "tessera/core/memory.hpp"
#include "tessera/denoise/cuda_graph.hpp"
#include "tessera/denoise/denoiser.hpp"
#include "tessera/denoise/network_denoiser.hpp"
#include "tessera/denoise/runner.hpp"
#include "tessera/denoise/total_variation.hpp"
#include "tessera/domain/tensor.hpp"
#include "tessera/domain/torch_cuda.hpp"
#include "whole_image.hpp"

namespace tessera {
namespace {

const Device kGpu{0};

at::Tensor on_gpu(const at::Tensor& x) { return x.to(c10::Device(c10::kCUDA, 0)); }

double relative(const at::Tensor& a, const at::Tensor& b) {
  return ((a.cpu() - b).abs().max() / b.abs().max()).item<double>();
}

Network narrow(const char* name) { return test::tiny(name, 3, {8, 16, 24}); }

TEST(RunnerGpu, equals_the_cpu) {
  TESSERA_NEEDS_GPU();
  for (const char* name : {"drunet", "unet", "dncnn", "gsdrunet", "ffdnet", "scunet", "restormer"}) {
    SCOPED_TRACE(name);
    const Network network = narrow(name);
    const at::Tensor x = at::rand({2, 3, 32, 64});
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
    return DenoiserContext{d, ImageSpace(d.image(), 3), Communicator(),
                           make_transport(Communicator(), device, TransportKind::mpi)};
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

// A graph is captured at a shape's second call and replayed from then on.
TEST(RunnerGpu, replayed_graphs_equal_plain_passes) {
  TESSERA_NEEDS_GPU();
  for (const char* name : {"drunet", "unet", "dncnn", "gsdrunet", "ffdnet", "scunet", "restormer"})
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      SCOPED_TRACE(concat(name, ' ', c10::toString(type)));
      const Network network = narrow(name);
      Runner graphed(network, {.type = type, .device = kGpu});
      Runner plain(network, {.type = type, .graphs = false, .device = kGpu});
      EXPECT_EQ(graphed.graphs(), 0u);
      for (int call = 0; call < 4; ++call) {  // other pixels and another noise level each time
        const at::Tensor x = on_gpu(at::rand({2, 3, 32, 64}));
        const double sigma = 0.05 * (call + 1);
        const at::Tensor want = plain.run(x, sigma).cpu();
        EXPECT_LT(relative(graphed.run(x, sigma), want), type == at::kFloat ? 1e-5 : 2e-2) << "call " << call;
        EXPECT_EQ(graphed.graphs(), call == 0 ? 0u : 1u) << "call " << call;
      }
      EXPECT_EQ(plain.graphs(), 0u);
    }
}

TEST(RunnerGpu, a_replay_sees_a_new_noise_level) {
  TESSERA_NEEDS_GPU();
  Runner runner(narrow("drunet"), {.device = kGpu});
  const at::Tensor x = on_gpu(at::rand({1, 3, 32, 32}));
  std::vector<at::Tensor> results;
  for (const double sigma : {0.1, 0.1, 0.4, 0.1}) results.push_back(runner.run(x, sigma));
  ASSERT_EQ(runner.graphs(), 1u);
  EXPECT_GT(relative(results[2], results[1].cpu()), 1e-4);
  EXPECT_EQ(relative(results[3], results[1].cpu()), 0);  // and results are the caller's own
}

TEST(RunnerGpu, shapes_take_turns) {
  TESSERA_NEEDS_GPU();
  const Network network = narrow("unet");
  Runner graphed(network, {.device = kGpu}), plain(network, {.graphs = false, .device = kGpu});
  for (int round = 0; round < 3; ++round)
    for (const std::int64_t width : {16, 48, 32}) {
      const at::Tensor x = on_gpu(at::rand({1, 3, 32, width})).transpose(2, 3);  // any strides
      EXPECT_LT(relative(graphed.run(x, 0.1), plain.run(x, 0.1).cpu()), 1e-5) << round << ' ' << width;
    }
  EXPECT_EQ(graphed.graphs(), 3u);
}

TEST(RunnerGpu, what_cannot_be_captured_runs_as_it_is) {
  TESSERA_NEEDS_GPU();
  GraphedPasses passes(kGpu, at::TensorOptions().dtype(at::kFloat).device(c10::Device(c10::kCUDA, 0)), 2);
  const auto waits = [](const at::Tensor& x, const at::Tensor& level) {
    return x * level *
           static_cast<double>(x.numel() == x.sum().item<double>() ? 2 : 3);  // reads from the device
  };
  const at::Tensor x = on_gpu(at::ones({1, 1, 4, 4}));
  for (int call = 0; call < 3; ++call)
    EXPECT_EQ(passes.run(x, 0.5, waits).sum().item<double>(), 16) << "call " << call;
  EXPECT_EQ(passes.captured(), 0u);
  EXPECT_FALSE(passes.complaint().empty());
  // Random numbers, and memory that must be found again: what a broken capture of torch's spoils.
  EXPECT_EQ(on_gpu(x).normal_().numel(), 16);
  EXPECT_NO_THROW(c10::cuda::CUDACachingAllocator::emptyCache());
  // A capture that failed does not spoil the next shape's; beyond the second nothing is captured.
  const auto doubles = [](const at::Tensor& in, const at::Tensor& level) { return in * level * 2; };
  for (const std::int64_t side : {5, 6})
    for (int call = 0; call < 3; ++call)
      EXPECT_EQ(passes.run(on_gpu(at::ones({1, 1, side, side})), 0.5, doubles).sum().item<double>(),
                static_cast<double>(side * side));
  EXPECT_EQ(passes.captured(), 1u);
}

// Memory for a tenth of the image at a time: a warning, smaller windows, the same result.
TEST(RunnerGpu, out_of_memory_goes_on_with_smaller_windows) {
  TESSERA_NEEDS_GPU();
  const Network network = narrow("dncnn");
  const at::Tensor image = at::rand({3, 2048, 2048});
  const Decomposition d(Box::image2d(2048, 2048), {1, 1, 1}, {1, 1, 1});
  const DenoiserContext context{d, ImageSpace(d.image(), 3), Communicator(),
                                make_transport(Communicator(), kGpu, TransportKind::mpi)};
  const at::Tensor in = on_gpu(image);
  at::Tensor want = at::empty_like(in), got = at::empty_like(in);
  make_network_denoiser(network, {.patch = 256, .device = kGpu}, context)->apply(in, 0.1, want);
  c10::cuda::CUDACachingAllocator::emptyCache();
  std::size_t free = 0, total = 0;
  ASSERT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  const auto held = c10::cuda::CUDACachingAllocator::getDeviceStats(0).reserved_bytes[0].current;
  c10::cuda::CUDACachingAllocator::setMemoryFraction(
      (static_cast<double>(held) + 0.6e9) / static_cast<double>(total), 0);
  make_network_denoiser(network, {.patch = 2048, .device = kGpu}, context)->apply(in, 0.1, got);
  c10::cuda::CUDACachingAllocator::setMemoryFraction(1, 0);
  EXPECT_LT(relative(got, want.cpu()), 1e-5);
}

TEST(RunnerGpu, deterministic_runs_give_the_same_bits) {
  TESSERA_NEEDS_GPU();
  const Network network = narrow("drunet");
  const at::Tensor x = on_gpu(at::rand({1, 3, 64, 64}));
  const auto once = [&] { return Runner(network, {.deterministic = true, .device = kGpu}).run(x, 0.1); };
  const at::Tensor first = once();
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(once().equal(first));
}

TEST(RunnerGpu, tensors_are_counted) {
  TESSERA_NEEDS_GPU();
  track_device_memory();
  const std::int64_t before = memory_now();
  at::Tensor x = on_gpu(at::ones({1 << 20}));
  EXPECT_GE(memory_now(), before + (1 << 22));
  x.reset();
  EXPECT_EQ(memory_now(), before);
}

TEST(ViewGpu, names_the_current_stream) {
  TESSERA_NEEDS_GPU();
  const at::Tensor x = on_gpu(at::rand({3, 4, 5}));
  const Box box = Box::image2d(4, 5);
  EXPECT_EQ(view(x, box).stream, nullptr);
  const c10::cuda::CUDAStream side = c10::cuda::getStreamFromPool(false, 0);
  const c10::cuda::CUDAStreamGuard guard(side);
  EXPECT_EQ(view(x, box).stream, side.stream());
}

}  // namespace
}  // namespace tessera
