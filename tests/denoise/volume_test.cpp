// SPDX-License-Identifier: BSD-3-Clause
// Networks on volumes, on 1, 2, 3, 5 and 7 ranks, against their definition on the whole padded volume.
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "support/groups.hpp"
#include "support/once.hpp"
#include "tessera/core/error.hpp"
#include "tessera/core/memory.hpp"
#include "tessera/core/phase.hpp"
#include "tessera/denoise/layer_schedule.hpp"
#include "tessera/denoise/layer_traffic.hpp"
#include "tessera/denoise/memory_model.hpp"
#include "tessera/denoise/network_denoiser.hpp"
#include "tessera/denoise/network_work.hpp"
#include "tessera/denoise/planes.hpp"
#include "tessera/denoise/runner.hpp"
#include "tessera/domain/tensor_memory.hpp"
#include "whole_image.hpp"
#include "winograd/winograd.hpp"

namespace tessera {
namespace {

using test::kSigma;
using test::once;
using test::picture;

/// (C, D, H, W).
at::Tensor volume(std::int64_t channels, const Index3& size, at::ScalarType type = at::kDouble) {
  return picture(channels, size[0] * size[1], size[2], type).view({channels, size[0], size[1], size[2]});
}

Network small(const std::string& name, std::int64_t channels = 1) {
  NetworkOptions o{.name = name, .channels = channels, .blocks = 1, .depth = 4};
  o.widths = name == "dncnn3d" ? std::vector<std::int64_t>{5} : std::vector<std::int64_t>{3, 4};
  return random_network(o, 3);
}

/// All layers that volumes may have, in a list as a file has it.
Network listed() {
  const std::string layers = R"([{"op":"input","channels":2,"axes":3},
    {"op":"sigma_map"}, {"op":"concat","inputs":[0,1]},
    {"op":"conv","inputs":[2],"channels":4,"kernel":3,"weight":"a.weight","bias":"a.bias"},
    {"op":"max_pool","inputs":[3]}, {"op":"layer_norm","inputs":[4],"weight":"b"},
    {"op":"conv","inputs":[5],"channels":4,"kernel":3,"weight":"c.weight","depthwise":true},
    {"op":"gelu","inputs":[6]}, {"op":"scale_norm","inputs":[7],"weight":"d"},
    {"op":"conv","inputs":[8],"channels":8,"kernel":1,"weight":"e.weight"}, {"op":"gelu_gate","inputs":[9]},
    {"op":"elu","inputs":[10]}, {"op":"upsample","inputs":[11]}, {"op":"subtract","inputs":[3,12]},
    {"op":"conv","inputs":[13],"channels":2,"kernel":3,"weight":"f.weight","bias":"f.bias"},
    {"op":"add","inputs":[14,0]}])";
  return random_network({.name = "traced", .channels = 2, .layers = layers}, 5);
}

at::Tensor defined(const Network& network, const at::Tensor& x) {
  std::map<std::string, at::Tensor> weights;
  for (const auto& [name, weight] : network.weights) weights[name] = weight.to(x.scalar_type());
  return evaluate(network.graph, weights, x, at::full({x.size(0)}, kSigma, x.options()));
}
double relative(const at::Tensor& a, const at::Tensor& b) {
  return ((a.to(at::kDouble) - b).abs().max() / b.abs().max()).item<double>();
}

