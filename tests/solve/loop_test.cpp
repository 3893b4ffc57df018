// SPDX-License-Identifier: BSD-3-Clause
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full_like.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "solve/diagonal_problem.hpp"
#include "support/groups.hpp"
#include "tessera/solve/observer.hpp"
#include "tessera/solve/watch.hpp"

namespace tessera {
namespace {

using test::DiagonalTerm;
using test::KnownDenoiser;

class Recorder final : public Observer {
 public:
  std::vector<IterationResult> results;
  StopReason reason = StopReason::none;
  void on_result(const IterationResult& r) override { results.push_back(r); }
  void at_end(StopReason r) override { reason = r; }
};

// Image k + 1 = factors[k] * ones, so every number of the loop is known.
class Scripted final : public Solver {
 public:
  Scripted(at::Tensor start, const Space& space, std::vector<double> values)
      : x_(std::move(start)), before_(x_.clone()), space_(space), values_(std::move(values)) {}
  const at::Tensor& image() const override { return x_; }
  const at::Tensor& previous() const override { return before_; }
  IterationRecord step(int k) override {
    const at::Tensor next = at::full_like(x_, values_.at(static_cast<std::size_t>(k))), moved = next - x_;
    before_.copy_(x_);
    x_.copy_(next);
    return {.step = 1, .sigma = 0.1, .residual = space_.relative_norm(moved, x_)};
  }
  std::vector<StateField> state() override { return {{.name = "x", .image = &x_}}; }

 private:
  at::Tensor x_, before_;
  const Space& space_;
  std::vector<double> values_;
};

void script(std::vector<double> values, const StopRule& stop, StopReason reason, double image, int iterations,
            const std::function<bool()>& stop_requested = {}) {
  test::on_groups([&](const Communicator& comm) {
    Reducer reducer(comm);
    const Space space(comm, &reducer);
    DiagonalTerm data(comm, space, 60);
    Scripted solver(at::full_like(data.y, 0.5), space, values);
    Recorder recorder;
    const LoopResult result =
        run_loop({solver, data, reducer, space, stop, nullptr, {&recorder}, stop_requested, 60.0});
    EXPECT_EQ(result.reason, reason) << name(result.reason);
    EXPECT_EQ(recorder.reason, reason);
    EXPECT_EQ(result.iterations, iterations);
    ASSERT_EQ(recorder.results.size(), static_cast<std::size_t>(iterations));
    for (int k = 0; k < iterations; ++k)
      EXPECT_EQ(recorder.results[static_cast<std::size_t>(k)].iteration, k);
    if (result.image.numel() > 0) {
      EXPECT_DOUBLE_EQ(result.image.flatten()[0].item().toDouble(), image);
    }
  });
}

// Rests wherever it may, and remembers where the loop and the image stood.
class Rester final : public Observer {
 public:
  explicit Rester(const Solver& solver) : solver_(solver) {}
  bool wants_rest(int) override { return true; }
  void at_rest(const LoopState& state) override {
    rests.push_back({state, solver_.image().clone(), best.clone()});
  }
  struct Rest {
    LoopState state;
    at::Tensor image, best;
  };
  std::vector<Rest> rests;
  at::Tensor best;  // the loop's

