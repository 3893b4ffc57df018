// SPDX-License-Identifier: BSD-3-Clause
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tessera/core/error.hpp"
#include "tessera/solve/solver.hpp"

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

}  // namespace tessera
