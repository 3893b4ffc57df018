// SPDX-License-Identifier: BSD-3-Clause
// The solver for counts, against what expectation maximization is known to do.
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include <limits>

#include "domain/operators.hpp"
#include "solve/diagonal_problem.hpp"
#include "support/groups.hpp"
#include "tessera/core/error.hpp"

namespace tessera {
namespace {

// Counts of gain 1 over a background, this rank's part of a picture; negative values count nothing below it.
struct Counts {
  const Communicator& comm;
  Decomposition cut;
  Reducer reducer;
  Space space;
  std::shared_ptr<DistributedOperator> A;
  at::Tensor y;  // background taken off
  std::unique_ptr<DataTerm> data;

  Counts(const Communicator& c, test::Stack parts, double background, double least)
      : comm(c), cut(test::cut(Box::image2d(23, 19), c.size())), reducer(c), space(c, &reducer) {
    A = test::place(parts, cut, 1, comm);
    const at::Tensor whole = (test::random_tensor({1, 23, 19}, 4) * 10 + 3).clamp_min(least);
    y = test::part_of(whole, cut.image(), cut.block(comm.rank()));
    data = make_pointwise_term({.A = A, .y = {y}, .weights = {}, .noise_sigma = 1, .prox = {}},
                               make_poisson_loss(1, background, 1), space);
  }
};

// With the identity the likeliest image is the counts over the background, 0 where they lie below it.
TEST(RichardsonLucy, ReachesTheLikeliestImage) {
  test::on_groups({1, 2, 5}, [](const Communicator& comm) {
    test::Stack parts;
    parts.push_back(make_identity());
    Counts c(comm, std::move(parts), 2, -2);
    test::KnownDenoiser denoiser;
    const auto solver =
        make_solver("richardson_lucy", {*c.data, denoiser, c.space, SolverOptions(), c.y.clone()});
    double movement = 1;
    for (int k = 0; k < 300; ++k) {
      const IterationRecord record = solver->step(k);
      c.reducer.launch();
      c.reducer.finish();
      movement = record.residual.value();
    }
    const at::Tensor wanted = c.y.clamp_min(0), error = solver->image() - wanted;
    EXPECT_LT(c.space.norm(error), 1e-2 * c.space.norm(wanted))
        << "where counts equal the background it is slow";
    EXPECT_LT(movement, 1e-3);
    double below = c.y.lt(0).sum().item<double>();
    comm.all_reduce({&below, 1}, Reduce::sum);
    EXPECT_GT(below, 0) << "some counts lie below the background";
    EXPECT_TRUE(solver->image().ge(0).all().item<bool>());
  });
}

// Shepp and Vardi: each step makes the counts likelier, and the image keeps their sum.
TEST(RichardsonLucy, GoesUpAndKeepsTheSumOnAnyRanks) {
  double on_one = 0;
  test::on_groups([&](const Communicator& comm) {
    test::Stack parts;
    parts.push_back(test::blur(gaussian_kernel({1.5, 0.8}, 20), Boundary::circular));
    Counts c(comm, std::move(parts), 0, 1);
    test::KnownDenoiser denoiser;
    const auto solver =
        make_solver("richardson_lucy", {*c.data, denoiser, c.space, SolverOptions(), at::zeros_like(c.y)});
    const at::Tensor one = at::ones_like(c.y);
    double before = std::numeric_limits<double>::infinity();
    for (int k = 0; k < 30; ++k) {
      solver->step(k);
      const Deferred misfit = c.data->objective();
      c.reducer.launch();
      c.reducer.finish();
      EXPECT_LT(misfit.value(), before) << k;
      before = misfit.value();
      EXPECT_NEAR(c.space.dot(solver->image(), one), c.space.dot(c.y, one), 1e-9 * c.space.dot(c.y, one))
          << k;
    }
    const double energy = c.space.norm(solver->image());
    if (on_one == 0) on_one = energy;
    EXPECT_NEAR(energy, on_one, 1e-10 * on_one);
  });
}

TEST(RichardsonLucy, IsForCountsAlone) {
  if (test::other_rank()) return;
  const Communicator comm;
  test::KnownDenoiser denoiser;
  const auto refusal = [&](DataTerm& data, const Space& space, const at::Tensor& start) -> std::string {
    try {
      make_solver("richardson_lucy", {data, denoiser, space, SolverOptions(), start.clone()});
    } catch (const InputError& e) {
      return e.what();
    }
    return {};
  };
  Reducer reducer(comm);
  const Space space(comm, &reducer);
  test::Stack pixels;
  pixels.push_back(make_identity());
  const Counts of(comm, std::move(pixels), 0, 0);
  const auto squares =
      make_least_squares({.A = of.A, .y = {of.y}, .weights = {}, .noise_sigma = 1, .prox = {}}, space);
  EXPECT_NE(refusal(*squares, space, of.y).find("the solver is for counts"), std::string::npos);
  const auto counts = [&](double least, double tap) {
    test::Stack parts;
    at::Tensor taps = at::ones({1, 1, 3}, at::kDouble);
    taps[0][0][0] = tap;
    parts.push_back(test::blur(taps, Boundary::circular));
    const Counts c(comm, std::move(parts), 0, least);
    return refusal(*c.data, c.space, c.y);
  };
  EXPECT_EQ(counts(0, 1), "");
  EXPECT_NE(counts(0, -0.5).find("the operator may have entries below zero (the solver multiplies"),
            std::string::npos);
  EXPECT_NE(counts(-9, 1).find(" samples lie below zero (the solver multiplies"), std::string::npos);
  EXPECT_NE(counts(-9, -0.5).find("entries below zero, and "), std::string::npos);
}

}  // namespace
}  // namespace tessera
