// SPDX-License-Identifier: BSD-3-Clause
// A layer that the program knows nothing of: its name, what it reads, its weight and evaluate(), here alone.
#include <ATen/TensorOperators.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "support/groups.hpp"
#include "support/once.hpp"
#include "tessera/core/error.hpp"
#include "tessera/denoise/denoiser_table.hpp"
#include "tessera/denoise/layer.hpp"
#include "tessera/denoise/network_denoiser.hpp"
#include "tessera/denoise/runner.hpp"
#include "whole_image.hpp"

namespace tessera {
namespace {

constexpr std::int64_t kUp = 1, kRight = 3;  // pixels

/// x + w (x one row above + x three columns to the right).
class Smear final : public Layer {
 public:
  const char* name() const override { return "smear"; }
  Interval reads(const Node&, const Interval& out, std::size_t axis) const override {
    return axis == 1 ? Interval{out.lo - kUp, out.hi} : Interval{out.lo, out.hi + (axis == 2 ? kRight : 0)};
  }
  std::vector<NamedShape> weights(const Node& node, const Inputs&) const override {
    return {{node.weight, {node.channels, 1, 1}}};
  }
  at::Tensor evaluate(const Node& node, const std::vector<at::Tensor>& in,
                      const Evaluation& e) const override {
    const at::Tensor& x = in[0];
    const std::int64_t rows = x.size(2), columns = x.size(3);
    const at::Tensor wide = at::constant_pad_nd(x, {0, kRight, kUp, 0});
    return x + e.weight(node.weight) * (wide.narrow(2, 0, rows).narrow(3, 0, columns) +
                                        wide.narrow(2, kUp, rows).narrow(3, kRight, columns));
  }
};

Op smear() {
  static const Op op = add_layer(std::make_unique<Smear>());
  return op;
}

Graph make_smeared(const NetworkOptions& options) {
  Graph g;
  int x = g.add({.op = Op::input, .channels = options.channels});
  const auto conv = [&](std::int64_t channels, const std::string& name) {
    x = g.add({.op = Op::conv, .inputs = {x}, .channels = channels, .kernel = 3, .weight = name + ".weight"});
  };
  conv(16, "first");
  x = g.add({.op = Op::relu, .inputs = {x}});
  x = g.add({.op = Op::conv_down, .inputs = {x}, .channels = 16, .weight = "down.weight"});
  x = g.add({.op = smear(), .inputs = {x}, .weight = "smear.weight"});
  conv(16, "middle");
  x = g.add({.op = Op::conv_up, .inputs = {x}, .channels = 8, .weight = "up.weight"});
  x = g.add({.op = smear(), .inputs = {x}, .weight = "smear_2.weight"});
  conv(options.channels, "last");
  return g;
}

Network network() {
  static const bool added = [] {
    denoiser_table().push_back({.name = "smeared", .takes_sigma = false, .graph = make_smeared});
    return true;
  }();
  return added ? random_network({.name = "smeared", .channels = 1}, 4) : Network{};
}

TEST(OwnLayer, has_its_name_and_shares_it_with_none) {
  if (test::other_rank()) return;
  EXPECT_EQ(op_named("smear"), smear());
  EXPECT_STREQ(word(smear()), "smear");
  EXPECT_EQ(op_named("smeer"), std::nullopt);
  EXPECT_THROW(add_layer(std::make_unique<Smear>()), ContractError);
  for (const Op op : all_ops()) EXPECT_EQ(op_named(word(op)), op);
}

TEST(OwnLayer, tells_reach_and_alignment) {
  if (test::other_rank()) return;
  const Network n = network();
  EXPECT_EQ(n.alignment(), (Index3{1, 2, 2}));
  // Of smear and convolution of the image's level, twice those of the other, a convolution; one at most for the edge
  // of a pair.
  const Index3 reach = n.graph.reach();
  EXPECT_EQ(reach[0], 0);
  for (const auto& [axis, own] : {std::pair<std::size_t, std::int64_t>{1, kUp}, {2, kRight}}) {
    EXPECT_GE(reach[axis], own + 1 + 2 * (own + 1) + 1) << axis;
    EXPECT_LE(reach[axis], own + 1 + 2 * (own + 1) + 2) << axis;
  }
}

TEST(OwnLayer, runs_as_it_is_defined) {
  if (test::other_rank()) return;
  const Network n = network();
  const at::Tensor image = test::picture(1, 40, 36, at::kDouble), want = test::whole(n, image, test::kSigma);
  Runner exact(n, {.type = at::kDouble}), single(n, {});
  const auto error = [&](const at::Tensor& y) {
    return ((y.to(at::kDouble)[0] - want).abs().max() / want.abs().max()).item<double>();
  };
  EXPECT_LT(error(exact.run(image.unsqueeze(0), test::kSigma)), 1e-12);
  EXPECT_LT(error(single.run(image.to(at::kFloat).unsqueeze(0), test::kSigma)), 1e-5);
}

TEST(OwnLayer, equals_the_whole_image_on_any_ranks) {
  const Network n = network();
  const at::Tensor image = test::picture(1, 41, 35, at::kDouble);
  const at::Tensor want = test::once([&] { return test::whole(n, image, test::kSigma); });
  test::on_groups([&](const Communicator& comm) {
    const test::Blocks s(comm, n, image);
    for (const ExecutionOptions& options :
         {ExecutionOptions{.type = at::kDouble},
          {.patch = 8, .type = at::kDouble},
          {.mode = ExecutionMode::layer, .type = at::kDouble, .halo_depth = 1},
          {.mode = ExecutionMode::layer, .type = at::kDouble, .halo_depth = 3}}) {
      const auto d = make_network_denoiser(n, options, s.context);
      EXPECT_LT(test::difference(s, *d, image, test::kSigma, want), 1e-10) << word(options.mode);
    }
  });
}

/// x + w x one slice before, of a volume.
class Drift final : public Layer {
 public:
  const char* name() const override { return "drift"; }
  Interval reads(const Node&, const Interval& out, std::size_t axis) const override {
    return {out.lo - (axis == 0 ? 1 : 0), out.hi};
  }
  std::vector<NamedShape> weights(const Node& node, const Inputs&) const override {
    return {{node.weight, {node.channels}}};
  }
  at::Tensor evaluate(const Node& node, const std::vector<at::Tensor>& in,
                      const Evaluation& e) const override {
    const at::Tensor before = at::constant_pad_nd(in[0], {0, 0, 0, 0, 1, -1});
    return in[0] + e.weight(node.weight).view({1, -1, 1, 1, 1}) * before;
  }
};

Graph make_drifting(const NetworkOptions& options) {
  static const Op drift = add_layer(std::make_unique<Drift>());
  Graph g;
  int x = g.add({.op = Op::input, .channels = options.channels, .axes = Axes::volume});
  for (const char* weight : {"one.weight", "two.weight"})
    x = g.add({.op = Op::relu, .inputs = {g.add({.op = drift, .inputs = {x}, .weight = weight})}});
  return g;
}

// What it reads is what its windows bring along: slices, and nothing across a cut along rows or columns.
TEST(OwnLayer, of_a_volume_reads_along_one_axis) {
  denoiser_table().push_back({.name = "drifting", .takes_sigma = false, .graph = make_drifting});
  const Network n = random_network({.name = "drifting", .channels = 2}, 4);
  EXPECT_EQ(n.graph.reach(), (Index3{2, 0, 0}));
  EXPECT_EQ(n.alignment(), (Index3{1, 1, 1}));
  const at::Tensor image = test::picture(2, 11 * 9, 8, at::kDouble).view({2, 11, 9, 8});
  const at::Tensor want = test::once([&] { return test::whole(n, image, test::kSigma); });
  test::on_groups({1, 2, 3, 5, 7}, [&](const Communicator& comm) {
    const int ranks = comm.size();
    for (const Grid3& grid : {Grid3{ranks, 1, 1}, Grid3{1, ranks, 1}, Grid3{1, 1, ranks}}) {
      const test::Blocks s(comm, n, image, grid);
      for (const ExecutionMode mode : {ExecutionMode::automatic, ExecutionMode::layer}) {
        const auto d = make_network_denoiser(n, {.mode = mode, .type = at::kDouble}, s.context);
        EXPECT_LT(test::difference(s, *d, image, test::kSigma, want), 1e-12) << word(mode);
        double sent = static_cast<double>(d->bytes_sent());
        comm.all_reduce({&sent, 1}, Reduce::sum);
        if (mode == ExecutionMode::automatic) {
          EXPECT_EQ(sent > 0, grid[0] > 1);
        }
      }
    }
  });
}

}  // namespace
}  // namespace tessera
