// SPDX-License-Identifier: BSD-3-Clause
// From the job file's solver section to the solver's options.
#include "tessera/app/problem.hpp"

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
SolverOptions solver_options(const Geometry& g) {
  const SolverConfig& s = g.job.solver;
  const int n = static_cast<int>(s.iterations);
  const double noise = g.job.problem.noise.gaussian;
  SolverOptions o;
  o.iterations = n;
  o.relaxation = s.relaxation;
  o.lambda = s.lambda;
  o.momentum = s.momentum;
  o.dual_step = s.dual_step;
  o.step = schedule(s.step, n);
  o.sigma = schedule(s.sigma, n);
  const auto level = [&](const ScheduleConfig& c) { return c.last > 0 ? c.last : noise; };
  if (s.sigma.form == "dpir") o.sigma = dpir_schedule(level(s.sigma), n).sigma;
  if (s.step.form == "dpir") o.step = dpir_schedule(level(s.step), n).gamma;
  // Only denoisers that ignore sigma may leave it open.
  if (!o.sigma.set()) o.sigma = 0.0;
  return o;
}

}  // namespace tessera