TEST(Volume, the_runner_gives_what_is_defined) {
  if (test::other_rank()) return;
  for (const Network& network : {small("dncnn3d"), small("drunet3d", 2), listed()}) {
    const std::int64_t channels = network.channels();
    SCOPED_TRACE(network.options.name);
    for (const auto& [items, size] : {std::pair<std::int64_t, Index3>{1, {4, 8, 12}}, {2, {12, 4, 8}}}) {
      const at::Tensor x = volume(items * channels, size).view({items, channels, size[0], size[1], size[2]});
      const at::Tensor want = defined(network, x);
      ASSERT_GT(want.std().item<double>(), 1e-6);
      Runner exact(network, {.type = at::kDouble}), single(network, {}),
          half(network, {.type = at::kBFloat16});
      EXPECT_LT(relative(exact.run(x, kSigma), want), 1e-12);
      EXPECT_LT(relative(single.run(x.to(at::kFloat), kSigma), want), 1e-5);
      EXPECT_LT(relative(half.run(x.to(at::kFloat), kSigma), want), 0.3);
      const Box core({1, 2, 3}, {3, 4, 7});
      const at::Tensor part = exact.run(x, kSigma, {}, nullptr, core);
      EXPECT_LT(relative(part, want.narrow(2, 1, 2).narrow(3, 2, 2).narrow(4, 3, 4)), 1e-11);
    }
  }
}

TEST(Volume, equals_the_whole_on_any_ranks_and_any_cut) {
  for (const Network& network : {small("dncnn3d"), small("drunet3d", 2), listed()})
    for (const Index3& size : {Index3{13, 18, 9}, Index3{3, 20, 14}}) {
      const at::Tensor image = volume(network.channels(), size);
      const at::Tensor want = once([&] { return test::whole(network, image, kSigma); });
      const auto compare = [&](const test::Blocks& s, const std::string& how) {
        SCOPED_TRACE(testing::Message() << network.options.name << ' ' << how);
        for (const std::int64_t patch : {0, 4, 8}) {
          const auto d =
              make_network_denoiser(network, {.patch = patch, .batch = 2, .type = at::kDouble}, s.context);
          EXPECT_LT(test::difference(s, *d, image, kSigma, want), 1e-10) << d->description();
        }
        const auto layers =
            make_network_denoiser(network, {.mode = ExecutionMode::layer, .type = at::kDouble}, s.context);
        for (int call = 0; call < 2; ++call)
          EXPECT_LT(test::difference(s, *layers, image, kSigma, want), 1e-10) << layers->description();
        const auto single = make_network_denoiser(network, {}, s.context);
        EXPECT_LT(test::difference(s, *single, image.to(at::kFloat), kSigma, want.to(at::kFloat)), 1e-5);
      };
      test::on_groups({1, 2, 3, 5, 7}, [&](const Communicator& comm) {
        compare(test::Blocks(comm, network, image), "on the grid of a run");
        const int n = comm.size();
        for (const Grid3& grid : {Grid3{n, 1, 1}, Grid3{1, n, 1}, Grid3{1, 1, n}})
          if (n > 1) compare(test::Blocks(comm, network, image, grid), "on a given grid");
      });
    }
}

// Channels enough for Winograd's kernels, whose tiles lie elsewhere in every window and block.
TEST(Volume, fast_convolutions_equal_the_whole_on_any_cut) {
  const Network network =
      random_network({.name = "drunet3d", .channels = 1, .widths = {16, 20}, .blocks = 1}, 3);
  const at::Tensor image = volume(1, {13, 18, 10}), single = image.to(at::kFloat);
  const at::Tensor want = once([&] { return test::whole(network, image, kSigma).to(at::kFloat); });
  test::on_groups({1, 2, 3, 5}, [&](const Communicator& comm) {
    const int n = comm.size();
    for (const Grid3& grid : {Grid3{n, 1, 1}, Grid3{1, n, 1}, Grid3{1, 1, n}}) {
      const test::Blocks s(comm, network, image, grid);
      for (const ExecutionOptions& options :
           {ExecutionOptions{}, {.patch = 4, .batch = 2}, {.mode = ExecutionMode::layer}}) {
        const auto d = make_network_denoiser(network, options, s.context);
        EXPECT_LT(test::difference(s, *d, single, kSigma, want), 1e-5) << d->description();
      }
    }
  });
}

