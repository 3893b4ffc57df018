// SPDX-License-Identifier: BSD-3-Clause
// The solvers of linear samples alone, fbp and sirt, on scans.
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "domain/projections.hpp"
#include "solve/diagonal_problem.hpp"
#include "tessera/core/error.hpp"
#include "tessera/solve/solver.hpp"

namespace tessera {
namespace {

using test::angles;
using test::Case;
using test::parts_of;
using test::Placed;

constexpr std::int64_t kSide = 33;

Case scan(std::int64_t views) {
  return {"parallel",
          {{1, kSide, kSide}},
          {.angles = angles(views, std::numbers::pi), .columns = 49, .axis_offset = 0.5}};
}

// A disk of 1 in the middle of channel 0, and one of 2 in channel 1.
at::Tensor disks(std::int64_t square = 80) {
  at::Tensor x = at::zeros({2, kSide, kSide}, at::kDouble);
  for (std::int64_t h = 0; h < kSide; ++h)
    for (std::int64_t w = 0; w < kSide; ++w)
      if ((h - 16) * (h - 16) + (w - 15) * (w - 15) < square) {
        x[0][h][w] = 1;
        x[1][h][w] = 2;
      }
  return x;
}

// The disks' samples, as data of a solver.
struct Data {
  Placed placed;
  std::shared_ptr<DistributedOperator> A;
  Reducer reducer;
  Space space;
  at::Tensor truth;
  std::unique_ptr<DataTerm> term;
  test::KnownDenoiser denoiser;

  Data(const Case& c, const Grid3& grid, const Communicator& comm, double lost = 0)
      : placed(c, grid, comm), A(std::move(placed.A)), reducer(comm), space(comm, &reducer) {
    truth = parts_of({disks()}, A->domain(), comm.rank())[0];
    Tensors y = A->make_measurement();
    A->apply(truth, y);
    Tensors weights{at::ones_like(y[0])};
    if (lost > 0) {
      for (const std::int64_t column : {20, 30}) weights[0].select(-1, column).zero_();
      y[0].masked_fill_(weights[0].eq(0), lost);
    }
    term = make_least_squares({.A = A,
                               .y = std::move(y),
                               .weights = lost > 0 ? weights : Tensors(),
                               .noise_sigma = 0.1,
                               .prox = {}},
                              space);
  }
  SolverInput input(SolverOptions options, at::Tensor start) {
    return {*term, denoiser, space, std::move(options), std::move(start)};
  }
  double objective() {
    const Deferred value = term->objective();
    reducer.launch();
    reducer.finish();
    return value.value();
  }
};

// Without noise the samples say the disks nearly everywhere; each step comes nearer, and the bounds hold.
TEST(Sirt, GoesDownToTheImageOnAnyRanks) {
  const Case c = scan(24);
  const auto run = [](Data& d) {
    SolverOptions o;
    o.least = 0;
    const auto solver = make_solver("sirt", d.input(o, at::zeros_like(d.truth)));
    double before = std::numeric_limits<double>::infinity();
    for (int k = 0; k < 25; ++k) {
      solver->step(k);
      const double now = d.objective();
      EXPECT_LT(now, before);
      before = now;
    }
    return solver->image().clone();
  };
  for (const double lost : {0.0, 50.0}) {
    Data one(c, {1, 1, 1}, Communicator(), lost);
    const at::Tensor wanted = run(one);
    EXPECT_LT((wanted - one.truth).norm().item<double>(), 0.4 * one.truth.norm().item<double>());
    test::on_groups([&](const Communicator& comm) {
      Data data(c, grids(comm.size(), c.volume.box()).back(), comm, lost);
      const at::Tensor x = run(data);
      EXPECT_LT(test::worst(comm, x, parts_of({wanted}, data.A->domain(), comm.rank())[0], wanted), 1e-11);
      EXPECT_TRUE(x.ge(0).all().item<bool>());
    });
  }
}

// One step by hand: one ray along a row of pixels, R = 1 / width, C = 1.
TEST(Sirt, SpreadsWhatIsMissingAlongTheRay) {
  if (test::other_rank()) return;
  const Case c{"", {{1, 3, 3}}, {.angles = {std::numbers::pi / 2}, .columns = 3}};
  Placed placed(c, {1, 1, 1}, Communicator());
  Reducer reducer{Communicator()};
  const Space space{Communicator(), &reducer};
  Tensors y = placed.A->make_measurement();
  y[0].fill_(6);
  const auto term = make_least_squares(
      {.A = std::move(placed.A), .y = y, .weights = {}, .noise_sigma = 1, .prox = {}}, space);
  test::KnownDenoiser denoiser;
  const auto solver =
      make_solver("sirt", {*term, denoiser, space, SolverOptions(), at::zeros({2, 3, 3}, at::kDouble)});
  solver->step(0);
  EXPECT_LT((solver->image() - 2).abs().max().item<double>(), 1e-12);
}

// The disks come back with their densities; lost columns are bridged.
TEST(FilteredBackProjection, GivesDisksTheirDensities) {
  const Case c = scan(90);
  test::on_groups([&](const Communicator& comm) {
    for (const double lost : {0.0, 50.0}) {
      Data data(c, grids(comm.size(), c.volume.box()).back(), comm, lost);
      SolverOptions o;
      o.least = -10;
      const auto solver = make_solver("fbp", data.input(o, at::zeros_like(data.truth)));
      solver->step(0);
      // Away from the rim, which the window smooths.
      const at::Tensor inside = parts_of({disks(30)}, data.A->domain(), comm.rank())[0].gt(0).to(at::kDouble);
      const double mean[2] = {data.space.dot(solver->image().select(0, 0), inside.select(0, 0)),
                              data.space.dot(solver->image().select(0, 1), inside.select(0, 1))};
      const double pixels = data.space.dot(inside, inside) / 2;
      EXPECT_NEAR(mean[0] / pixels, 1, 0.02);
      EXPECT_NEAR(mean[1] / mean[0], 2, 1e-9);
    }
  });
}

TEST(FilteredBackProjection, RefusesWhatHasNone) {
  if (test::other_rank()) return;
  Case c = scan(9);
  c.scan.beam = Beam::fan;
  c.scan.source_axis = 100;
  c.scan.source_detector = 200;
  c.scan.column_pitch = 2;
  Data data(c, {1, 1, 1}, Communicator());
  const auto solver = make_solver("fbp", data.input({}, at::zeros_like(data.truth)));
  EXPECT_THROW(solver->step(0), InputError);
}

}  // namespace
}  // namespace tessera
