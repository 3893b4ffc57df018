// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/denoise/runner.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "tessera/core/error.hpp"
#include "tessera/denoise/pass_plan.hpp"

namespace tessera {
namespace {

NetworkOptions narrow(const std::string& name, std::int64_t channels) {
  NetworkOptions o;
  o.name = name;
  o.channels = channels;
  o.widths = name == "dncnn" || name == "ffdnet" ? std::vector<std::int64_t>{16}
                                                 : std::vector<std::int64_t>{8, 16, 24, 32};
  o.blocks = 2;
  o.depth = 6;
  o.head = 4;
  if (name == "restormer") {
    o.widths = {8, 16, 32, 64};
    o.head = 8;
  }
  return o;
}

// What the definition gives, in the type of x.
at::Tensor reference(const Network& network, const at::Tensor& x, double sigma) {
  std::map<std::string, at::Tensor> weights;
  for (const auto& [name, weight] : network.weights) weights[name] = weight.to(x.scalar_type());
  return evaluate(network.graph, weights, x, at::full({x.size(0)}, sigma, x.options()));
}

double relative(const at::Tensor& a, const at::Tensor& b) {
  return ((a - b).abs().max() / b.abs().max()).item<double>();
}

struct Case {
  const char* network;
  std::int64_t channels;
};

TEST(Runner, equals_the_definition) {
  at::manual_seed(1);
  for (const Case& c : {Case{"drunet", 3},
                        {"drunet", 1},
                        {"unet", 3},
                        {"dncnn", 1},
                        {"gsdrunet", 3},
                        {"ffdnet", 3},
                        {"scunet", 3},
                        {"restormer", 3}}) {
    const Network network = random_network(narrow(c.network, c.channels), 7);
    const std::int64_t a = std::max<std::int64_t>(network.alignment()[1], 8);
    for (const auto& sizes :
         {std::vector<std::int64_t>{1, c.channels, 2 * a, 3 * a}, {3, c.channels, a, 2 * a}}) {
      SCOPED_TRACE(testing::Message() << c.network << ' ' << sizes[0] << " x " << sizes[2]);
      const at::Tensor x = at::rand(sizes, at::kDouble);
      const at::Tensor want = reference(network, x, 0.1);
      ASSERT_GT(want.std().item<double>(), 1e-6);  // else nothing is compared

      const double rounding = relative(reference(network, x.to(at::kFloat), 0.1).to(at::kDouble), want);
      EXPECT_LT(rounding, 1e-4);
      Runner exact(network, {.type = at::kDouble});
      EXPECT_LT(relative(exact.run(x, 0.1), want), 1e-12);
      for (const bool fused : {true, false}) {
        Runner single(network, {.type = at::kFloat, .fused = fused});
        const at::Tensor y = single.run(x.to(at::kFloat), 0.1);
        EXPECT_EQ(y.scalar_type(), at::kFloat);
        // Random weights magnify rounding, those of gsdrunet there and back: what float32 is worth there.
        EXPECT_LT(relative(y.to(at::kDouble), want), std::max(3e-6, 5 * rounding));
      }
      for (const auto& [type, least, magnified] :  // 16 and 13 bits fewer, magnified alike
           {std::tuple{at::kBFloat16, 0.1, 65536}, std::tuple{at::kHalf, 0.0125, 8192}}) {
        if (type == at::kHalf && want.abs().max().item<double>() > 1e4)
          continue;  // random weights leave its range
        Runner half(network, {.type = type});
        EXPECT_LT(relative(half.run(x.to(at::kFloat), 0.1).to(at::kDouble), want),
                  std::max(least, magnified * rounding))
            << c10::toString(type);
      }
    }
  }
}

TEST(Runner, leaves_its_input_and_earlier_results_alone) {
  const Network network = random_network(narrow("drunet", 3), 1);
  Runner runner(network, {});
  const at::Tensor x = at::rand({1, 3, 32, 32}), before = x.clone();
  const at::Tensor first = runner.run(x, 0.2), kept = first.clone();
  const at::Tensor second = runner.run(x, 0.05);
  EXPECT_TRUE(x.equal(before));
  EXPECT_TRUE(first.equal(kept));
  EXPECT_FALSE(second.equal(kept));  // sigma counts
  EXPECT_TRUE(runner.run(x, 0.2).equal(kept));
}

TEST(Runner, takes_channels_last_and_views) {
  const Network network = random_network(narrow("dncnn", 3), 1);
  Runner runner(network, {});
  const at::Tensor big = at::rand({1, 3, 40, 40});
  const at::Tensor part = big.narrow(2, 3, 20).narrow(3, 5, 21), before = big.clone();
  const at::Tensor want = runner.run(part.contiguous(), 0);
  EXPECT_TRUE(runner.run(part, 0).equal(want));
  const at::Tensor last = part.contiguous(at::MemoryFormat::ChannelsLast), kept = last.clone();
  EXPECT_TRUE(runner.run(last, 0).equal(want));
  EXPECT_TRUE(last.equal(kept));
  EXPECT_TRUE(big.equal(before));
}

// Windows keep their cores alone: nobody may notice but the clock.
TEST(Runner, computes_a_part_of_its_result) {
  at::manual_seed(3);
  for (const Case& c : {Case{"drunet", 3}, {"gsdrunet", 1}, {"unet", 3}, {"dncnn", 1}, {"ffdnet", 3}}) {
    NetworkOptions options = narrow(c.network, c.channels);
    if (options.widths.size() > 1)
      options.widths = {16, 16, 32, 48};  // wide enough for layers that compute parts
    const Network network = random_network(options, 7);
    Runner runner(network, {});
    const std::int64_t a = std::max<std::int64_t>(network.alignment()[1], 8);
    const at::Tensor x = at::rand({c.channels == 1 ? 2 : 1, c.channels, 15 * a, 12 * a});
    const at::Tensor all = runner.run(x, 0.1).clone();
    const std::int64_t rows = x.size(2), columns = x.size(3);
    for (const Box& core : {Box({0, 7 * a, 6 * a - 3}, {1, 8 * a, 6 * a}),  // far from every border
                            Box::image2d(rows, columns), Box({0, 0, 3}, {1, a, 2 * a + 1}),
                            Box({0, rows - 1, 0}, {1, rows, columns}),
                            Box({0, a + 1, columns - 2 * a}, {1, 10 * a - 3, columns})}) {
      SCOPED_TRACE(testing::Message() << c.network << ", " << core);
      const at::Tensor want =
          all.narrow(2, core.lo()[1], core.extent(1)).narrow(3, core.lo()[2], core.extent(2));
      const at::Tensor part = runner.run(x, 0.1, {}, nullptr, core);
      ASSERT_EQ(part.sizes(), want.sizes());
      EXPECT_LT(((part - want).abs().max() / all.abs().max()).item<double>(), 2e-5);
      EXPECT_TRUE(runner.run(x, 0.1, {}, nullptr, core).equal(part));
    }
    EXPECT_TRUE(runner.run(x, 0.1).equal(all));
  }
}

TEST(Runner, computes_no_more_than_a_core_needs) {
  const Network network =
      random_network({.name = "drunet", .channels = 1, .widths = {16, 32, 48, 64}, .blocks = 1}, 1);
  const PassPlan plan = make_pass_plan(network.graph, /*fuse_add=*/true);
  const Box window = Box::image2d(160, 112), core({0, 48, 0}, {1, 112, 64});
  const std::vector<Box> parts =
      computed_parts(plan, window, core, std::vector<bool>(plan.steps.size(), true));
  // Of the first feature, and of the last one, which the tail reads; columns begin at the image's.
  const auto of = [&](std::size_t step) { return parts[static_cast<std::size_t>(plan.steps[step].out)]; };
  std::size_t head = 0, last = plan.steps.size() - 2;
  while (plan.steps[head].node.op != Op::conv) ++head;
  EXPECT_EQ(of(head), Box({0, 2, 0}, {1, 158, 110}));
  EXPECT_EQ(of(last), Box({0, 47, 0}, {1, 113, 65}));
  EXPECT_EQ(of(plan.steps.size() - 1), core);
  // A layer that cannot: all of it, and all that it reads.
  std::vector<bool> can(plan.steps.size(), true);
  can[last] = false;
  EXPECT_EQ(computed_parts(plan, window, core, can)[static_cast<std::size_t>(plan.steps[last].out)], window);
}

TEST(Runner, one_packing_serves_every_size) {
  const Network network = random_network(narrow("drunet", 1), 5);
  Runner runner(network, {});
  for (const std::int64_t side : {64, 8, 40, 16}) {
    const at::Tensor x = at::rand({1, 1, side, 24});
    EXPECT_LT(relative(runner.run(x, 0.1), reference(network, x, 0.1)), 1e-5) << side;
  }
}

TEST(Runner, calls_between_layers_and_takes_an_empty_batch) {
  const Network network = random_network(narrow("drunet", 1), 5);
  Runner runner(network, {});
  int calls = 0;
  runner.run(at::rand({1, 1, 8, 8}), 0.1, [&] { ++calls; });
  EXPECT_GT(calls, 20);
  EXPECT_EQ(runner.run(at::rand({0, 1, 8, 8}), 0.1).size(0), 0);
}

TEST(Runner, refuses_tf32_on_a_cpu) {
  EXPECT_THROW(Runner(random_network(narrow("dncnn", 1), 1), {.tf32 = true}), InputError);
}

}  // namespace
}  // namespace tessera