/// The mean of the network over all flips, and all orders of the axes that take each to one of its kind.
at::Tensor mean_over_turns(const Network& network, const at::Tensor& image, const std::array<int, 3>& kind,
                           bool exchanges) {
  std::array<std::int64_t, 3> order{0, 1, 2};
  at::Tensor sum = at::zeros_like(image);
  double count = 0;
  do {
    bool fits = exchanges || std::is_sorted(order.begin(), order.end());
    std::vector<std::int64_t> axes{0}, back{0, 0, 0, 0};
    for (std::size_t d = 0; d < 3; ++d) {
      const auto from = static_cast<std::size_t>(order[d]);
      fits = fits && kind[d] == kind[from];
      axes.push_back(order[d] + 1);
      back[from + 1] = static_cast<std::int64_t>(d) + 1;
    }
    for (int mask = 0; fits && mask < 8; ++mask) {
      std::vector<std::int64_t> flips;
      for (int d = 0; d < 3; ++d)
        if (mask & (1 << d)) flips.push_back(d + 1);
      const at::Tensor turned = test::padded(network, image)[0].permute(axes).flip(flips);
      const at::Tensor y = defined(network, turned.unsqueeze(0))[0].flip(flips).permute(back);
      sum += y.narrow(1, 0, image.size(1)).narrow(2, 0, image.size(2)).narrow(3, 0, image.size(3));
      ++count;
    }
  } while (std::next_permutation(order.begin(), order.end()));
  return sum / count;
}

TEST(Volume, averages_over_the_turns_of_a_cube_or_those_that_keep_an_axis) {
  const Network network = small("drunet3d");
  const at::Tensor image = volume(1, {5, 6, 9});
  for (const auto& [kind, count] : {std::pair<std::array<int, 3>, int>{{1, 1, 1}, 48},
                                    {{1, 2, 2}, 16},
                                    {{1, 1, 3}, 16},
                                    {{1, 2, 1}, 16},
                                    {{1, 2, 3}, 8}}) {
    const Turns turns{kind};
    EXPECT_EQ(turns.all(), count);
    EXPECT_EQ(turns.flips(), 8);
    const at::Tensor flips = once([&] { return mean_over_turns(network, image, kind, false); });
    const at::Tensor all = once([&] { return mean_over_turns(network, image, kind, true); });
    if (count > 8) EXPECT_GT((flips - all).abs().max().item<double>(), 1e-8);
    test::on_groups({1, 3}, [&](const Communicator& comm) {
      const test::Blocks s(comm, network, image);
      for (const ExecutionOptions& options :
           {ExecutionOptions{}, {.patch = 4, .batch = 2}, {.mode = ExecutionMode::layer}}) {
        const bool layer = options.mode == ExecutionMode::layer;
        if (count != 48 && layer != (comm.size() == 3)) continue;
        const auto with = [&](Averaging averaging) {
          ExecutionOptions o = options;
          o.averaging = averaging;
          o.turns = turns;
          o.type = at::kDouble;
          return make_network_denoiser(network, o, s.context);
        };
        EXPECT_LT(test::difference(s, *with(Averaging::flips), image, kSigma, flips), 1e-10)
            << word(options.mode);
        const auto mean = with(Averaging::all);
        EXPECT_LT(test::difference(s, *mean, image, kSigma, all), 1e-10) << word(options.mode);
        if (layer)  // which keeps some of the turned networks and not others
          EXPECT_LT(test::difference(s, *mean, image, kSigma, all), 1e-10) << "once more";
        if (layer || options.patch > 0) continue;
        const auto cycle = with(Averaging::cycle);  // as many calls as turns have the same mean
        at::Tensor in = s.part(image), out = at::empty_like(in), sum = at::zeros_like(in);
        for (int call = 0; call < count; ++call) {
          cycle->apply(in, kSigma, out);
          sum += out;
        }
        if (in.numel() > 0) EXPECT_LT((sum / count - s.part(all)).abs().max().item<double>(), 1e-10);
      }
    });
  }
}

