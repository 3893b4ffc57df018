// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/domain/projection.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "domain/operators.hpp"
#include "tessera/core/error.hpp"
#include "tessera/core/phase.hpp"

namespace tessera {
namespace {

using test::parts_of;
using test::random_tensor;

std::vector<double> angles(std::int64_t count, double range) {
  std::vector<double> all;
  for (std::int64_t k = 0; k < count; ++k)
    all.push_back(range * static_cast<double>(k) / static_cast<double>(count));
  return all;
}

struct Case {
  std::string name;
  VolumeGrid volume;
  CircularScan scan;
  std::shared_ptr<const ProjectionGeometry> geometry() const {
    return std::make_shared<ProjectionGeometry>(circular_geometry(scan, volume));
  }
};

std::vector<Case> cases() {
  constexpr double kPi = std::numbers::pi;
  return {
      {"parallel picture", {{1, 23, 31}}, {.angles = angles(70, kPi), .columns = 41, .axis_offset = 1.3}},
      {"fan picture",
       {{1, 23, 31}},
       {.beam = Beam::fan,
        .angles = angles(33, 2 * kPi),
        .source_axis = 60,
        .source_detector = 110,
        .columns = 90}},
      {"parallel volume", {{7, 12, 11}}, {.angles = angles(37, kPi), .rows = 7, .columns = 19}},
      {"cone volume",
       {{7, 12, 11}},
       {.beam = Beam::cone,
        .angles = angles(35, 2 * kPi),
        .source_axis = 40,
        .source_detector = 80,
        .rows = 21,
        .columns = 40,
        .helical_pitch = 3}},
  };
}

struct Placed {
  std::unique_ptr<OperatorPlan> plan;
  ProductSpace domain;
  std::unique_ptr<DistributedOperator> A;
  Placed(const Case& c, const Grid3& grid, const Communicator& comm, at::ScalarType type = at::kDouble)
      : plan(plan_projection(c.geometry())),
        domain(ImageSpace(c.volume.box(), 2), Decomposition(c.volume.box(), {1, 1, 1}, grid)),
        A(plan->place(
            {domain, at::TensorOptions(type), make_transport(comm, {}, TransportKind::mpi), comm})) {}
};

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
