// SPDX-License-Identifier: BSD-3-Clause
// Volumes through networks for pictures, plane by plane, on 1, 2, 3, 4, 5 and 7 ranks, against their definition:
// each plane as a picture of its own, and the mean over the kinds of planes.
#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/groups.hpp"
#include "support/once.hpp"
#include "tessera/core/error.hpp"
#include "tessera/core/memory.hpp"
#include "tessera/core/phase.hpp"
#include "tessera/denoise/layer_traffic.hpp"
#include "tessera/denoise/network_denoiser.hpp"
#include "tessera/denoise/planes.hpp"
#include "tessera/denoise/runner.hpp"
#include "tessera/denoise/windows.hpp"
#include "tessera/domain/tensor_memory.hpp"
#include "whole_image.hpp"

namespace tessera {
namespace {

using test::kSigma;
using test::once;
using test::picture;
using test::tiny;

const Planes kAxial = Planes::of({Plane::axial}), kCoronal = Planes::of({Plane::coronal}),
             kTwo = Planes::of({Plane::coronal, Plane::sagittal}),
             kAll = Planes::of({Plane::axial, Plane::coronal, Plane::sagittal});

/// (C, D, H, W).
at::Tensor volume(std::int64_t channels, const Index3& size, at::ScalarType type = at::kDouble) {
  return picture(channels, size[0] * size[1], size[2], type).view({channels, size[0], size[1], size[2]});
}

/// The definition. Axes are written out, not taken from what is tested.
at::Tensor defined(const Network& network, const at::Tensor& image, const Planes& planes,
                   const std::vector<int>& symmetries = {0}) {
  at::Tensor sum = at::zeros_like(image);
  for (const Plane plane : planes.list()) {
    const std::int64_t across = plane == Plane::axial ? 1 : plane == Plane::coronal ? 2 : 3;
    for (std::int64_t k = 0; k < image.size(across); ++k)
      sum.select(across, k).add_(
          test::whole(network, image.select(across, k).contiguous(), kSigma, symmetries));
  }
  return sum / static_cast<double>(planes.list().size());
}

/// Blocks cut on this grid, or on the one with the least work.
test::Blocks blocks(const Communicator& comm, const Network& network, const at::Tensor& image,
                    const Planes& planes, const Grid3& grid = {0, 0, 0}) {
  const Index3 unit = planes_alignment(network.alignment(), planes);
  const Box box = test::box_of(image);
  return {comm, image,
          grid[0] > 0 ? Decomposition(box, unit, grid)
                      : Decomposition::choose(box, unit, comm.size(),
                                              [](const Box& b) { return static_cast<double>(b.pixels()); })};
}

TEST(Planes, equal_each_plane_alone_on_any_ranks_and_any_cut) {
  struct Case {
    Network network;
    std::int64_t channels;
    Index3 size;
    Planes planes;
  };
  const std::vector<Case> cases = {{tiny("drunet", 1, {3, 4}), 1, {7, 10, 5}, kAll},
                                   {tiny("dncnn", 1, {4, 4}), 1, {3, 17, 9}, kAxial},
                                   {tiny("unet", 1, {3, 4}), 1, {9, 4, 11}, kCoronal},
                                   {tiny("ffdnet", 3, {4, 4}), 1, {8, 7, 6}, kTwo}};  // gray through color
  for (const Case& c : cases) {
    const at::Tensor image = volume(c.channels, c.size);
    const at::Tensor want = once([&] { return defined(c.network, image, c.planes); });
    ASSERT_GT((want - image).abs().max().item<double>(), 1e-3);
    const std::int64_t a = longest(c.network.alignment());
    const auto compare = [&](const test::Blocks& s, const std::string& how) {
      SCOPED_TRACE(testing::Message() << c.network.options.name << ' ' << text(c.planes) << ' ' << how);
      for (const ExecutionOptions& cut : {ExecutionOptions{}, {.patch = 2 * a, .batch = 2}}) {
        ExecutionOptions options = cut;
        options.type = at::kDouble;
        options.planes = c.planes;
        const auto d = make_network_denoiser(c.network, options, s.context);
        EXPECT_LT(test::difference(s, *d, image, kSigma, want), 1e-10) << d->description();
      }
      for (const int depth : {1, 2}) {
        const auto layers = make_network_denoiser(
            c.network,
            {.mode = ExecutionMode::layer, .planes = c.planes, .type = at::kDouble, .halo_depth = depth},
            s.context);
        for (int call = 0; call < 2; ++call)
          EXPECT_LT(test::difference(s, *layers, image, kSigma, want), 1e-10) << layers->description();
      }
      for (const ExecutionMode mode : {ExecutionMode::automatic, ExecutionMode::layer}) {
        const auto single = make_network_denoiser(c.network, {.mode = mode, .planes = c.planes}, s.context);
        EXPECT_LT(test::difference(s, *single, image.to(at::kFloat), kSigma, want.to(at::kFloat)), 1e-5)
            << single->description();
      }
    };
    test::on_groups({1, 2, 3, 4, 5, 7}, [&](const Communicator& comm) {
      const int n = comm.size();
      std::vector<Grid3> grids{{n, 1, 1}, {1, n, 1}, {1, 1, n}};
      if (n == 1) grids = {{1, 1, 1}};
      if (n == 4) grids = {{1, 2, 2}, {2, 1, 2}, {2, 2, 1}};
      for (const Grid3& grid : grids)
        compare(blocks(comm, c.network, image, c.planes, grid),
                testing::PrintToString(grid) + " on a given grid");
    });
  }
}

// Attention in windows, and between channels of all pixels of a plane, which each plane has for itself.
TEST(Planes, attention_stays_in_a_plane) {
  for (const char* name : {"scunet", "restormer"}) {
    const Network network = tiny(name, 1);
    const Planes planes = Planes::of({Plane::sagittal});
    const at::Tensor image = volume(1, {20, 70, 3});
    const at::Tensor want = once([&] { return defined(network, image, planes); });
    test::on_groups({1, 2, 3}, [&](const Communicator& comm) {
      const int n = comm.size();
      for (const Grid3& grid : {Grid3{1, n, 1}, Grid3{1, 1, n}}) {
        const test::Blocks s = blocks(comm, network, image, planes, grid);
        for (const ExecutionMode mode : {ExecutionMode::automatic, ExecutionMode::layer}) {
          const auto d = make_network_denoiser(network, {.mode = mode, .planes = planes, .type = at::kDouble},
                                               s.context);
          EXPECT_LT(test::difference(s, *d, image, kSigma, want), 1e-10) << d->description();
        }
      }
    });
  }
}

TEST(Planes, average_over_turns_of_each) {
  const Network network = tiny("drunet", 1, {3, 4});
  const at::Tensor image = volume(1, {5, 6, 7});
  const at::Tensor flips = once([&] { return defined(network, image, kAll, {0, 1, 2, 3}); });
  const at::Tensor all = once([&] { return defined(network, image, kAll, {0, 1, 2, 3, 4, 5, 6, 7}); });
  EXPECT_GT((flips - all).abs().max().item<double>(), 1e-8);
  std::vector<at::Tensor> turns;
  for (int turn = 0; turn < 3; ++turn)
    turns.push_back(once([&] { return defined(network, image, kAll, {turn}); }));
  test::on_groups({1, 4}, [&](const Communicator& comm) {
    const test::Blocks s = blocks(comm, network, image, kAll);
    for (const ExecutionMode mode : {ExecutionMode::automatic, ExecutionMode::layer}) {
      const auto with = [&](Averaging averaging) {
        return make_network_denoiser(
            network, {.mode = mode, .averaging = averaging, .planes = kAll, .type = at::kDouble}, s.context);
      };
      EXPECT_LT(test::difference(s, *with(Averaging::flips), image, kSigma, flips), 1e-10) << word(mode);
      EXPECT_LT(test::difference(s, *with(Averaging::all), image, kSigma, all), 1e-10) << word(mode);
      const auto cycle = with(Averaging::cycle);
      for (int call = 0; call < 3; ++call) {
        const at::Tensor& want = turns[static_cast<std::size_t>(call)];
        EXPECT_LT(test::difference(s, *cycle, image, kSigma, want), 1e-10) << word(mode) << call;
      }
      // A checkpoint restores the turn of each kind of planes.
      ASSERT_EQ(cycle->state().size(), 3U);
      EXPECT_NE(cycle->state()[0].name, cycle->state()[1].name);
      for (const StateField& field : cycle->state()) EXPECT_EQ(*field.count, 3);
    }
  });
}

// D(x) = x - grad g(x) holds for the mean as it does for each plane: g is the mean of theirs. Nothing is padded.
TEST(Planes, have_the_potential_whose_gradient_they_step_along) {
  const Network network = with_potential(tiny("gsdrunet", 1, {3, 4}));
  const at::Tensor image = volume(1, {4, 8, 6}),
                   aside = volume(1, {8, 8, 6}).narrow(1, 4, 4).contiguous() - 0.5;
  test::on_groups({1, 2, 3}, [&](const Communicator& comm) {
    const test::Blocks s = blocks(comm, network, image, kAll);
    for (const ExecutionMode mode : {ExecutionMode::automatic, ExecutionMode::layer}) {
      const auto d =
          make_network_denoiser(network, {.mode = mode, .planes = kAll, .type = at::kDouble}, s.context);
      const auto at_point = [&](const at::Tensor& x, at::Tensor* result = nullptr) {
        const at::Tensor in = s.part(x);
        at::Tensor out = at::zeros_like(in);
        d->apply(in, kSigma, out);
        double g = d->potential().item<double>();
        comm.all_reduce(std::span<double>(&g, 1), Reduce::sum);
        if (result) *result = out;
        return g;
      };
      constexpr double kStep = 1e-5;
      at::Tensor out;
      at_point(image, &out);
      double slope = ((s.part(image) - out) * s.part(aside)).sum().item<double>();
      comm.all_reduce(std::span<double>(&slope, 1), Reduce::sum);
      const double want = (at_point(image + kStep * aside) - at_point(image - kStep * aside)) / (2 * kStep);
      EXPECT_NEAR(slope, want, 1e-6 * std::abs(want)) << word(mode);
      EXPECT_GT(std::abs(want), 1e-6);
    }
  });
}

TEST(Planes, send_the_bytes_that_are_planned) {
  const Network network = tiny("drunet", 1);
  const at::Tensor image = volume(1, {14, 10, 9}, at::kFloat);
  test::on_groups([&](const Communicator& comm) {
    const test::Blocks s = blocks(comm, network, image, kAll);
    for (const ExecutionMode mode : {ExecutionMode::automatic, ExecutionMode::layer}) {
      const ExecutionOptions options{
          .mode = mode, .planes = kAll, .halo_depth = mode == ExecutionMode::layer};
      const auto d = make_network_denoiser(network, options, s.context);
      const at::Tensor in = s.part(image);
      at::Tensor out = at::zeros_like(in);
      take_phases();
      {
        const PhaseScope phase(Phase::denoise);
        d->apply(in, kSigma, out);
      }
      std::int64_t sent = 0, planned = 0;
      for (const PhaseRecord& record : take_phases()) sent += record.bytes_sent;
      for (const Decomposition& cut : plane_cuts(s.context.decomposition, kAll))
        planned += mode == ExecutionMode::layer
                       ? LayerTraffic(network.graph, cut, options, 1).bytes_sent(comm.rank())
                       : network_bytes_sent(cut, network.halo(), 1, comm.rank());
      EXPECT_EQ(sent, d->bytes_sent()) << word(mode);
      EXPECT_EQ(sent, planned) << word(mode);
    }
  });
}

TEST(Planes, share_weights_and_fit_the_memory) {
  if (test::other_rank()) return;
  track_tensor_memory();
  const Network network = tiny("drunet", 1, {16, 24, 32});
  const at::Tensor image = volume(1, {40, 48, 56}, at::kFloat);
  const test::Blocks s = blocks(Communicator(), network, image, kAll);
  const auto weights = [] { return memory_now(MemoryUse::weights); };
  const std::int64_t none = weights();
  std::int64_t single = 0;
  {
    const auto d = make_network_denoiser(network, {.planes = kAxial}, s.context);
    single = weights() - none;
  }
  EXPECT_GT(single, 1000);
  const std::int64_t budget = 24 << 20;
  const auto d = make_network_denoiser(network, {.planes = kAll, .memory_bytes = budget}, s.context);
  EXPECT_EQ(weights() - none, single);
  EXPECT_GT(d->choices()[1].second, 1) << d->description();  // planes in batches
  at::Tensor out = at::zeros_like(image);
  for (int call = 0; call < 2; ++call) {
    memory_reset_peak();
    const std::int64_t before = memory_now();
    d->apply(image, kSigma, out);
    const std::int64_t beside = image.numel() * 4 * (call == 0 ? 3 : 1);  // padded copies, one kind's results
    EXPECT_LE(memory_peak() - before, budget + beside) << d->description();
  }
  const auto tight = make_network_denoiser(network, {.planes = kAll, .memory_bytes = budget / 8}, s.context);
  EXPECT_LT(tight->choices()[1].second, d->choices()[1].second);
}

TEST(Planes, turn_blocks_without_moving_them) {
  const Decomposition d({{0, 0, 0}, {13, 18, 9}}, {8, 4, 4}, {2, 2, 3});
  const Decomposition turned = d.planes(axes_of(Plane::sagittal));
  EXPECT_EQ(turned.image(), Box({0, 0, 0}, {9, 13, 18}));
  EXPECT_EQ(turned.padded(), Box({0, 0, 0}, {9, 16, 20}));
  EXPECT_EQ(turned.ranks(), d.ranks());
  std::int64_t pixels = 0;
  for (int r = 0; r < d.ranks(); ++r) {
    const Box a = d.block(r), b = turned.block(r);
    EXPECT_EQ(b, Box({a.lo()[2], a.lo()[0], a.lo()[1]}, {a.hi()[2], a.hi()[0], a.hi()[1]}));
    EXPECT_EQ(turned.padded_block(r).intersect(turned.image()), b);
    pixels += turned.padded_block(r).pixels();
  }
  EXPECT_EQ(pixels, turned.padded().pixels());
}

TEST(Planes, are_those_whose_pixels_are_square) {
  const auto chosen = [](double z, double y, double x) {
    ImageSpace image(Box({0, 0, 0}, {20, 20, 20}));
    image.grid[0].spacing = z;
    image.grid[1].spacing = y;
    image.grid[2].spacing = x;
    return text(default_planes(image));
  };
  EXPECT_EQ(chosen(0, 0, 0), "all");
  EXPECT_EQ(chosen(1, 1, 1), "all");
  EXPECT_EQ(chosen(1.2, 1, 1), "all");
  EXPECT_EQ(chosen(3, 1, 1), "axial");
  EXPECT_EQ(chosen(1, 4, 1), "coronal");
  EXPECT_EQ(chosen(1, 1, 5), "sagittal");
  EXPECT_EQ(chosen(12, 4, 2), "axial");  // square nowhere
}

TEST(Planes, are_refused_where_there_are_none) {
  if (test::other_rank()) return;
  const auto message = [](const Network& network, const at::Tensor& image, const Planes& planes) {
    try {
      make_network_denoiser(network, {.planes = planes},
                            test::Blocks(Communicator(), network, image).context);
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_EQ(message(tiny("dncnn", 1), picture(1, 9, 10, at::kFloat), kAll),
            "denoiser.planes is all (the image is a picture) leave it out");
  const Network deep = random_network({.name = "dncnn3d", .channels = 1, .widths = {3}, .depth = 3}, 1);
  EXPECT_EQ(message(deep, volume(1, {5, 6, 7}, at::kFloat), kTwo),
            "denoiser.planes is coronal and sagittal (dncnn3d sees a volume as it is) leave it out");
  EXPECT_EQ(message(tiny("dncnn", 1), volume(1, {5, 6, 7}, at::kFloat), kAxial), "accepted");
}

}  // namespace
}  // namespace tessera
