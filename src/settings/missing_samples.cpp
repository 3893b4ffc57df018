// SPDX-License-Identifier: BSD-3-Clause
#include "rules.hpp"
#include "tessera/core/error.hpp"
#include "tessera/denoise/denoiser_table.hpp"

namespace tessera::rules {

std::optional<Decision> missing_samples(const JobConfig& job, const Facts& facts) {
  // By measurement: little noise, or much to be filled. A few holes in strong noise are denoising.
  constexpr double kLittle = 0.015, kMuch = 1.0 / 3;
  const SolverConfig& s = job.solver;
  const bool open = s.chosen.solver && s.chosen.iterations && s.sigma.automatic && s.step.automatic;
  if (!facts.samples || !facts.samples->marked || !open || !facts.network_takes_level || !facts.identity ||
      !find_denoiser(job.denoiser.network).like_network() || job.problem.likelihood.type != "gaussian")
    return std::nullopt;
  if (facts.samples->noise > kLittle && facts.samples->missing < kMuch) return std::nullopt;
  return Decision{.solver = Chosen::masked_solver,
                  .iterations = Chosen::masked_passes,
                  .reason = concat("solver ", Chosen::masked_solver, ", ", Chosen::masked_passes,
                                   " iterations, as for a mask: some samples do not count")};
}

}  // namespace tessera::rules
