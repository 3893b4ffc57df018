// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/settings/settings.hpp"

#include <utility>

#include "tessera/config/parse.hpp"

namespace tessera {

Settings decide(const JobConfig& asked, const Facts& facts) {
  JobConfig job = asked;
  Settings settings;
  for (const SettingsRule& rule : rule_table()) {
    std::optional<Decision> decision = rule.decide(job, facts);
    if (!decision) continue;
    if (decision->denoiser) job = with_denoiser(std::move(job), *decision->denoiser);
    if (decision->solver || decision->iterations)
      job = with_solver(std::move(job), decision->solver.value_or(job.solver.name),
                        decision->iterations.value_or(job.solver.iterations));
    if (!decision->reason.empty()) settings.reasons.push_back(std::move(decision->reason));
  }
  settings.denoiser = std::move(job.denoiser);
  settings.solver = std::move(job.solver);
  settings.likelihood = std::move(job.problem.likelihood);
  return settings;
}

JobConfig with_settings(JobConfig job, const Settings& settings) {
  job.denoiser = settings.denoiser;
  job.solver = settings.solver;
  job.problem.likelihood = settings.likelihood;
  return job;
}

}  // namespace tessera
