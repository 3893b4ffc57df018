// SPDX-License-Identifier: BSD-3-Clause
// Layer by layer on 1, 2, 3, 4, 5 and 7 ranks against the network on the whole padded image.
#include <ATen/TensorOperators.h>
#include <ATen/ops/replication_pad2d.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "layers/layer_halos.hpp"
#include "support/groups.hpp"
#include "support/once.hpp"
#include "tessera/core/memory.hpp"
#include "tessera/core/phase.hpp"
#include "tessera/denoise/denoiser.hpp"
#include "tessera/denoise/layer_schedule.hpp"
#include "tessera/denoise/layer_traffic.hpp"
#include "tessera/denoise/memory_model.hpp"
#include "tessera/denoise/network_denoiser.hpp"
#include "tessera/denoise/pass_plan.hpp"
#include "tessera/denoise/runner.hpp"
#include "tessera/domain/tensor.hpp"
#include "whole_image.hpp"

namespace tessera {
namespace {

using test::Blocks;
using test::difference;
using test::kSigma;
using test::once;
using test::picture;
using test::tiny;
using test::whole;

ExecutionOptions layers(int depth, at::ScalarType type = at::kDouble) {
  return {.mode = ExecutionMode::layer, .type = type, .halo_depth = depth};
}

TEST(LayerDenoiser, equals_the_whole_image_on_any_ranks) {
  for (const char* name : {"drunet", "unet", "dncnn", "gsdrunet", "ffdnet", "scunet", "restormer"}) {
    const Network network = tiny(name, 3);
    // 9 x 6 and 4 x 29: blocks of one alignment unit, one pixel wide at the coarsest level, and empty ones.
    for (const auto& [height, width] :
         {std::pair<std::int64_t, std::int64_t>{64, 64}, {97, 45}, {9, 6}, {4, 29}}) {
      if (height == 64 && name != std::string("drunet")) continue;  // nothing is padded
      const at::Tensor image = picture(3, height, width, at::kDouble);
      const at::Tensor want = once([&] { return whole(network, image, kSigma); });
      ASSERT_GT((want - want.mean()).abs().max().item<double>(), 1e-6);
      const auto compare = [&](const Communicator& comm) {
        std::vector<Grid3> grids{{1, comm.size(), 1}, {1, 1, comm.size()}};
        if (comm.size() == 4) grids = {{1, 2, 2}, {1, 1, 4}};
        for (const Grid3& grid : grids) {
          const Blocks s(comm, network, image, grid);
          for (const int depth : {1, 2, 3, 4}) {
            // Between the least and the largest depth of a network: of one with levels, and of one without.
            const bool all = height == 97 && grid[2] == 1 &&
                             (name == std::string("drunet") || name == std::string("dncnn"));
            if (!all && (depth == 2 || depth == 3)) continue;
            SCOPED_TRACE(testing::Message() << name << ' ' << height << " x " << width << " on " << grid[1]
                                            << " x " << grid[2] << ", depth " << depth);
            const auto d = make_network_denoiser(network, layers(depth), s.context);
            EXPECT_LT(difference(s, *d, image, kSigma, want), 1e-10);
            if (depth == 1) {
              EXPECT_LT(difference(s, *d, image, kSigma, want), 1e-10) << "second call";
            }
          }
        }
        if (height != 97) return;
        const Blocks s(comm, network, image);
        for (const bool fused : {true, false}) {
          ExecutionOptions options = layers(1, at::kFloat);
          options.fused = fused;
          const auto single = make_network_denoiser(network, options, s.context);
          EXPECT_LT(difference(s, *single, image.to(at::kFloat), kSigma, want.to(at::kFloat)), 1e-5);
        }
      };
      height < 64 ? test::on_groups({2, 4, 7}, compare) : test::on_groups(compare);
    }
  }
}

// As a device runs the layers: the block computed alone, thin strips in two columns and two rows, additions
// in the convolution's pass. The same code on the CPU, where it can be held to double's rounding.
TEST(LayerDenoiser, the_devices_form_equals_the_whole_image) {
  for (const char* name : {"drunet", "unet", "dncnn", "gsdrunet", "ffdnet", "scunet", "restormer"}) {
    const Network network = tiny(name, 3);
    for (const auto& [height, width] : {std::pair<std::int64_t, std::int64_t>{40, 48}, {4, 29}}) {
      if (height > 4 && name != std::string("drunet")) continue;
      const at::Tensor image = picture(3, height, width, at::kDouble);
      const at::Tensor want = once([&] { return whole(network, image, kSigma); });
      test::on_groups([&](const Communicator& comm) {
        std::vector<Grid3> grids{{1, comm.size(), 1}, {1, 1, comm.size()}};
        if (comm.size() == 4) grids = {{1, 2, 2}};
        for (const Grid3& grid : grids)
          for (const int depth : {1, 3}) {
            SCOPED_TRACE(testing::Message() << name << ' ' << height << " x " << width << " on " << grid[1]
                                            << " x " << grid[2] << ", depth " << depth);
            const Blocks s(comm, network, image, grid);
            const Decomposition& d = s.context.decomposition;
            Runner runner(network, {.type = at::kDouble, .device_form = true});
            const LayerSchedule schedule =
                make_layer_schedule(runner.plan(), depth, at::kDouble, /*on_device=*/true);
            std::size_t thin = 0, fused = 0;
            for (const LayerExchange& e : schedule.exchanges)
              thin += (e.rim.tile == 1 && !e.rim.turned) ||
                      runner.plan().steps[e.step].node.op == Op::window_attention;
            for (const Step& step : runner.plan().steps) fused += step.other >= 0;
            ASSERT_EQ(thin, schedule.exchanges.size());
            ASSERT_EQ(fused > 0, name != std::string("ffdnet"));  // which adds nothing
            LayerHalos halos(schedule, d, comm.rank(), s.context.transport, at::TensorOptions(at::kDouble));
            // The padding repeats the last pixel; each rank takes its own part of it.
            const at::Tensor padded = at::replication_pad2d(
                image.unsqueeze(0), {0, d.padded().extent(2) - width, 0, d.padded().extent(1) - height})[0];
            at::Tensor x = empty_block(3, halos.region(0), image.options()).zero_();  // room for margins
            crop(x, halos.region(0), halos.block(0)).copy_(crop(padded, d.padded(), halos.block(0)));
            x = x.unsqueeze(0);
            for (int call = 0; call < 2; ++call) {
              const at::Tensor y = runner.run(x, kSigma, {}, &halos);
              if (s.own.empty()) continue;
              const at::Tensor got = crop(y[0], halos.region(0), s.own);
              EXPECT_LT(((got - s.part(want)).abs().max() / want.abs().max()).item<double>(), 1e-10);
            }
          }
      });
    }
  }
}

// Channels enough for Winograd's kernels, whose rims are tiles thick; blocks that are all rim.
TEST(LayerDenoiser, wide_networks_in_float) {
  for (const char* name : {"drunet", "unet", "dncnn", "gsdrunet", "ffdnet", "scunet", "restormer"}) {
    const Network network = tiny(name, 3, {16, 20, 36});
    for (const auto& [height, width] : {std::pair<std::int64_t, std::int64_t>{83, 57}, {4, 29}}) {
      const at::Tensor image = picture(3, height, width, at::kDouble);
      const at::Tensor want = once([&] { return whole(network, image, kSigma).to(at::kFloat); });
      test::on_groups({height < 64 ? 3 : 7}, [&](const Communicator& comm) {
        for (const Grid3& grid : {Grid3{1, comm.size(), 1}, Grid3{1, 1, comm.size()}})
          for (const int depth : {1, 3}) {
            SCOPED_TRACE(testing::Message() << name << ' ' << height << " x " << width << " on " << grid[1]
                                            << " x " << grid[2] << ", depth " << depth);
            const Blocks s(comm, network, image, grid);
            const auto d = make_network_denoiser(network, layers(depth, at::kFloat), s.context);
            EXPECT_LT(difference(s, *d, image.to(at::kFloat), kSigma, want), 1e-5);
          }
      });
    }
  }
}

TEST(LayerDenoiser, trained_weights_in_float) {
  const Network network = load_network("drunet", "drunet_small_color", 3);
  const at::Tensor image = picture(3, 90, 131, at::kFloat);
  const at::Tensor want = once([&] { return whole(network, image, kSigma); });
  test::on_groups([&](const Communicator& comm) {
    const Blocks s(comm, network, image);
    for (const int depth : {1, 2}) {
      const auto d = make_network_denoiser(network, layers(depth, at::kFloat), s.context);
      EXPECT_LT(difference(s, *d, image, kSigma, want), 1e-5) << "depth " << depth;
    }
    const auto low = make_network_denoiser(network, layers(1, at::kBFloat16), s.context);
    EXPECT_LT(difference(s, *low, image, kSigma, want), 0.05);
  });
}

// Convolutions that only carry one far corner: the result is the image moved by one pixel per layer, so that
// any pixel of halo that does not come, or comes from the wrong place, shows.
TEST(LayerDenoiser, farthest_taps_alone_move_the_image) {
  NetworkOptions options;
  options.name = "dncnn";
  options.channels = 1;
  options.widths = {1};
  options.depth = 6;
  options.residual = false;
  Network network = random_network(options, 1);
  const at::Tensor image = picture(1, 37, 41, at::kDouble);
  for (const int row : {0, 2})
    for (const int column : {0, 2}) {
      for (auto& [name, weight] : network.weights) {
        weight = at::zeros_like(weight);
        if (weight.dim() == 4) weight[0][0][row][column] = 1;
      }
      at::Tensor want = at::zeros_like(image);
      const std::int64_t n = options.depth, h = 37 - n, w = 41 - n;
      want.narrow(1, row == 0 ? n : 0, h)
          .narrow(2, column == 0 ? n : 0, w)
          .copy_(image.narrow(1, row == 0 ? 0 : n, h).narrow(2, column == 0 ? 0 : n, w));
      ASSERT_TRUE(once([&] { return whole(network, image, kSigma); }).equal(want));
      test::on_groups([&](const Communicator& comm) {
        const Blocks s(comm, network, image);
        for (const int depth : {1, 2, 3, 4}) {
          const auto d = make_network_denoiser(network, layers(depth), s.context);
          EXPECT_EQ(difference(s, *d, image, kSigma, want), 0) << "depth " << depth;
        }
      });
    }
}

TEST(LayerDenoiser, averages_over_turns_of_the_whole_image) {
  for (const char* name : {"drunet", "unet", "restormer"}) {
    const Network network = tiny(name, 1);
    const at::Tensor image = picture(1, 41, 30, at::kDouble);
    std::vector<at::Tensor> turns;  // the whole image's, by each symmetry alone
    for (const int turn : {0, 1, 2, 3, 4, 5, 6, 7})
      turns.push_back(once([&] { return whole(network, image, kSigma, {turn}); }));
    const auto mean = [&](std::size_t count) {
      at::Tensor sum = turns[0].clone();
      for (std::size_t turn = 1; turn < count; ++turn) sum += turns[turn];
      return sum / static_cast<double>(count);
    };
    test::on_groups({name == std::string("unet") ? 7 : 2}, [&](const Communicator& comm) {
      const Blocks s(comm, network, image);
      ExecutionOptions options = layers(1);
      options.averaging = Averaging::flips;
      const auto flips = make_network_denoiser(network, options, s.context);
      EXPECT_LT(difference(s, *flips, image, kSigma, mean(4)), 1e-10);
      options.averaging = Averaging::all;
      const auto all = make_network_denoiser(network, options, s.context);
      EXPECT_LT(difference(s, *all, image, kSigma, mean(8)), 1e-10);
      options.averaging = Averaging::cycle;
      const auto cycle = make_network_denoiser(network, options, s.context);
      for (const std::size_t turn : {0, 1, 2, 3, 4, 5, 6, 7, 0})
        EXPECT_LT(difference(s, *cycle, image, kSigma, turns[turn]), 1e-10) << turn;
    });
  }
}

TEST(LayerDenoiser, takes_gray_images_through_color_networks) {
  const Network network = tiny("unet", 3);
  const at::Tensor image = picture(1, 33, 50, at::kDouble);
  const at::Tensor want = once([&] { return whole(network, image, kSigma); });
  test::on_groups([&](const Communicator& comm) {
    const Blocks s(comm, network, image);
    const auto d = make_network_denoiser(network, layers(0), s.context);
    EXPECT_LT(difference(s, *d, image, kSigma, want), 1e-10);
    EXPECT_NE(d->notice().find("gray"), std::string::npos);
  });
}

TEST(LayerDenoiser, sends_the_bytes_and_messages_that_are_predicted) {
  for (const char* name : {"drunet", "unet", "dncnn", "gsdrunet", "ffdnet", "scunet", "restormer"}) {
    const Network network = tiny(name, 1);
    const at::Tensor image = picture(1, 50, 35, at::kDouble);
    test::on_groups({1, 4, 7}, [&](const Communicator& comm) {
      const Blocks s(comm, network, image);
      for (const auto& [type, depth] :
           {std::pair{at::kDouble, 1}, std::pair{at::kFloat, 2}, std::pair{at::kBFloat16, 3}}) {
        ExecutionOptions options = layers(depth, type);
        options.averaging = depth == 1 ? Averaging::flips : Averaging::none;
        const auto d = make_network_denoiser(network, options, s.context);
        const LayerTraffic traffic(network.graph, s.context.decomposition, options, 1);
        const at::Tensor in = s.part(image).to(type == at::kDouble ? at::kDouble : at::kFloat);
        at::Tensor out = at::zeros_like(in);
        take_phases();
        d->apply(in, kSigma, out);
        double sent[] = {0, 0};
        for (const PhaseRecord& record : take_phases()) {
          sent[0] += static_cast<double>(record.bytes_sent);
          sent[1] += static_cast<double>(record.messages);
        }
        EXPECT_EQ(sent[0], static_cast<double>(d->bytes_sent()));
        EXPECT_EQ(sent[0], static_cast<double>(traffic.bytes_sent(comm.rank())));
        EXPECT_EQ(sent[1], static_cast<double>(traffic.messages(comm.rank())));
        comm.all_reduce(sent, Reduce::sum);
        EXPECT_EQ(sent[0] > 0, comm.size() > 1);
      }
    });
  }
}

TEST(LayerDenoiser, deeper_halos_need_fewer_exchanges) {
  const Graph graph = make_graph({});  // the published widths
  const Box image = Box::image2d(4096, 4096);
  const Decomposition d(image, {1, 8, 8}, {1, 8, 8});
  const auto exchanges = [&](int depth) {
    const LayerTraffic traffic(graph, d, layers(depth, at::kFloat), 3);
    std::int64_t count = 0;
    for (const LayerTraffic::Exchanges& e : traffic.of(9)) count += e.count;
    return count;
  };
  EXPECT_EQ(exchanges(1), 58);  // head, 7 stages of 8, tail
  EXPECT_EQ(exchanges(2), 30);
  EXPECT_EQ(exchanges(4), 17);  // behind the head, a block's sum stops one of them
  const LayerTraffic traffic(graph, d, layers(1, at::kFloat), 3);
  EXPECT_EQ(traffic.messages(9), 58 * 8);
  EXPECT_NEAR(static_cast<double>(traffic.bytes_sent(9)), 30e6, 1e6);
}

TEST(LayerDenoiser, second_call_needs_no_memory) {
  track_tensor_memory();
  const Network network = tiny("drunet", 1);
  const at::Tensor image = picture(1, 256, 256, at::kFloat);
  test::on_groups([&](const Communicator& comm) {
    const Blocks s(comm, network, image);
    const auto d = make_network_denoiser(network, layers(1, at::kFloat), s.context);
    const at::Tensor in = s.part(image);
    at::Tensor out = at::zeros_like(in);
    d->apply(in, kSigma, out);
    const std::int64_t before = memory_now();
    d->apply(in, kSigma, out);
    EXPECT_EQ(memory_now(), before);
  });
}

TEST(LayerDenoiser, takes_the_memory_that_is_modeled) {
  track_tensor_memory();
  for (const char* name : {"drunet", "unet", "dncnn", "gsdrunet", "ffdnet", "scunet", "restormer"}) {
    const Network network = tiny(name, 1, {32, 48, 64});
    // Every rank has a block; scunet's are made of windows of 64.
    const bool large = network.alignment()[1] > 8;
    const at::Tensor image = picture(1, large ? 192 : 128, large ? 208 : 144, at::kFloat);
    test::on_groups({3}, [&](const Communicator& comm) {
      for (const auto& [type, depth] :
           {std::pair{at::kFloat, 1}, std::pair{at::kFloat, 3}, std::pair{at::kBFloat16, 1}}) {
        if (type == at::kBFloat16 && name != std::string("drunet")) continue;
        SCOPED_TRACE(testing::Message() << name << ", " << c10::toString(type) << ", depth " << depth);
        const Blocks s(comm, network, image);
        const at::Tensor in = s.part(image);
        at::Tensor out = at::zeros_like(in);
        const MemoryModel model(network, type, true, {});
        const std::int64_t before = memory_now() - memory_now(MemoryUse::weights);
        memory_reset_peak();
        const auto d = make_network_denoiser(network, layers(depth, type), s.context);
        d->apply(in, kSigma, out);
        d->apply(in, kSigma, out);
        const auto taken = static_cast<double>(memory_peak() - before - memory_now(MemoryUse::weights));
        const auto modeled =
            static_cast<double>(model.layer_bytes(s.context.decomposition, comm.rank(), depth));
        EXPECT_LT(taken, 1.05 * modeled + 4.0 * in.nbytes());
        EXPECT_GT(taken, (type == at::kFloat ? 0.9 : 0.5) * modeled);
      }
    });
  }
}

}  // namespace
}  // namespace tessera