TEST(Volume, turns_follow_the_spacing) {
  ImageSpace image(Box({0, 0, 0}, {20, 20, 20}));
  const auto turns = [&](double z, double y, double x, const std::string& unit_z = "mm") {
    for (std::size_t d = 0; d < 3; ++d) image.grid[d].unit = d == 0 ? unit_z : "mm";
    image.grid[0].spacing = z, image.grid[1].spacing = y, image.grid[2].spacing = x;
    return default_turns(image);
  };
  EXPECT_EQ(turns(1, 1, 1.4).all(), 48);
  EXPECT_EQ(turns(3, 1, 1).kind, (std::array<int, 3>{1, 2, 2}));
  EXPECT_EQ(turns(1, 1, 3).kind, (std::array<int, 3>{1, 1, 3}));
  EXPECT_EQ(turns(1, 3, 1).kind, (std::array<int, 3>{1, 2, 1}));
  EXPECT_EQ(turns(1, 2, 4).all(), 8);
  EXPECT_EQ(turns(0, 0, 0).all(), 48);  // not known
  EXPECT_EQ(turns(3, 1, 1, "um").all(), 48);
  image = ImageSpace(Box({0, 0, 0}, {1, 20, 20}));
  EXPECT_EQ(turns(0, 1, 4).all(), 8);
  EXPECT_EQ(turns(0, 1, 4).flips(), 4);
}

// Every voxel once: in a strip with all that it reads, or inside, and then the block has that.
TEST(Volume, blocks_are_cut_into_an_inside_and_six_strips) {
  if (test::other_rank()) return;
  const Box padded({0, 0, 0}, {9, 11, 10});
  const auto holds = [](const Box& box, const Box& voxel) { return box.contains(voxel); };
  std::int64_t strips = 0;
  for (const Box& block : {Box({3, 0, 0}, {9, 6, 10}), Box({2, 3, 2}, {8, 9, 8}), padded})
    for (const std::int64_t reach : {1, 2}) {
      const BlockCut cut = cut_block(block, padded, {.reach = reach, .rim = {}, .axes = Axes::volume});
      for (std::int64_t z = block.lo()[0]; z < block.hi()[0]; ++z)
        for (std::int64_t y = block.lo()[1]; y < block.hi()[1]; ++y)
          for (std::int64_t x = block.lo()[2]; x < block.hi()[2]; ++x) {
            const Box voxel({z, y, x}, {z + 1, y + 1, x + 1});
            const Box reads = voxel.grow({{reach, reach, reach}, {reach, reach, reach}});
            const bool inside = holds(cut.inside, voxel);
            int times = inside;
            for (const Strip& strip : cut.strips)
              times += holds(strip.out, voxel) && strip.in.contains(reads);
            ASSERT_EQ(times, 1) << block << ": " << voxel;
            ASSERT_TRUE(!inside || block.contains(reads.intersect(padded)));
          }
      for (const Strip& strip : cut.strips) strips += !strip.out.empty();
    }
  EXPECT_GT(strips, 4);
}

TEST(Volume, one_unit_less_of_halo_differs) {
  if (test::other_rank()) return;
  const Network network = small("dncnn3d");
  const at::Tensor image = volume(1, {16, 15, 14}), want = test::whole(network, image, kSigma);
  const test::Blocks s(Communicator(), network, image);
  const auto error = [&](std::int64_t halo) {
    const auto d = make_network_denoiser(
        network, {.mode = ExecutionMode::patch, .patch = 3, .type = at::kDouble, .halo = halo}, s.context);
    return test::difference(s, *d, image, kSigma, want);
  };
  EXPECT_EQ(network.halo(), (Index3{4, 4, 4}));
  EXPECT_LT(error(4), 1e-13);
  EXPECT_GT(error(3), 1e-9);
}

