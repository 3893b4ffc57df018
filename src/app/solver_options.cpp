// SPDX-License-Identifier: BSD-3-Clause
// From the job file's solver section to the solver's options.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tessera/app/problem.hpp"

namespace tessera {
namespace {

Schedule schedule(const ScheduleConfig& c, int iterations) {
  if (c.automatic) return {};
  if (c.form == "log") return Schedule::log_space(c.first, c.last, iterations);
  if (c.form == "linear") return Schedule::linear(c.first, c.last, iterations);
  return c.values;
}

// What lambda is where neither it nor sigma is written. Splitting: DPIR's. Gradient and red: the MAP
// estimate.
double usual_lambda(DataStep kind) { return kind == DataStep::prox ? 0.23 : 1.0; }

// Splitting methods begin with strong denoising and end at a level above the noise, where networks are stable
// and the images best (docs/solvers.md has the measurements).
constexpr double kFirst = 49.0 / 255.0, kStable = 0.04;
constexpr int kFalling = 8;  // iterations on the way; then the last level holds

Schedule falling(double noise, int iterations) {
  const double last = std::max(1.5 * noise, std::min(4 * noise, kStable));
  return Schedule::log_space(std::max(kFirst, last), last, std::min(iterations, kFalling));
}

}  // namespace

// A schedule 'dpir' of either key ends at the noise level and sets what belongs to it.
SolverOptions solver_options(const Geometry& g, double noise, double L) {
  const SolverConfig& s = g.job.solver;
  const int n = static_cast<int>(s.iterations);
  const DataStep kind = data_step(s.name);
  SolverOptions o;
  o.iterations = n;
  o.relaxation = s.relaxation;
  o.momentum = s.momentum;
  o.dual_step = s.dual_step;
  if (s.bounds) {
    o.least = (*s.bounds)[0];
    o.most = (*s.bounds)[1];
  }
  Strength said{schedule(s.step, n), schedule(s.sigma, n), s.lambda};
  const auto level = [&](const ScheduleConfig& c) { return c.last > 0 ? c.last : noise; };
  if (s.sigma.form == "dpir") {
    said.sigma = dpir_schedule(level(s.sigma), n).sigma;
    if (s.step.automatic && kind == DataStep::prox && !s.lambda)
      said.step = dpir_schedule(level(s.sigma), n).gamma;
  }
  if (s.step.form == "dpir") said.step = dpir_schedule(level(s.step), n).gamma;

  const bool takes_sigma = !g.network || g.network->takes_sigma();
  if (g.job.denoiser.network == "none" || !takes_sigma) {  // sigma plays no part
    o.sigma = 0.0;
    o.step = said.step;
    if (kind == DataStep::prox && !o.step.set()) o.step = 1 / L;
    o.lambda = s.lambda.value_or(L);
    return o;
  }
  if (kind == DataStep::prox && !said.sigma.set() && !said.step.set() && noise > 0) {
    said.sigma = falling(noise / std::sqrt(L), n);
    if (!said.lambda) said.lambda = usual_lambda(kind);
  }
  const Strength settled = settle(said, kind, usual_lambda(kind), noise, L);
  o.step = settled.step;
  o.sigma = settled.sigma;
  o.strength = *settled.lambda;
  const double last = o.sigma.values().back();
  o.lambda = s.lambda || s.sigma.automatic ? *settled.lambda * noise * noise / (last * last) : L;
  return o;
}

std::string untrained(const Geometry& g, const Schedule& sigma) {
  if (!g.network || !g.network->sigma_range || !g.network->takes_sigma()) return {};
  const auto [least, most] = *g.network->sigma_range;
  for (const double s : sigma.values())
    if (s < least || s > most * (1 + 1e-6))
      return fmt::format(
          "the denoiser's sigma {:.4g} lies outside [{:.4g}, {:.4g}], for which {} were trained", s, least,
          most, g.job.denoiser.weights.empty() ? "the weights" : g.job.denoiser.weights);
  return {};
}

}  // namespace tessera
