// SPDX-License-Identifier: BSD-3-Clause
// One strength for all solvers: what a job leaves open follows from sigma^2 = step lambda noise^2.
#include "tessera/solve/strength.hpp"

#include <ATen/ops/ones_like.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "solve/diagonal_problem.hpp"
#include "support/groups.hpp"
#include "tessera/core/error.hpp"
#include "tessera/solve/solver.hpp"

namespace tessera {
namespace {

using Values = std::vector<double>;

TEST(Strength, OpenKeysFollowFromTheOthers) {
  const double s = 0.02, L = 8;
  const Strength open = settle({}, DataStep::gradient, 1, s, L);
  EXPECT_DOUBLE_EQ(open.step.at(0), 1 / L);
  EXPECT_DOUBLE_EQ(open.sigma.at(0), s / std::sqrt(L));
  EXPECT_DOUBLE_EQ(*open.lambda, 1);

  const Strength stronger = settle({.lambda = 4}, DataStep::prox, 0.23, s, L);
  EXPECT_DOUBLE_EQ(stronger.sigma.at(0), 2 * s / std::sqrt(L));

  const Strength falling = settle({.sigma = Values{0.08, 0.04}, .lambda = 0.5}, DataStep::prox, 0.23, s, L);
  EXPECT_DOUBLE_EQ(falling.step.at(0), 0.08 * 0.08 / (0.5 * s * s));
  EXPECT_DOUBLE_EQ(falling.step.at(5), 0.04 * 0.04 / (0.5 * s * s));
}

// Finding 11: a schedule that is not spelled dpir had the penalty 1 throughout.
TEST(Strength, PenaltiesFollowASigmaAlone) {
  const Strength s = settle({.sigma = Values{0.1, 0.01}}, DataStep::prox, 0.23, 0.01, 2);
  EXPECT_DOUBLE_EQ(s.step.at(1), 0.5);
  EXPECT_DOUBLE_EQ(s.step.at(0), 50);
  EXPECT_DOUBLE_EQ(*s.lambda, 2);
  EXPECT_DOUBLE_EQ(settle({.sigma = 0.01}, DataStep::gradient, 1, 0.01, 2).step.at(0), 0.5);
}

// Finding 12: eight stacked blurs counted the prior eight times.
TEST(Strength, AStackOfEightWithEightTimesTheVarianceIsOneMeasurement) {
  for (const DataStep kind : {DataStep::gradient, DataStep::prox}) {
    const Strength one = settle({.lambda = 0.7}, kind, 1, 0.01, 1);
    const Strength eight = settle({.lambda = 0.7}, kind, 1, 0.01 * std::sqrt(8.0), 8);
    EXPECT_NEAR(one.sigma.at(0), eight.sigma.at(0), 1e-15);
    EXPECT_NEAR(one.step.at(0), 8 * eight.step.at(0), 1e-15);  // grad f is eight times as long
  }
}

TEST(Strength, ThreeKeysOrNoNoiseLevelAreRefused) {
  EXPECT_THROW(settle({.step = 1, .sigma = 0.1, .lambda = 1}, DataStep::prox, 1, 0.1, 1), InputError);
  EXPECT_THROW(settle({}, DataStep::gradient, 1, 0, 1), InputError);
  EXPECT_THROW(settle({.lambda = -1}, DataStep::gradient, 1, 0.1, 1), InputError);
  EXPECT_NO_THROW(settle({.sigma = 0.1}, DataStep::gradient, 1, 0, 1));
}

// The prox of sigma^2 g, g = mu |x|_1: with it every solver knows its minimizer.
class SoftThreshold final : public Denoiser {
 public:
  double mu = 0;
  void apply(const at::Tensor& in, double sigma, at::Tensor& out) override {
    out.copy_(test::soft(in, mu * sigma * sigma));
  }
  at::Tensor prior(const at::Tensor& x, double sigma) override {
    return at::abs(x).sum().mul(mu * sigma * sigma);
  }
  std::int64_t bytes_sent() const override { return 0; }
  std::string description() const override { return "soft threshold"; }
};

TEST(Strength, AllSolversSolveTheSameProblem) {
  constexpr double kNoise = 0.3, kLambda = 2, kMu = 0.4;
  test::on_groups([&](const Communicator& comm) {
    Reducer reducer(comm);
    const Space space(comm, &reducer);
    test::DiagonalTerm data(comm, space, 60);
    SoftThreshold denoiser;
    denoiser.mu = kMu;
    const double weight = kLambda * kNoise * kNoise * kMu;  // of |x|_1 beside f
    const at::Tensor wanted = test::soft(data.a * data.y, weight) / (data.a * data.a);
    const double least = data.value(wanted) + weight * space.dot(at::abs(wanted), at::ones_like(wanted));
    for (const char* name : {"pgd", "fista", "admm"}) {
      const Strength s =
          settle({.lambda = kLambda}, find_solver(name).data_step, 1, kNoise, data.lipschitz());
      SolverOptions o;
      o.step = s.step;
      o.sigma = s.sigma;
      const auto solver = make_solver(name, {data, denoiser, space, o, data.y.clone()});
      double objective = 0;  // as the loop adds it up
      for (int k = 0; k < 400; ++k) {
        const IterationRecord record = solver->step(k);
        const Deferred value = data.objective();
        reducer.launch();
        reducer.finish();
        if (k > 0 && name == std::string("pgd")) {
          EXPECT_LE(value.value() + record.prior.value(), objective * (1 + 1e-12)) << "it falls, " << k;
        }
        objective = value.value() + record.prior.value();
      }
      EXPECT_NEAR(objective, least, 1e-5 * least) << name;
      EXPECT_LT(space.norm(solver->image() - wanted), 1e-5 * space.norm(wanted)) << name;
    }
  });
}

}  // namespace
}  // namespace tessera