 private:
  const Solver& solver_;
};

// The same end from wherever the loop rested, as if it had never been stopped.
void resumes(const std::vector<double>& values, const StopRule& rule, StopReason reason, double image,
             int iterations) {
  test::on_groups([&](const Communicator& comm) {
    Reducer reducer(comm);
    const Space space(comm, &reducer);
    DiagonalTerm data(comm, space, 60);
    const auto run = [&](Solver& solver, Observer& observer, const LoopState& begin, at::Tensor& best) {
      const LoopResult result = run_loop({.solver = solver,
                                          .data = data,
                                          .reducer = reducer,
                                          .space = space,
                                          .stop = rule,
                                          .observers = {&observer},
                                          .pixels = 60.0,
                                          .begin = begin,
                                          .best = &best});
      EXPECT_EQ(result.reason, reason) << name(result.reason) << " from " << begin.iterations;
      EXPECT_EQ(result.iterations, iterations) << "from " << begin.iterations;
      if (result.image.numel() > 0) {
        EXPECT_DOUBLE_EQ(result.image.flatten()[0].item().toDouble(), image) << "from " << begin.iterations;
      }
    };
    Scripted solver(at::full_like(data.y, 0.5), space, values);
    Rester rester(solver);
    rester.best = solver.image().clone();
    run(solver, rester, {}, rester.best);
    ASSERT_GE(rester.rests.size(), 2u);
    for (auto& [state, at, best] : rester.rests) {
      Scripted again(at.clone(), space, values);
      Recorder recorder;
      run(again, recorder, state, best);
      EXPECT_EQ(recorder.results.size(), static_cast<std::size_t>(iterations - state.iterations));
    }
  });
}

const double nan = std::numeric_limits<double>::quiet_NaN();

TEST(Loop, RunsToItsLimit) { script({1, 2, 3}, {.iterations = 3}, StopReason::limit, 3, 3); }

TEST(Loop, AResidualBelowTheRuleStopsOneStepLater) {
  script({1, 1.0001, 5, 9}, {.iterations = 4, .residual = 1e-3}, StopReason::converged, 5, 3);
}

TEST(Loop, TheLastIterationMayConvergeToo) {
  script({1, 1.0001}, {.iterations = 2, .residual = 1e-3}, StopReason::converged, 1.0001, 2);
}

TEST(Loop, NanKeepsTheImageOfTheSmallestResidual) {
  script({1, 1.5, nan, nan, nan}, {.iterations = 5}, StopReason::diverged, 1.5, 3);
  script({1, 5, nan, nan}, {.iterations = 4}, StopReason::diverged, 1, 3);
  script({1, nan}, {.iterations = 2}, StopReason::diverged, 1, 2);
  script({nan, 1}, {.iterations = 2}, StopReason::diverged, 0.5, 1);
}

TEST(Loop, AnImageThatLeavesItsRangeDiverges) {
  script({1, 1.2, 4, 400, 8000, 1}, {.iterations = 6}, StopReason::diverged, 1.2, 4);
}

// Moves by less and less for `calm` iterations, then by `factor` times more in each one.
std::vector<double> pattern_that_grows(int calm, int iterations, double factor) {
  std::vector<double> values;
  double x = 1, move = 0.1;
  for (int k = 0; k < iterations; ++k) {
    values.push_back(x += move);
    move *= k < calm ? 0.9 : factor;
  }
  return values;
}

// What a loop of these values keeps: an image of about iteration 68.
void keeps_the_calm_image(const std::vector<double>& values, StopReason reason, int iterations,
                          const std::string& cause) {
  test::on_groups([&](const Communicator& comm) {
    Reducer reducer(comm);
    const Space space(comm, &reducer);
    DiagonalTerm data(comm, space, 60);
    Scripted solver(at::full_like(data.y, 0.5), space, values);
    const int most = static_cast<int>(values.size());
    const LoopResult result =
        run_loop({solver, data, reducer, space, {.iterations = most}, nullptr, {}, nullptr, 60.0});
    EXPECT_EQ(result.reason, reason);
    EXPECT_NEAR(result.kept, 68, 4);
    EXPECT_LE(result.iterations, iterations);
    EXPECT_NE(result.cause.find(cause), std::string::npos) << result.cause;
    if (result.image.numel() > 0) {
      EXPECT_EQ(result.image.flatten()[0].item().toDouble(), values[static_cast<std::size_t>(result.kept)]);
    }
  });
}

TEST(Loop, ASlowlyGrowingPatternEndsTheRunWithTheCalmImage) {
  keeps_the_calm_image(pattern_that_grows(60, 300, 1.05), StopReason::diverged, 130, "grown since iteration");
}

TEST(Loop, AResidualThatDoubledByTheEndPrefersTheBestImage) {
  keeps_the_calm_image(pattern_that_grows(60, 100, 1.045), StopReason::limit, 100, "has doubled since");
}

TEST(Loop, AFallingScheduleIsNoGrowth) {
  Watch watch;
  for (int k = 0; k < 60; ++k)
    EXPECT_EQ(watch.see(k, 1e-3 * (1 + k), 1, /*settled=*/false), Watch::Verdict::best);
  EXPECT_EQ(watch.see(60, 1e-2, 1, true), Watch::Verdict::best);
  for (int k = 61; k < 200; ++k)  // a floor with noise
    EXPECT_NE(watch.see(k, 1e-2 * (1 + 0.5 * std::sin(k)), 1, true), Watch::Verdict::growing) << k;
  EXPECT_FALSE(watch.better_than(199));
}

TEST(Loop, DataThatAreLeftAgainCountAsGrowth) {
  Watch watch;
  Watch::Verdict last = Watch::Verdict::best;
  for (int k = 0; k < 100; ++k) last = watch.see(k, k < 40 ? 1e-2 / (1 + k) : 5e-4, k < 40 ? 1.0 : 3.0, true);
  EXPECT_EQ(last, Watch::Verdict::growing);
}

TEST(Loop, MovementsByRoundingAloneEndTheRun) {
  const double twice = 1 + 2.3e-7, back = 1;  // the last bit but one of a float
  const StopRule rule{.iterations = 8, .rounding = true};
  script({1, twice, back, twice, back, 9, 9, 9}, rule, StopReason::converged, back, 5);
  resumes({1, twice, back, twice, back, 9, 9, 9}, rule, StopReason::converged, back, 5);
  // One real movement in between counts anew; without the rule nothing ends.
  script({1, twice, back, 1 + 1e-6, back, twice, back, twice}, rule, StopReason::converged, twice, 8);
  script({1, twice, back, 1 + 1e-6, back, twice, 9, 9}, rule, StopReason::limit, 9, 8);
  script({1, 1, 1, 1, 1, 9, 9, 9}, {.iterations = 8}, StopReason::limit, 9, 8);
}

TEST(Loop, AStopAskedForEndsTheRun) {
  script(
      {1, 2, 3, 4}, {.iterations = 4}, StopReason::stopped, 2, 2, +[] { return true; });
}

TEST(Loop, ARestChangesNothingAndARunGoesOnFromIt) {
  resumes({1, 2, 3, 4, 5}, {.iterations = 5}, StopReason::limit, 5, 5);
  resumes({1, 2, 3, 3.0001, 6, 9, 9}, {.iterations = 7, .residual = 1e-3}, StopReason::converged, 6, 5);
  resumes({1, 2, 3, 3.0001}, {.iterations = 4, .residual = 1e-3}, StopReason::converged, 3.0001, 4);
  resumes({1, 1.5, 1.8, 400, 8000, 1}, {.iterations = 6}, StopReason::diverged, 1.8, 4);
}

TEST(Loop, AFinishedOneHasNothingLeftUnlessItsRuleChanges) {
  LoopState state;
  state.iterations = 5;
  state.reason = StopReason::converged;
  state.decisive.residual = 1e-4;
  EXPECT_TRUE(finished(state, {.iterations = 20, .residual = 1e-3}));
  EXPECT_FALSE(finished(state, {.iterations = 20, .residual = 1e-5}));
  EXPECT_FALSE(finished(state, {.iterations = 20}));
  state.stood = true;
  EXPECT_TRUE(finished(state, {.iterations = 20, .rounding = true}));
  EXPECT_FALSE(finished(state, {.iterations = 20, .residual = 1e-3}));
  state.reason = StopReason::limit;
  EXPECT_TRUE(finished(state, {.iterations = 5}));
  EXPECT_FALSE(finished(state, {.iterations = 6}));
}

TEST(Loop, AStopAskedForInTheLastIterationYieldsToTheLimit) {
  script(
      {1, 2}, {.iterations = 2}, StopReason::limit, 2, 2, +[] { return true; });
}

TEST(Loop, NoIterationsLeaveTheStart) { script({}, {.iterations = 0}, StopReason::limit, 0.5, 0); }

TEST(Loop, ChiSquareBelowTheRuleIsTheDiscrepancyPrinciple) {
  test::on_groups([&](const Communicator& comm) {
    Reducer reducer(comm);
    const Space space(comm, &reducer);
    DiagonalTerm data(comm, space, 60);
    KnownDenoiser denoiser;
    SolverOptions options;
    options.sigma = 0.1;
    const auto solver = make_solver("pgd", {data, denoiser, space, options, at::full_like(data.y, 0.0)});
    Recorder recorder;
    const LoopResult result = run_loop({*solver,
                                        data,
                                        reducer,
                                        space,
                                        {.iterations = 500, .chi2 = 1e-3},
                                        nullptr,
                                        {&recorder},
                                        nullptr,
                                        60});
    EXPECT_EQ(result.reason, StopReason::converged);
    EXPECT_LT(result.iterations, 100);
    EXPECT_LT(result.last.chi2, 1e-3);
    EXPECT_GT(recorder.results.front().chi2, 1e-2);
  });
}

}  // namespace
}  // namespace tessera
