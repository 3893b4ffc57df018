// SPDX-License-Identifier: BSD-3-Clause
// From the job file's solver section to the solver's options.
#include <fmt/format.h>

#include <algorithm>

#include "tessera/app/problem.hpp"
#include "tessera/config/parse.hpp"
#include "tessera/denoise/denoiser_table.hpp"
#include "tessera/solve/choose_schedules.hpp"

namespace tessera {
namespace {

Schedule schedule(const ScheduleConfig& c, int iterations) {
  if (c.automatic) return {};
  if (c.form == "log") return Schedule::log_space(c.first, c.last, iterations);
  if (c.form == "linear") return Schedule::linear(c.first, c.last, iterations);
  return c.values;
}

}  // namespace

// A schedule 'dpir' of either key ends at the noise level and sets what belongs to it.
SolverOptions solver_options(const RunPlan& plan, double noise, double L, bool missing) {
  const SolverConfig& s = plan.job.solver;
  const int n = static_cast<int>(s.iterations);
  const SolverRow& row = find_solver(s.name);
  SolverOptions o;
  o.iterations = n;
  o.own = s.options;
  if (s.bounds) {
    o.least = (*s.bounds)[0];
    o.most = (*s.bounds)[1];
  }
  Strength said{schedule(s.step, n), schedule(s.sigma, n), s.lambda};
  const auto level = [&](const ScheduleConfig& c) { return c.last > 0 ? c.last : noise; };
  if (s.sigma.form == "dpir") {
    said.sigma = dpir_schedule(level(s.sigma), n).sigma;
    if (s.step.automatic && row.data_step == DataStep::prox && !s.lambda)
      said.step = dpir_schedule(level(s.sigma), n).gamma;
  }
  if (s.step.form == "dpir") said.step = dpir_schedule(level(s.step), n).gamma;
  choose_schedules({.said = said,
                    .sigma_open = s.sigma.automatic,
                    .solver = row,
                    .network = plan.network.has_value(),
                    .takes_sigma = plan.network ? plan.network->takes_sigma()
                                                : find_denoiser(plan.job.denoiser.network).takes_sigma,
                    .pixels = plan.network && plan.op->traits(plan.domain()).pointwise(),
                    .denoising = !missing && is_denoising(plan.job.problem),
                    .noise = noise,
                    .L = L},
                   o);
  return o;
}

std::string untrained(const RunPlan& plan, const Schedule& sigma, double level) {
  if (!plan.network || !plan.network->sigma_range || !plan.network->takes_sigma()) return {};
  const auto [least, most] = *plan.network->sigma_range;
  for (const double value : sigma.values())
    if (const double s = std::max(value, level); s < least || s > most * (1 + 1e-6))
      return fmt::format(
          "the denoiser's sigma {:.4g} lies outside [{:.4g}, {:.4g}], for which {} were trained", s, least,
          most, plan.job.denoiser.weights.empty() ? "the weights" : plan.job.denoiser.weights);
  return {};
}

}  // namespace tessera
