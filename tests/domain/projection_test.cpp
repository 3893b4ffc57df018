// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/domain/projection.hpp"

#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "domain/projections.hpp"
#include "tessera/core/error.hpp"
#include "tessera/core/memory.hpp"
#include "tessera/core/phase.hpp"
#include "tessera/domain/tensor_memory.hpp"
#include "tessera/physics/ray_projector.hpp"

namespace tessera {
namespace {

using test::angles;
using test::Case;
using test::cases;
using test::parts_of;
using test::Placed;
using test::random_tensor;

TEST(Projection, EqualsOneRankOnAnyCutPassesTheDotTestAndCountsItsBytes) {
  for (const Case& c : cases()) {
    const Placed one(c, {1, 1, 1}, Communicator());
    const at::Tensor x = random_tensor(one.A->make_image().sizes(), 7);
    Tensors y1 = one.A->make_measurement();
    one.A->apply(x, y1);
    const Tensors v{random_tensor(y1[0].sizes(), 8)};
    at::Tensor back1 = one.A->make_image();
    one.A->adjoint(v, back1);
    ASSERT_GT(y1[0].abs().max().item<double>(), 0.1);
    test::on_groups([&](const Communicator& comm) {
      for (const Grid3& grid : grids(comm.size(), c.volume.box())) {
        SCOPED_TRACE(concat(c.name, ", ", grid[0], " x ", grid[1], " x ", grid[2]));
        const Placed all(c, grid, comm);
        const Tensors mine = parts_of({x}, all.A->domain(), comm.rank()),
                      w = parts_of(v, all.A->range(), comm.rank());
        Tensors y = all.A->make_measurement(), back = all.A->make_domain();
        take_phases();
        all.A->apply(mine, y);
        all.A->adjoint(w, back);
        std::int64_t sent = 0;
        for (const PhaseRecord& r : take_phases()) sent += r.bytes_sent;
        EXPECT_EQ(sent, all.A->bytes_sent());
        EXPECT_LT(test::worst(comm, y[0], parts_of(y1, all.A->range(), comm.rank())[0], y1[0]), 1e-12);
        EXPECT_LT(test::worst(comm, back[0], parts_of({back1}, all.A->domain(), comm.rank())[0], back1),
                  1e-12);
        std::vector<double> sums{test::scalar_product(y[0], w[0]), test::scalar_product(mine[0], back[0])};
        comm.all_reduce(sums, Reduce::sum);
        EXPECT_NEAR(sums[0], sums[1], 1e-10 * (1 + std::abs(sums[0])));
      }
    });
  }
}

TEST(Projection, InFloatIsTheSameToRoundingAndItsAdjointHasTheSameBits) {
  for (const Case& c : cases()) {
    const Placed one(c, {1, 1, 1}, Communicator(), at::kFloat), exact(c, {1, 1, 1}, Communicator());
    const at::Tensor x = random_tensor(one.A->make_image().sizes(), 7);
    Tensors y = exact.A->make_measurement(), yf = one.A->make_measurement();
    exact.A->apply(x, y);
    one.A->apply(x.to(at::kFloat), yf);
    EXPECT_LT((yf[0].to(at::kDouble) - y[0]).abs().max().item<double>(),
              2e-5 * y[0].abs().max().item<double>())
        << c.name;
    const at::Tensor v = random_tensor(y[0].sizes(), 8).to(at::kFloat);
    at::Tensor whole = one.A->make_image();
    one.A->adjoint(Tensors{v}, whole);
    test::on_groups([&](const Communicator& comm) {
      SCOPED_TRACE(c.name);
      const Placed all(c, grids(comm.size(), c.volume.box()).back(), comm, at::kFloat);
      at::Tensor back = all.A->make_image();
      all.A->adjoint(parts_of({v}, all.A->range(), comm.rank()), back);
      EXPECT_TRUE(back.equal(parts_of({whole}, all.A->domain(), comm.rank())[0]));
    });
  }
}

TEST(Projection, SlabsOfAParallelBeamSendNothing) {
  if (test::other_rank()) return;
  const Case c{"", {{8, 12, 11}}, {.angles = angles(37, std::numbers::pi), .rows = 8, .columns = 19}};
  const auto plan = plan_projection(c.geometry());
  for (const int ranks : {2, 3, 8}) {
    const ProductSpace domain(ImageSpace(c.volume.box()),
                              Decomposition(c.volume.box(), {1, 1, 1}, {ranks, 1, 1}));
    for (int r = 0; r < ranks; ++r)
      for (const PlannedExchange& e : plan->exchanges(domain, r)) EXPECT_EQ(e.bytes_sent(), 0);
    const ProductSpace range = plan->range(domain);
    std::int64_t samples = 0;
    for (int r = 0; r < ranks; ++r) samples += range.block(0, r).pixels();
    EXPECT_EQ(samples, range.values());
  }
}

// FBP and FDK are the same on any cut; samples of weight 0, a dead column, leave the line between their neighbors.
TEST(Projection, DirectReconstructionsAreThoseOfOneRank) {
  for (const Case& c : cases()) {
    const Placed one(c, {1, 1, 1}, Communicator());
    Tensors y = one.A->make_measurement();
    one.A->apply(random_tensor(one.A->make_image().sizes(), 7).add_(1), y);
    at::Tensor whole = one.A->make_image();
    if (!one.A->traits().not_direct.empty()) {
      Tensors lost{y[0].clone()};
      EXPECT_THROW(one.A->direct(lost, Tensors(1), RampWindow::hann, whole), InputError) << c.name;
      continue;
    }
    const at::Tensor weights = at::ones_like(y[0]);
    weights.select(-1, y[0].size(-1) / 2).zero_();
    weights.select(-1, 0).zero_();
    Tensors spoiled{y[0].mul(weights)};
    one.A->direct(spoiled, Tensors{weights}, RampWindow::hann, whole);
    ASSERT_GT(whole.abs().max().item<double>(), 0.1);
    at::Tensor clean = one.A->make_image();
    Tensors kept{y[0].clone()};
    one.A->direct(kept, Tensors(1), RampWindow::hann, clean);
    EXPECT_LT((whole - clean).norm().item<double>(), 0.3 * clean.norm().item<double>()) << c.name;
    EXPECT_GT((whole - clean).abs().max().item<double>(), 1e-6) << c.name;
    test::on_groups([&](const Communicator& comm) {
      for (const Grid3& grid : grids(comm.size(), c.volume.box())) {
        SCOPED_TRACE(concat(c.name, ", ", grid[0], " x ", grid[1], " x ", grid[2]));
        const Placed all(c, grid, comm);
        Tensors mine = parts_of({y[0].mul(weights)}, all.A->range(), comm.rank());
        at::Tensor x = all.A->make_image();
        all.A->direct(mine, parts_of({weights}, all.A->range(), comm.rank()), RampWindow::hann, x);
        EXPECT_LT(test::worst(comm, x, parts_of({whole}, all.A->domain(), comm.rank())[0], whole), 1e-12);
      }
    });
  }
}

TEST(Projection, TheOperatorOfAGpuEqualsProcessorsOnAnyCut) {
  test::expect_kernels_equal_processors({1, 2, 3, 4, 5, 7}, [](const Communicator&) { return Device{}; });
}

// Counted on the host, whose loop holds the same tensors.
TEST(Projection, TheKernelsOfAGpuTakeTheMemoryThatIsModeled) {
  if (test::other_rank()) return;
  track_tensor_memory();
  for (const Case& c : cases()) {
    const auto g = c.geometry();
    const Box volume = c.volume.box(), all = g->samples(),
              samples({0, 0, 0}, {std::min<std::int64_t>(32, all.hi()[0]), all.hi()[1], all.hi()[2]});
    const at::Tensor x = at::zeros({volume.pixels()}, at::kFloat),
                     y = at::zeros({samples.pixels()}, at::kFloat);
    const std::int64_t before = memory_now();
    memory_reset_peak();
    RayProjector projector(g, volume, at::TensorOptions(at::kFloat), {});
    projector.load(x);
    projector.project(samples, y);
    projector.gather(samples, y, x);
    const auto taken = static_cast<double>(memory_peak() - before),
               modeled = static_cast<double>(ray_projector_bytes(*g, volume, samples.pixels(), 4));
    EXPECT_LT(taken, modeled + 4096) << c.name;  // an allocation's rounding
    EXPECT_GT(taken, 0.6 * modeled) << c.name;
    const ProductSpace domain(ImageSpace(volume), Decomposition(volume, {1, 1, 1}, {1, 1, 1}));
    std::int64_t most = 0;
    for (std::int64_t v = 0; v < all.hi()[0]; v += 32)
      most = std::max(most, shadow(*g, volume, v, std::min(v + 32, all.hi()[0])).pixels());
    const auto on = [&](Device device) { return plan_projection(g, device); };
    EXPECT_EQ(on(Device{0})->memory(domain, 0) - on({})->memory(domain, 0),
              ray_projector_bytes(*g, volume, most, 4) - 4 * volume.pixels())
        << c.name;
    EXPECT_GT(on(Device{0})->work(domain, 0).bytes,
              4.0 * static_cast<double>(volume.pixels() + all.pixels()));
  }
}

TEST(Projection, SaysWhatItCannotProject) {
  if (test::other_rank()) return;
  const Case c{"", {{1, 23, 31}}, {.angles = angles(5, 3), .columns = 41}};
  const Box other = Box::image2d(23, 30);
  EXPECT_THROW(
      plan_projection(c.geometry())->range({ImageSpace(other), Decomposition(other, {1, 1, 1}, {1, 1, 1})}),
      InputError);
}

}  // namespace
}  // namespace tessera
