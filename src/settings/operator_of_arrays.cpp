// SPDX-License-Identifier: BSD-3-Clause
#include "rules.hpp"
#include "tessera/denoise/denoiser_table.hpp"

namespace tessera::rules {

std::optional<Decision> operator_of_arrays(const JobConfig& job, const Facts& facts) {
  const SolverConfig& s = job.solver;
  if (!s.chosen.arrays || !s.chosen.solver || !facts.pointwise || !facts.takes_level ||
      !find_denoiser(job.denoiser.network).like_network() || !s.step.automatic)
    return std::nullopt;
  if (!facts.identity) return Decision{.solver = Chosen::masked_solver, .iterations = Chosen::masked_passes};
  if (s.sigma.form.empty() && s.sigma.values.size() < 2 && s.start == "auto")
    return Decision{.solver = "hqs", .iterations = 1};
  return std::nullopt;
}

}  // namespace tessera::rules