TEST(Volume, sends_the_bytes_that_it_says) {
  const Network network = small("dncnn3d");
  const at::Tensor image = volume(1, {14, 10, 9}, at::kFloat);
  test::on_groups([&](const Communicator& comm) {
    const test::Blocks s(comm, network, image);
    for (const ExecutionMode mode : {ExecutionMode::automatic, ExecutionMode::layer}) {
      const ExecutionOptions options{.mode = mode};
      const auto d = make_network_denoiser(network, options, s.context);
      const at::Tensor in = s.part(image);
      at::Tensor out = at::zeros_like(in);
      take_phases();
      {
        const PhaseScope phase(Phase::denoise);
        d->apply(in, kSigma, out);
      }
      std::int64_t sent = 0;
      for (const PhaseRecord& record : take_phases()) sent += record.bytes_sent;
      EXPECT_EQ(sent, d->bytes_sent()) << word(mode);
      if (mode == ExecutionMode::layer) {
        EXPECT_EQ(sent,
                  LayerTraffic(network.graph, s.context.decomposition, options, 1).bytes_sent(comm.rank()));
      }
    }
  });
}

TEST(Volume, a_pass_takes_no_more_memory_than_the_model_says) {
  if (test::other_rank()) return;
  track_tensor_memory();
  for (const char* name : {"dncnn3d", "drunet3d"}) {
    const Network network =
        random_network({.name = name,
                        .widths = name == std::string("dncnn3d") ? std::vector<std::int64_t>{16}
                                                                 : std::vector<std::int64_t>{16, 24},
                        .blocks = 1,
                        .depth = 5},
                       1);
    Runner runner(network, {});
    const at::Tensor x = volume(3, {32, 40, 48}, at::kFloat).unsqueeze(0);
    for (int call = 0; call < 2; ++call) {
      const std::int64_t others = memory_now() - memory_now(MemoryUse::activations);
      memory_reset_peak();
      const at::Tensor y = runner.run(x, kSigma);
      const double ratio =
          static_cast<double>(memory_peak() - others) / static_cast<double>(runner.bytes(1, {32, 40, 48}));
      EXPECT_LE(ratio, 1.0) << name;
      EXPECT_GT(ratio, 0.5) << name;
      RecordProperty(name, std::to_string(ratio));
    }
    EXPECT_EQ(runner.bytes(1, {32, 40, 48}),
              MemoryModel(network, at::kFloat, true, {}).bytes(1, {32, 40, 48}));
  }
}

// J^T r by layers against a difference quotient of the layers themselves.
TEST(Volume, a_derivative_is_transposed) {
  if (test::other_rank()) return;
  Graph g;
  const int image = g.add({.op = Op::input, .channels = 2, .axes = Axes::volume});
  const int a = g.add({.op = Op::conv, .inputs = {image}, .channels = 3, .kernel = 3, .weight = "a"});
  int x = g.add({.op = Op::elu, .inputs = {a}});
  x = g.add({.op = Op::conv_down, .inputs = {x}, .channels = 4, .weight = "b"});
  x = g.add({.op = Op::conv, .inputs = {x}, .channels = 4, .kernel = 3, .weight = "c"});
  x = g.add({.op = Op::conv_up, .inputs = {x}, .channels = 3, .weight = "d"});
  x = g.add({.op = Op::add, .inputs = {x, a}});
  const int n = g.add({.op = Op::conv, .inputs = {x}, .channels = 2, .kernel = 3, .weight = "e"});
  const int r = g.add({.op = Op::subtract, .inputs = {image, n}});
  const int back = append_adjoint(g, image, n, r);
  g.add({.op = Op::concat, .inputs = {n, r, back}});
  std::map<std::string, at::Tensor> weights;
  double scale = 0;
  for (const auto& [name, shape] : weight_shapes(g)) {
    std::int64_t count = 1;
    for (const std::int64_t extent : shape) count *= extent;
    weights[name] = (picture(1, 1, count, at::kDouble).view(shape) - 0.5 + 0.01 * (scale += 1)) * 0.3;
  }
  const at::Tensor at0 = volume(2, {4, 6, 8}).unsqueeze(0),
                   u = volume(2, {8, 6, 8}).narrow(1, 4, 4).unsqueeze(0) - 0.5;
  const at::Tensor sigma = at::full({1}, 0.1, at::kDouble);
  const auto at_point = [&](const at::Tensor& p) { return evaluate(g, weights, p, sigma); };
  constexpr double kStep = 1e-5;
  const at::Tensor all = at_point(at0);
  const at::Tensor slope =
      (at_point(at0 + kStep * u) - at_point(at0 - kStep * u)).narrow(1, 0, 2) / (2 * kStep);
  const double want = (slope * all.narrow(1, 2, 2)).sum().item<double>();
  EXPECT_NEAR((u * all.narrow(1, 4, 2)).sum().item<double>(), want, 1e-6 * std::abs(want));
}

