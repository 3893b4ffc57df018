// SPDX-License-Identifier: BSD-3-Clause
#include "default_solver.hpp"

#include <algorithm>

#include "maps.hpp"
#include "table.hpp"
#include "tessera/config/parse.hpp"

namespace tessera::config {
namespace {

constexpr std::int64_t kUsual = 20;  // iterations of a solver that the job names

struct Choice {
  const char* solver;
  std::int64_t iterations;
};

Choice choice_for(const JobConfig& job, Purpose purpose, bool step_written) {
  const DenoiserChoice& denoiser = chosen(job.denoiser);
  // A number as step means a gradient's; what has no noise level to go down needs small steps.
  if (step_written && job.solver.step.form != "dpir") return {"pgd", kUsual};
  if (!denoiser.network) return {denoiser.takes_sigma ? "admm" : "pgd", denoiser.takes_sigma ? 60 : kUsual};
  if (!denoiser.takes_sigma) return {"pgd", kUsual};
  if (purpose == Purpose::arrays) return {"hqs", Chosen::more_passes};  // nothing is known of the operator
  const ScheduleConfig& sigma = job.solver.sigma;
  const bool pointwise = chosen(job.problem.op).pointwise;
  if (pointwise && job.problem.likelihood.type == "huber")
    return {"pgd", kUsual};  // proximal points keep outliers
  if (is_denoising(job.problem) && sigma.form.empty() && sigma.values.size() < 2 &&
      job.solver.start == "auto")
    return {"hqs", 1};
  if (job.problem.op.type != "identity" && pointwise) return {Chosen::masked_solver, Chosen::masked_passes};
  return {"hqs", Chosen::more_passes};
}

}  // namespace
}  // namespace tessera::config

namespace tessera {

bool is_denoising(const ProblemConfig& problem) {
  return problem.op.type == "identity" && problem.weights.empty() && problem.flat.empty() &&
         problem.saturation == 0 && problem.likelihood.type == "gaussian" && problem.noise.poisson == 0;
}

}  // namespace tessera

namespace tessera::config {

void choose_solver(const Site& site, Purpose purpose, JobConfig& job) {
  SolverConfig& solver = job.solver;
  const auto written = [&](const std::string& key) {
    return site.present->count(join(site.path, "solver." + key)) > 0;
  };
  solver.chosen = {.solver = solver.name == kAutoSolver,
                   .iterations = solver.iterations == 0,
                   .prior = site.present->count(join(site.path, "denoiser")) == 0};
  std::int64_t usual = kUsual;
  if (solver.name == kAutoSolver) {
    const Choice choice = choice_for(job, purpose, written("step"));
    solver.name = choice.solver;
    usual = choice.iterations;
    solver.chosen.one_pass = usual == 1 && solver.iterations == 0;
    // An option says whose it is.
    for (const SolverChoice& row : choices().solvers)
      if (row.name != solver.name &&
          std::ranges::any_of(row.options, [&](const Option& o) { return written(o.name); })) {
        solver.name = row.name;
        usual = kUsual;
        solver.chosen.one_pass = solver.chosen.solver = false;
        break;
      }
  }
  if (chosen(solver).once) usual = 1;
  const std::size_t listed = std::max(solver.step.values.size(), solver.sigma.values.size());
  if (solver.iterations == 0) solver.iterations = std::max(usual, static_cast<std::int64_t>(listed));
}

}  // namespace tessera::config
