// SPDX-License-Identifier: BSD-3-Clause
#include "rules.hpp"
#include "tessera/solve/solver.hpp"

namespace tessera::rules {

std::optional<Decision> samples_that_differ(const JobConfig& job, const Facts& facts) {
  const SolverConfig& s = job.solver;
  const bool one_pass =
      s.chosen.solver && s.chosen.iterations && s.iterations == 1 && !find_solver(s.name).once;
  if (!facts.samples || !facts.samples->weighed || !one_pass) return std::nullopt;
  return Decision{.iterations = Chosen::more_passes};
}

}  // namespace tessera::rules
