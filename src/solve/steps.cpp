// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/solve/solver.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tessera/core/error.hpp"

namespace tessera {

void SolverOptions::bound(at::Tensor& image) const {
  if (std::isfinite(least) && std::isfinite(most))
    image.clamp_(least, most);
  else if (std::isfinite(least))
    image.clamp_min_(least);
  else if (std::isfinite(most))
    image.clamp_max_(most);
}

Schedule gradient_steps(const SolverInput& in, double extra, double reach) {
  const double curvature = in.data.lipschitz() + extra;  // known to every rank, no message of its own
  if (!in.options.step.set()) {
    if (in.options.level <= 0) return 1.0 / curvature;
    std::vector<double> steps;  // sigma^2 = step lambda noise^2 below the level
    for (const double sigma : in.options.sigma.values()) {
      const double share = std::min(1.0, sigma / in.options.level);
      steps.push_back(share * share / curvature);
    }
    return steps;
  }
  const double limit = reach / curvature;
  for (const double step : in.options.step.values())
    TESSERA_VALIDATE(0.0 < step && step < limit, "solver.step is ", step,
                     " (the iteration may diverge outside 0 < step < ", limit,
                     ") write 'step: auto' to take ", 1.0 / curvature);
  return in.options.step;
}

Schedule penalties(const SolverInput& in) {
  if (!in.options.step.set()) return 1.0;
  for (const double gamma : in.options.step.values())
    TESSERA_VALIDATE(gamma > 0.0, "solver.step is ", gamma,
                     " (the penalty gamma of the data step is positive) use for example 1");
  return in.options.step;
}

Deferred prior_value(const SolverInput& in, const at::Tensor& x, double step, double sigma) {
  const at::Tensor mine = in.denoiser.prior(x, sigma);
  return mine.defined() ? in.space.sum(mine.div(step)) : Deferred();
}

void validate_descent(const SolverInput& in, const std::string& name) {
  const SolverOptions& o = in.options;
  TESSERA_VALIDATE(o.weight > 0, "solver.lambda is ", o.weight,
                   " (the prior's weight is positive) use for example 0.1");
  TESSERA_VALIDATE(o.step.values().size() <= 1, "solver.step has ", o.step.values().size(), " values (", name,
                   " shortens its step itself) write one, or auto");
  TESSERA_VALIDATE(o.sigma.values().size() <= 1, "solver.sigma has ", o.sigma.values().size(),
                   " values (each is an objective of its own, ", name,
                   " goes down on one) write one, or auto");
  TESSERA_VALIDATE(!std::isfinite(o.least) && !std::isfinite(o.most), "solver.bounds are given (", name,
                   " goes down on an objective that has none) leave them out");
}

at::Tensor known_potential(const SolverInput& in, const std::string& name) {
  at::Tensor mine = in.denoiser.potential();
  TESSERA_VALIDATE(mine.defined(), "solver.name is ", name,
                   " (it goes down on a potential, and this denoiser ",
                   "is no gradient step on one) use a network of gradient steps, or another solver");
  return mine;
}

double rounding(const at::Tensor& image) { return image.scalar_type() == at::kDouble ? 1e-13 : 1e-6; }

}  // namespace tessera
