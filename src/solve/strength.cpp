// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/solve/strength.hpp"

#include <cmath>
#include <limits>

#include "tessera/core/error.hpp"

namespace tessera {
namespace {

template <class Rule>
Schedule map(const Schedule& s, Rule rule) {
  std::vector<double> out;
  for (const double v : s.values()) out.push_back(rule(v));
  return out;
}

}  // namespace

Strength settle(const Strength& said, DataStep kind, double usual, double noise, double L) {
  Strength s = said;
  const bool by_weight = weighs(kind);
  TESSERA_VALIDATE(
      !(s.lambda && s.sigma.set() && s.step.set()) || by_weight,
      "solver.lambda, solver.sigma and solver.step are all given (sigma^2 = step lambda noise^2: "
      "two of them say the third) leave one to auto");
  TESSERA_VALIDATE(!s.lambda || *s.lambda > 0, "solver.lambda is ", s.lambda.value_or(0),
                   " (the prior's strength is positive) use for example 1");
  const double v = noise * noise;
  const auto noise_for = [&](const char* key) {
    TESSERA_VALIDATE(noise > 0, key, " cannot be found (the noise level is not known) ",
                     "write solver.sigma, or the level in problem.noise");
  };
  if (!s.sigma.set()) {
    noise_for("solver.sigma");
    if (!s.lambda) s.lambda = usual;
    if (by_weight)
      s.sigma = noise / std::sqrt(L);
    else {
      if (!s.step.set()) s.step = 1 / L;
      s.sigma = map(s.step, [&](double step) { return noise * std::sqrt(step * *s.lambda); });
    }
    return s;
  }
  const double last = s.sigma.values().back();
  if (s.lambda && by_weight) {
    noise_for("the weight of the prior");
    TESSERA_VALIDATE(last > 0, "solver.sigma ends at 0 (the prior's weight is lambda noise^2 / sigma^2) ",
                     "end it above 0");
  }
  if (s.lambda) {
    if (!s.step.set() && !by_weight) {
      noise_for("solver.step");
      TESSERA_VALIDATE(last > 0, "solver.sigma ends at 0 (with solver.lambda the steps follow sigma^2) ",
                       "end it above 0");
      s.step = map(s.sigma, [&](double sigma) { return sigma * sigma / (*s.lambda * v); });
    }
    return s;
  }
  if (!s.step.set() && !by_weight) {
    s.step = 1 / L;
    if (kind == DataStep::prox && last > 0)
      s.step = map(s.sigma, [&](double sigma) { return sigma * sigma / (last * last) / L; });
  }
  const double step = s.step.set() && !by_weight ? s.step.values().back() : 1 / L;
  s.lambda = noise > 0 ? last * last / (step * v) : std::numeric_limits<double>::quiet_NaN();
  return s;
}

}  // namespace tessera