TEST(Volume, what_it_costs_counts_three_axes) {
  if (test::other_rank()) return;
  const Network network = small("drunet3d");
  const NetworkWork work = network_work(network, at::kFloat, false);
  EXPECT_EQ(work.alignment, (Index3{2, 2, 2}));
  double products = 0;
  for (const NetworkWork::Layer& layer : work.layers) {
    EXPECT_EQ(layer.axes, Axes::volume);
    if (layer.passed == 0) products += layer.products() * layer.pixels(Index3{8, 8, 8});
  }
  EXPECT_DOUBLE_EQ(products, network.graph.macs_per_pixel() * 512);
  // What Winograd's kernels compute comes in whole tiles of slices, and has 36 numbers for 9 of a kernel.
  if (Winograd::available() == Winograd::Instructions::none) return;
  const Network wide = random_network({.name = "dncnn3d", .channels = 1, .widths = {16}, .depth = 3}, 1);
  const auto convolutions = [&](at::ScalarType type) {
    std::vector<NetworkWork::Layer> layers = network_work(wide, type, false).layers;
    std::erase_if(layers, [](const NetworkWork::Layer& layer) { return layer.passed > 0; });
    return layers;
  };
  const std::vector<NetworkWork::Layer> fast = convolutions(at::kFloat);
  ASSERT_EQ(fast.size(), 3U);
  EXPECT_EQ(fast[0].tile, 1);
  EXPECT_EQ(fast[1].tile, 4);
  EXPECT_EQ(fast[1].pixels(Index3{3, 5, 6}), 3 * 8 * 8);
  EXPECT_EQ(network_work(wide, at::kFloat, false).packed, 4 * (27 * 16 + 4 * 27 * 16 * 16 + 4 * 27 * 16));
  EXPECT_EQ(convolutions(at::kDouble)[1].tile, 1);
}

TEST(Volume, what_does_not_fit_is_refused) {
  if (test::other_rank()) return;
  const auto message = [](const Network& network, const at::Tensor& image, const ExecutionOptions& options) {
    const test::Blocks s(Communicator(), network, image);
    try {
      make_network_denoiser(network, options, s.context);
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  const at::Tensor deep = volume(1, {8, 9, 10}), flat = picture(1, 9, 10, at::kDouble);
  EXPECT_EQ(message(small("dncnn3d"), deep, {}), "accepted");
  EXPECT_EQ(message(small("dncnn3d"), flat, {}),
            "denoiser.network is dncnn3d (it is for volumes, and the image is a picture of 9 x 10) write "
            "'network: drunet', or another for pictures");
  EXPECT_NE(message(small("dncnn3d"), deep, {.mode = ExecutionMode::layer, .halo_depth = 2})
                .find("an exchange serves one layer"),
            std::string::npos);
}

}  // namespace
}  // namespace tessera
