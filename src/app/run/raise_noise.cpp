// SPDX-License-Identifier: BSD-3-Clause
// A model that is wrong somewhere: its error counts as noise.
#include <ATen/TensorOperators.h>
#include <ATen/ops/ones_like.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "job/solver_input.hpp"
#include "job/survey.hpp"
#include "run/job_run.hpp"
#include "tessera/domain/light.hpp"
#include "tessera/samples/tile_spectra.hpp"

namespace tessera {
namespace {

constexpr double kMostNoise = 0.2;

// A few steps down to the last level: rough, but grain shows in them as it does in the whole run.
struct Trial {
  double chi2 = 0, grain = 0;
};

Trial try_noise(JobRun& run, Denoiser& denoiser, const SolverOptions& options, const at::Tensor& start) {
  constexpr int kSteps = 4;
  SolverOptions o = options;
  o.iterations = kSteps;
  if (o.inertia > 0)  // what the limits below were chosen with
    o.inertia = std::clamp(0.5 - 10 * run.problem.noise_sigma, 0.2, 0.5);
  o.sigma = Schedule::log_space(options.sigma.values().front(), options.level, kSteps);
  std::vector<double> steps;
  for (const double sigma : o.sigma.values())
    steps.push_back(sigma * sigma / (options.lambda * run.problem.noise_sigma * run.problem.noise_sigma));
  o.step = Schedule(steps);
  const auto continued = make_continued(denoiser, options.level);
  const auto solver =
      make_solver(run.plan.job.solver.name, {*run.data, *continued, run.space, o, start.clone()});
  run.trial_iterations += kSteps;
  for (int k = 0; k < kSteps; ++k) {
    solver->step(k);
    run.reducer.finish();
    run.reducer.launch();
  }
  run.reducer.finish();
  run.data->value(solver->image());
  const at::Tensor shown =
      stored_of(solver->image().clamp(0, 1), run.problem.curve).to(at::kCPU, at::kFloat).contiguous();
  const TileSpectra tiles(shown, at::ones_like(shown), run.problem.A->domain(), 0, run.comm,
                          make_transport(run.comm, {}, TransportKind::mpi));
  return {.chi2 = run.data->chi2().value(), .grain = tiles.grain(run.comm)};
}

}  // namespace

void JobRun::set_noise(double noise, double L) {
  problem.noise_sigma = noise;
  data = make_data_term(plan, problem, space);
  fields = prefixed("data/", data->state());
  data->lipschitz();
  options = solver_options(plan, problem.noise_sigma, L, problem.marked);
  denoiser->set_noise(noise / std::sqrt(L));
}

void JobRun::raise_noise(double L) {
  const SolverRow& row = find_solver(plan.job.solver.name);
  if (!plan.job.solver.chosen.solver || row.once || row.data_step != DataStep::prox || !options.step.set() ||
      plan.job.problem.measurements.empty() || plan.job.problem.likelihood.type != "gaussian" ||
      !in_image_range(plan))
    return;
  const double found = problem.noise_sigma;
  raise_to_misfit(L);
  raise_over_grain(L);
  raised = problem.noise_sigma / found;
  if (raised == 1) return;
  level_said_ = problem.weights.empty() || problem.marked;  // all samples have one
}

// By measurement (docs/defaults.md): where operator and noise are right, the first proximal step, to which the prior is
// next to nothing, leaves 0.05 to 0.95 of the noise's variance; where light was blurred and its curve is taken for it,
// where compression took the noise or a kernel lets through what the true one does not, 1.8 and more.
void JobRun::raise_to_misfit(double L) {
  constexpr double kExplained = 1.3;
  constexpr double kColored = 2;  // an error of the model is not white
  constexpr int kTurns = 4;
  at::Tensor u = problem.A->make_image();
  const auto misfit = [&](double gamma) {
    data->prox(start_, gamma, u);
    data->value(u);
    return data->chi2().value();
  };
  const double found = problem.noise_sigma, first = misfit(options.step.values().front());
  if (!(first > kExplained)) return;
  double left = first;
  for (int turn = 0; turn <= kTurns && problem.noise_sigma < kMostNoise; ++turn) {
    const bool last = turn == kTurns || left <= 1;
    const double by = last ? kColored : std::sqrt(std::max(left, misfit(options.step.values().back())));
    set_noise(std::min(kMostNoise, problem.noise_sigma * by), L);
    if (last) break;
    left = misfit(options.step.values().front());
  }
  problem.warnings.push_back(
      fmt::format("no image explains the data: the best one leaves {:.2g} times the noise of {:.3g} (the "
                  "model is wrong somewhere: a curve of light, the kernel, the boundary, or noise that is "
                  "larger than it shows) its error counts as noise, {:.3g} from here on; mend the model for "
                  "more",
                  std::sqrt(first), found, problem.noise_sigma));
}

// Where noise was found that is not white, as compression, demosaicking and enlarging leave it, a deconvolution may
// take what is left of it for the picture. Four steps show it, and four more with 1.6 times the noise. By 200 pictures:
// grain that noise makes is above 0.2 and falls to 0.6 of it and less where more noise is taken away, a picture's own,
// such as a printed page's or that of reeds, to 0.8 and more. Where the picture leaves the data, chi2 is above 2.6 and
// more of the noise is the remedy; right models have 1.4 at most.
void JobRun::raise_over_grain(double L) {
  constexpr double kSome = 0.2, kEnough = 0.15, kChi2 = 2, kBy = 1.6;
  constexpr double kFalls = 0.7, kFallsOn = 0.95;  // of the grain before: at first, and then
  constexpr int kTurns = 9;
  if (!problem.noise_doubtful || !plan.network || options.pixels || plan.image.volume() ||
      !(options.level > 0))
    return;
  const double found = problem.noise_sigma;
  const auto tried = [&](double noise) {
    if (noise != problem.noise_sigma) set_noise(noise, L);
    return try_noise(*this, *denoiser, options, start_);
  };
  Trial now = tried(found);
  const auto leaves = [&] { return now.chi2 > kChi2; };
  if (!leaves() && now.grain < kSome) return;
  for (int turn = 0; turn < kTurns && (leaves() || now.grain > kEnough); ++turn) {
    const double before = problem.noise_sigma, next = before * kBy;
    if (next > kMostNoise) break;
    const Trial more = tried(next);
    if (!leaves() && more.grain > (turn == 0 ? kFalls : kFallsOn) * now.grain) {
      set_noise(before, L);
      break;
    }
    now = more;
  }
  if (problem.noise_sigma > found)
    problem.warnings.push_back(fmt::format(
        "with the noise of {:.3g} that was found the picture would be full of grain (compression, "
        "demosaicking or enlarging hide noise, or the model is wrong somewhere: the kernel, a curve of "
        "light) {:.3g} is "
        "taken; state the noise if you know it",
        found, problem.noise_sigma));
}

}  // namespace tessera
