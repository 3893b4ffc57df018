// SPDX-License-Identifier: BSD-3-Clause
// What cuDNN has for every convolution of every network, asked without a GPU: its lists for described
// devices.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <map>

#include "cudnn_devices.hpp"
#include "engines/cudnn_graph.hpp"
#include "run/convolution_problems.hpp"
#include "tessera/core/error.hpp"
#include "tessera/denoise/layer_engines.hpp"
#include "tessera/denoise/layer_schedule.hpp"
#include "tessera/denoise/network.hpp"
#include "tessera/denoise/pass_plan.hpp"

namespace tessera {
namespace {

constexpr std::int64_t kMany = std::int64_t{1} << 31;  // elements, where 32-bit indices end

constexpr std::array<Precision, 4> kPrecisions = {Precision::float32, Precision::tf32, Precision::bfloat16,
                                                  Precision::float16};

NetworkOptions color(const char* name) {
  NetworkOptions options;
  options.name = name;
  options.channels = 3;
  return options;
}

std::int64_t elements(const std::array<std::int64_t, 4>& s) { return s[0] * s[1] * s[2] * s[3]; }

class CudnnEngines : public testing::Test {
 protected:
  void SetUp() override {
    if (std::getenv("TESSERA_NO_STUB"))
      GTEST_SKIP() << "the CUDA toolkit has no stub libcuda (cuDNN leaves out what it compiles at run time)";
  }
};

// Tensor cores wherever products may be rounded, up to blocks of 16384 x 16384; workspace within the bound
// that the memory model counts. (Each question takes some 20 ms: where devices and networks say the same, one
// asks.)
TEST_F(CudnnEngines, every_convolution_has_one_and_16_bits_and_tf32_have_tensor_cores) {
  struct Case {
    std::size_t device;
    const char* network;
    std::vector<std::int64_t> sides;
    std::vector<std::size_t> arithmetics;
  };
  std::size_t asked = 0;
  for (const Case& c : {Case{1, "drunet", {4096, 16384}, {0, 1, 2}},
                        {1, "drunet", {256}, {3}},
                        {1, "unet", {16384}, {2}},
                        {1, "dncnn", {16384}, {0}},
                        {1, "scunet", {4096}, {2}},
                        {0, "drunet", {4096}, {1, 2}},
                        {2, "drunet", {4096}, {2}}}) {
    const CudnnDevice device = CudnnDevice::described(test::json(test::kDevices[c.device]));
    for (const std::size_t a : c.arithmetics)
      for (const std::int64_t side : c.sides)
        for (const auto& [problem, layers] :
             convolution_problems(color(c.network), kPrecisions[a], side, side)) {
          ConvolutionProblem p = problem;
          SCOPED_TRACE(concat(test::kDevices[c.device].name, ", ", c.network, ": ", text(p)));
          const std::vector<CudnnEngine> engines = cudnn_engines(p, device);
          ++asked;
          if (!p.reduced() && p.other && elements(p.y()) >= kMany)
            continue;  // two passes, see ConvolutionLayer
          ASSERT_FALSE(engines.empty());
          EXPECT_EQ(engines.front().tensor_cores, p.reduced());
          for (const CudnnEngine& e : engines) EXPECT_LE(e.workspace, kCudnnWorkspace);
        }
  }
  EXPECT_GT(asked, 100u);
}

// The table of `tessera study kernels`.
TEST_F(CudnnEngines, of_the_layers_are_listed_with_their_work) {
  const std::vector<LayerEngine> list =
      layer_engines(color("drunet"), Precision::bfloat16, 4096, 4096, test::json(test::kDevices[1]));
  std::int64_t layers = 0;
  double operations = 0, before = list.front().operations;
  for (const LayerEngine& e : list) {
    EXPECT_TRUE(e.engine >= 0 && e.engines > 0 && e.tensor_cores) << e.convolution;
    EXPECT_LE(e.workspace, kCudnnWorkspace) << e.convolution;
    EXPECT_LE(e.operations, before) << "the most work first";
    before = e.operations;
    layers += e.layers;
    operations += e.operations;
  }
  EXPECT_EQ(layers, 64);
  EXPECT_NEAR(operations, 71e12, 1e12);  // docs/gpu.md
  const std::string table = engine_table(list);
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), static_cast<std::ptrdiff_t>(list.size()));
  std::cout << table << '\n';
}

// What docs/gpu.md counts: passes of DRUNet, and the elements that they read and write per pixel of the
// image.
TEST(Passes, of_drunet_are_as_documented) {
  NetworkOptions options;
  options.channels = 3;
  const Graph graph = without_batch_norms(make_graph(options));
  struct Count {
    int convolutions = 0, sums = 0, others = 0;
    double elements = 0;
  };
  const auto count = [&](bool fused) {
    const PassPlan plan = make_pass_plan(graph, fused);
    std::map<int, int> level;  // by slot
    Count c;
    for (const Step& step : plan.steps) {
      const Node& n = step.node;
      level[step.out] = n.level;
      if (n.op == Op::input || n.op == Op::sigma_map) continue;
      const auto elements = [&](int slot) {
        return static_cast<double>(plan.channels[static_cast<std::size_t>(slot)]) /
               static_cast<double>(1 << 2 * level[slot]);
      };
      const bool convolution = is_convolution(n.op);
      c.convolutions += convolution;
      c.sums += convolution && step.other >= 0;
      c.others += !convolution;
      for (const int in : n.inputs) c.elements += elements(in);
      if (step.other >= 0) c.elements += elements(step.other);
      c.elements += elements(step.out);
    }
    return c;
  };
  const Count apart = count(false), together = count(true);
  EXPECT_EQ(apart.convolutions, 64);
  EXPECT_EQ(together.convolutions, 64);
  EXPECT_EQ(together.sums, 28);
  EXPECT_EQ(apart.others, 33);  // 28 + 4 additions, and the image beside its noise level
  EXPECT_EQ(together.others, 5);
  EXPECT_DOUBLE_EQ(apart.elements, 7335);
  EXPECT_DOUBLE_EQ(together.elements, 5479);
}

// The same with the same bits every time.
TEST_F(CudnnEngines, deterministic_engines_exist) {
  const CudnnDevice device = CudnnDevice::described(test::json(test::kDevices[1]));
  for (const Precision precision : {Precision::float32, Precision::bfloat16})
    for (const auto& [problem, layers] : convolution_problems(color("drunet"), precision, 512, 512)) {
      ConvolutionProblem p = problem;
      p.deterministic = true;
      EXPECT_FALSE(cudnn_engines(p, device).empty()) << text(p);
    }
}

// Strips of mode layer: thin, and without zeros around them.
TEST_F(CudnnEngines, strips_have_engines) {
  const CudnnDevice device = CudnnDevice::described(test::json(test::kDevices[1]));
  for (const Precision precision : {Precision::float32, Precision::bfloat16})
    for (const auto& [problem, layers] : convolution_problems(color("drunet"), precision, 512, 512)) {
      ConvolutionProblem p = problem;
      if (p.w[2] != 3) continue;
      for (const auto& [height, width] : {std::pair<std::int64_t, std::int64_t>{3, 514}, {512, 3}}) {
        p.x = {2, p.x[1], height, width};
        p.padding = {0, 0};
        p.other = false;
        EXPECT_FALSE(cudnn_engines(p, device).empty()) << text(p);
      }
    }
}

}  // namespace
}  // namespace tessera
