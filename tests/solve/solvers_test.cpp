// SPDX-License-Identifier: BSD-3-Clause
// Every solver reaches a minimizer (or fixed point) that is known in closed form, on any number of ranks.
#include <ATen/ops/ones_like.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "solve/diagonal_problem.hpp"
#include "support/groups.hpp"
#include "tessera/core/error.hpp"

namespace tessera {
namespace {

using test::DiagonalTerm;
using test::KnownDenoiser;
using test::soft;

constexpr std::int64_t kTotal = 60;
constexpr double kMu = 0.07;  // weight of |x|_1

// Runs `name` and compares with the minimizer that `expected` makes of (a, y): thousands of iterations, whose
// ranks meet in sums alone.
void reaches(const std::string& name, const SolverOptions& options, double threshold, double shrink,
             const std::function<at::Tensor(const at::Tensor&, const at::Tensor&)>& expected) {
  test::on_groups({1, 2, 5}, [&](const Communicator& comm) {
    Reducer reducer(comm);
    const Space space(comm, &reducer);
    DiagonalTerm data(comm, space, kTotal);
    KnownDenoiser denoiser;
    denoiser.threshold = threshold;
    denoiser.shrink = shrink;
    const SolverInput input{data, denoiser, space, options, data.y.clone()};
    const auto solver = make_solver(name, input);
    double movement = 1;
    for (int k = 0; k < options.iterations; ++k) {
      const IterationRecord record = solver->step(k);
      reducer.launch();
      reducer.finish();
      movement = record.residual.value();
    }
    const at::Tensor wanted = expected(data.a, data.y), error = solver->image() - wanted;
    EXPECT_LT(space.norm(error), 1e-8 * space.norm(wanted)) << name;
    EXPECT_LT(movement, 1e-8) << name;
    EXPECT_FALSE(solver->state().empty());
  });
}

at::Tensor lasso(const at::Tensor& a, const at::Tensor& y) { return soft(a * y, kMu) / (a * a); }

SolverOptions options(double step, int iterations) {
  SolverOptions o;
  o.step = step;
  o.sigma = 0.1;
  o.iterations = iterations;
  return o;
}

TEST(Solvers, ProximalGradientReachesTheLassoMinimizer) {
  reaches("pgd", options(1.2, 800), 1.2 * kMu, 1, lasso);
}

TEST(Solvers, RelaxedProximalGradientHasTheSameFixedPoint) {
  SolverOptions o = options(1.0, 1500);
  o.own.set("relaxation", 0.6);
  reaches("pgd", o, kMu, 1, lasso);
}

TEST(Solvers, FistaReachesTheLassoMinimizer) { reaches("fista", options(1.0, 3000), kMu, 1, lasso); }

// Finding 6: the momentum was (k + a - 1) / (k + a), which has no rate.
TEST(Solvers, FistaExtrapolatesAsChambolleAndDossalDo) {
  const Communicator comm;
  Reducer reducer(comm);
  const Space space(comm, &reducer);
  DiagonalTerm data(comm, space, kTotal);
  KnownDenoiser denoiser;
  SolverOptions o = options(1.0, 3);
  o.own.set("momentum", 4.0);
  const auto solver = make_solver("fista", {data, denoiser, space, o, at::zeros_like(data.y)});
  at::Tensor x = at::zeros_like(data.y), z = x.clone();
  for (int n = 1; n <= 3; ++n) {
    solver->step(n - 1);
    reducer.launch();
    reducer.finish();
    const at::Tensor next = z - data.a * (data.a * z - data.y);
    z = next + (next - x) * ((n - 1) / (n + 4.0));
    x = next;
    EXPECT_LT(space.norm(solver->image() - x), 1e-14) << n;
  }
}

TEST(Solvers, FistaStartsAnewAndBeatsThePlainStep) {
  if (test::other_rank()) return;
  const Communicator comm;
  Reducer reducer(comm);
  const Space space(comm, &reducer);
  DiagonalTerm data(comm, space, kTotal);
  KnownDenoiser denoiser;
  const at::Tensor wanted = data.y / data.a;
  double error[2];
  for (int i = 0; i < 2; ++i) {
    const auto solver = make_solver(i == 0 ? "pgd" : "fista",
                                    {data, denoiser, space, options(1.0, 200), at::zeros_like(data.y)});
    for (int k = 0; k < 200; ++k) {
      solver->step(k);
      reducer.launch();
      reducer.finish();
    }
    error[i] = space.norm(solver->image() - wanted);
  }
  // Linear convergence, which momentum that never starts anew does not have on a strongly convex f.
  EXPECT_LT(error[1], 1e-3 * error[0]);
}

// A denoiser whose Jacobian turns pairs of pixels by 0.2: the plain step contracts by 0.97, momentum makes
// the turning grow, and so does one that only starts anew.
TEST(Solvers, FistaStandsWhereMomentumMakesTheDenoiserTurn) {
  if (test::other_rank()) return;
  class Turning final : public Denoiser {
   public:
    void apply(const at::Tensor& in, double, at::Tensor& out) override {
      const double c = 0.97 * std::cos(0.2), s = 0.97 * std::sin(0.2);
      const at::Tensor pairs = in.reshape({1, 1, kTotal / 2, 2}), p = pairs.select(3, 0),
                       q = pairs.select(3, 1);
      out.copy_(at::stack({p * c - q * s, p * s + q * c}, 3).reshape_as(out));
    }
    std::int64_t bytes_sent() const override { return 0; }
    std::string description() const override { return "turning"; }
  } denoiser;
  const Communicator comm;
  Reducer reducer(comm);
  const Space space(comm, &reducer);
  DiagonalTerm data(comm, space, kTotal);
  at::Tensor reached[2];
  for (int i = 0; i < 2; ++i) {
    const auto solver = make_solver(i == 0 ? "pgd" : "fista",
                                    {data, denoiser, space, options(1.0, 3000), at::zeros_like(data.y)});
    for (int k = 0; k < 3000; ++k) {
      solver->step(k);
      reducer.launch();
      reducer.finish();
    }
    reached[i] = solver->image().clone();
  }
  EXPECT_LT(space.norm(reached[1] - reached[0]), 1e-8 * space.norm(reached[0]));
}

TEST(Solvers, BoundsHoldInEverySolverAndTheMinimizerIsTheProjectedOne) {
  for (const char* name : {"pgd", "fista", "hqs", "admm", "red"}) {
    test::on_groups([&](const Communicator& comm) {
      Reducer reducer(comm);
      const Space space(comm, &reducer);
      DiagonalTerm data(comm, space, kTotal);
      KnownDenoiser denoiser;  // no prior
      SolverOptions o = options(1.0, 150);
      o.least = 0;
      o.most = 0.4;
      if (std::string(name) == "red") o.step = 0.9, o.weight = 1e-3;
      const auto solver = make_solver(name, {data, denoiser, space, o, at::zeros_like(data.y)});
      for (int k = 0; k < o.iterations; ++k) {
        solver->step(k);
        reducer.launch();
        reducer.finish();
        const at::Tensor x = solver->image();
        EXPECT_TRUE(((x >= 0).logical_and(x <= 0.4)).all().item<bool>()) << name << k;
      }
      const at::Tensor wanted = at::clamp(data.y / data.a, 0.0, 0.4);  // f is a sum over pixels
      EXPECT_LT(space.norm(solver->image() - wanted), 1e-2 * space.norm(wanted)) << name;
    });
  }
}

// Finding 4: splitting methods told the misfit of u, which the data step has just fitted, not that of the
// image.
TEST(Solvers, TheMisfitIsThatOfTheImage) {
  for (const char* name : {"hqs", "admm"}) {
    test::on_groups([&](const Communicator& comm) {
      Reducer reducer(comm);
      const Space space(comm, &reducer);
      DiagonalTerm data(comm, space, kTotal);
      KnownDenoiser denoiser;
      denoiser.threshold = 0.2;  // far from u
      const auto solver = make_solver(name, {data, denoiser, space, options(50, 3), data.y.clone()});
      for (int k = 0; k < 3; ++k) {
        solver->step(k);
        const Deferred misfit = data.objective();
        reducer.launch();
        reducer.finish();
        const double wanted = data.value(solver->image());
        EXPECT_NEAR(misfit.value(), wanted, 1e-12 * wanted) << name << ", " << k;
      }
    });
  }
}

// Finding 16: x stood still while u and x were apart, and the loop called it converged.
TEST(Solvers, AdmmIsNotDoneWhileItsTwoImagesDiffer) {
  if (test::other_rank()) return;
  const Communicator comm;
  Reducer reducer(comm);
  const Space space(comm, &reducer);
  DiagonalTerm data(comm, space, kTotal);
  KnownDenoiser denoiser;
  denoiser.threshold = 10;  // x is 0 in every iteration
  const auto solver = make_solver("admm", {data, denoiser, space, options(1.0, 1), at::zeros_like(data.y)});
  const IterationRecord record = solver->step(0);
  reducer.launch();
  reducer.finish();
  EXPECT_EQ(space.norm(solver->image()), 0);
  EXPECT_GT(record.residual.value(), 1);
}

TEST(Solvers, AdmmWithAFallingPenaltyReachesTheMinimizer) {
  SolverOptions o = options(1.0, 800);
  o.step = std::vector<double>{8, 4, 2, 1};
  reaches("admm", o, kMu, 1, lasso);
}

TEST(Solvers, AdmmReachesTheLassoMinimizer) {
  SolverOptions o = options(2.0, 800);
  reaches("admm", o, 2.0 * kMu, 1, lasso);
  o.own.set("dual_step", 1.4);
  reaches("admm", o, 2.0 * kMu, 1, lasso);
}

TEST(Solvers, HalfQuadraticSplittingReachesTheMinimizerOfItsPenalty) {
  const double gamma = 0.5;
  reaches("hqs", options(gamma, 3000), gamma * kMu, 1, [&](const at::Tensor& a, const at::Tensor& y) {
    // min gamma f(u) + gamma mu |x|_1 + |u - x|^2 / 2, coordinate by coordinate: u = (a y -+ mu) / a^2 where
    // x != 0.
    return soft(soft(a * y, kMu) / (a * a), gamma * kMu);
  });
}

TEST(Solvers, RedReachesTheMinimizerOfItsQuadratic) {
  SolverOptions o = options(0.8, 1500);
  o.weight = 0.3;
  reaches("red", o, 0, 0.5,
          [](const at::Tensor& a, const at::Tensor& y) { return a * y / (a * a + 0.3 * (1 - 0.5)); });
}

TEST(Solvers, GradientStepReachesTheMinimizerOfItsObjective) {
  for (const double first : {0.0, 40.0}) {  // a step that diverges unless it is shortened
    SolverOptions o = options(first, 150);
    if (first == 0) o.step = {};
    o.weight = 0.3;
    reaches("gspnp", o, 0, 0.5, [](const at::Tensor& a, const at::Tensor& y) {
      return 0.5 * a * y / (a * a + 0.3 * (1 - 0.5));  // D of the minimizer of f + 0.3 |x|^2 / 4
    });
  }
}

TEST(Solvers, GradientStepGoesDownInEveryStep) {
  test::on_groups([&](const Communicator& comm) {
    Reducer reducer(comm);
    const Space space(comm, &reducer);
    DiagonalTerm data(comm, space, kTotal);
    KnownDenoiser denoiser;
    denoiser.threshold = 0.2;
    SolverOptions o = options(1e9, 60);  // 33 halvings away from one that fits
    o.weight = 0.5;
    const auto solver = make_solver("gspnp", {data, denoiser, space, o, data.y.clone()});
    double before = std::numeric_limits<double>::infinity(), last = 1e9;
    for (int k = 0; k < o.iterations; ++k) {
      const IterationRecord record = solver->step(k);
      const Deferred misfit = data.objective();
      reducer.launch();
      reducer.finish();
      const double now = misfit.value() + record.prior.value();
      EXPECT_LE(now, before * (1 + 1e-12)) << k;
      EXPECT_LE(record.step, last) << "a step that was shortened stays short, " << k;
      before = now;
      last = record.step;
    }
    EXPECT_LT(last, 100);
    EXPECT_GT(last, 0.1) << "and no shorter than it has to be";
    EXPECT_EQ(comm.all_gather(before).front(), before);
  });
}

// D is the prox of t |.|_1: with gamma = 1 that is pgd on the lasso, and phi is t |x|_1 to the last bits.
TEST(Solvers, ProxPnpReachesTheLassoMinimizer) {
  SolverOptions o = options(1.2, 800);
  o.weight = 1 / 1.2;
  reaches("proxpnp", o, 1.2 * kMu, 1, lasso);
}

TEST(Solvers, ProxPnpKnowsTheObjectiveOfTheLasso) {
  test::on_groups([&](const Communicator& comm) {
    Reducer reducer(comm);
    const Space space(comm, &reducer);
    DiagonalTerm data(comm, space, kTotal);
    KnownDenoiser denoiser;
    denoiser.threshold = kMu;
    SolverOptions o = options(1, 20);
    const auto solver = make_solver("proxpnp", {data, denoiser, space, o, data.y.clone()});
    double before = std::numeric_limits<double>::infinity();
    for (int k = 0; k < o.iterations; ++k) {
      const IterationRecord record = solver->step(k);
      const at::Tensor x = solver->image(), r = data.a * x - data.y;
      double sums[] = {0.5 * space.dot(r, r), kMu * space.dot(at::abs(x), at::ones_like(x))};
      EXPECT_NEAR(data.objective().value(), sums[0], 1e-12);
      EXPECT_NEAR(record.prior.value(), sums[1], 1e-12);
      EXPECT_EQ(record.step, 1) << "nothing to shorten";
      EXPECT_LE(sums[0] + sums[1], before * (1 + 1e-12)) << k;
      before = sums[0] + sums[1];
    }
  });
}

// D(x) = x / 2, so z - gamma grad g(z) = c z with c = 1 - gamma / 2, gamma = tau w: phi / tau is a square.
TEST(Solvers, ProxPnpReachesTheMinimizerOfItsObjective) {
  const double w = 0.3;
  for (const double tau : {1.0, 0.4}) {
    SolverOptions o = options(tau, 400);
    if (tau == 1) o.step = {};  // 1 / L
    o.weight = w;
    reaches("proxpnp", o, 0, 0.5, [&](const at::Tensor& a, const at::Tensor& y) {
      return a * y / (a * a + 0.5 * w / (1 - 0.5 * tau * w));
    });
  }
}

// D(x) = -2 x turns the image over: grad g(x) = 3 x expands, and gamma becomes 1/4, the first below 1/3.
TEST(Solvers, ProxPnpShortensItsStepWhereTheDenoiserIsNoProximalMap) {
  SolverOptions o = options(1, 60);
  reaches("proxpnp", o, 0, -2,
          [](const at::Tensor& a, const at::Tensor& y) { return a * y / (a * a + 3 / (1 - 0.75)); });
  test::on_groups([&](const Communicator& comm) {
    Reducer reducer(comm);
    const Space space(comm, &reducer);
    DiagonalTerm data(comm, space, kTotal);
    KnownDenoiser denoiser;
    denoiser.shrink = -2;
    const auto solver = make_solver("proxpnp", {data, denoiser, space, o, data.y.clone()});
    double before = std::numeric_limits<double>::infinity();
    for (int k = 0; k < o.iterations; ++k) {
      const IterationRecord record = solver->step(k);
      const double now = data.objective().value() + record.prior.value();
      EXPECT_EQ(record.step, 0.25) << k;
      EXPECT_GE(record.prior.value(), 0) << k;
      EXPECT_LE(now, before * (1 + 1e-12)) << k;
      before = now;
    }
    EXPECT_EQ(comm.all_gather(before).front(), before);
  });
}

// A curvature L of f that was found too small: the steps are shortened until the objective falls.
TEST(Solvers, ProxPnpShortensItsStepWhereTheDataAreSteeperThanTheySay) {
  test::on_groups([&](const Communicator& comm) {
    Reducer reducer(comm);
    const Space space(comm, &reducer);
    DiagonalTerm data(comm, space, kTotal);
    data.a.mul_(4);  // L is 16, and said to be 1
    KnownDenoiser denoiser;
    denoiser.shrink = 0.5;
    SolverOptions o = options(1, 800);
    o.weight = 0.5;
    const auto solver = make_solver("proxpnp", {data, denoiser, space, o, data.y.clone()});
    double before = std::numeric_limits<double>::infinity(), step = 1, residual = 1;
    for (int k = 0; k < o.iterations; ++k) {
      const IterationRecord record = solver->step(k);
      const double now = data.objective().value() + record.prior.value();
      EXPECT_LE(now, before * (1 + 1e-12)) << k;
      EXPECT_LE(record.step, step) << k;
      before = now;
      step = record.step;
      residual = record.residual.value();
    }
    EXPECT_LE(step, 0.125);
    EXPECT_GE(step, 0.03125) << "and no shorter than it has to be";
    EXPECT_LT(residual, 1e-8);
  });
}

TEST(Solvers, DescentWithoutAPotentialSaysSo) {
  if (test::other_rank()) return;
  class Plain final : public Denoiser {
   public:
    void apply(const at::Tensor& in, double, at::Tensor& out) override { out.copy_(in); }
    std::int64_t bytes_sent() const override { return 0; }
    std::string description() const override { return "plain"; }
  } denoiser;
  const Communicator comm;
  Reducer reducer(comm);
  const Space space(comm, &reducer);
  DiagonalTerm data(comm, space, kTotal);
  for (const char* name : {"gspnp", "proxpnp"}) {
    const auto solver = make_solver(name, {data, denoiser, space, options(1, 1), data.y.clone()});
    EXPECT_THROW(solver->step(0), InputError) << name;
  }
}

TEST(Solvers, BadOptionsAreRefusedWithTheLimit) {
  if (test::other_rank()) return;
  const Communicator comm;
  Reducer reducer(comm);
  const Space space(comm, &reducer);
  DiagonalTerm data(comm, space, kTotal);
  KnownDenoiser denoiser;
  const auto refused = [&](const std::string& name, const SolverOptions& o, const std::string& part) {
    try {
      make_solver(name, {data, denoiser, space, o, data.y.clone()});
      ADD_FAILURE() << name << " took " << part;
    } catch (const InputError& e) {
      EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
    }
  };
  refused("pgd", options(2.5, 1), "solver.step is 2.5 (the iteration may diverge outside 0 < step < 2)");
  refused("fista", options(1.4, 1), "solver.step is 1.4 (the iteration may diverge outside 0 < step < 1.33");
  refused("hqs", options(-1, 1), "solver.step is -1 (the penalty gamma");
  refused("gspnp", options(-1, 1), "solver.step is -1 (the first step tau");
  SolverOptions list = options(1, 2);
  list.step = std::vector<double>{2, 1};
  for (const char* name : {"gspnp", "proxpnp"}) refused(name, list, "solver.step has 2 values");
  SolverOptions levels = options(1, 2);
  levels.sigma = std::vector<double>{0.2, 0.1};
  for (const char* name : {"gspnp", "proxpnp"}) refused(name, levels, "solver.sigma has 2 values");
  SolverOptions bounds = options(1, 1);
  bounds.least = 0;
  for (const char* name : {"gspnp", "proxpnp"}) refused(name, bounds, "solver.bounds are given");
  refused("proxpnp", options(1.6, 1), "solver.step is 1.6 (the iteration may diverge outside 0 < step < 1.5");
  refused("proxpnp", options(1.1, 1), "solver.step is 1.1 (step times the prior's weight");
  refused("pdg", options(1, 1), "solver.name is 'pdg' (no such solver) use one of pgd, fista");
  SolverOptions o = options(1, 1);
  o.own.set("dual_step", 2.0);
  refused("admm", o, "solver.dual_step is 2");
  o.own.set("momentum", 1.0);
  refused("fista", o, "solver.momentum is 1");
  o.own.set("relaxation", 1.5);
  refused("pgd", o, "solver.relaxation is 1.5");
}

}  // namespace
}  // namespace tessera
