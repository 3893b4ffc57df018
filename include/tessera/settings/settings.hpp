// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tessera/config/job.hpp"
#include "tessera/settings/facts.hpp"

namespace tessera {

/// The sections of a job that data may decide, with nothing left open.
struct Settings {
  DenoiserConfig denoiser;
  SolverConfig solver;
  LikelihoodConfig likelihood;
  std::vector<std::string> reasons;  // one line for each rule that decided, for the user

  bool same(const Settings& other) const {
    return denoiser == other.denoiser && solver == other.solver && likelihood == other.likelihood;
  }
};

/// What a rule decides; the rest stays as it is.
struct Decision {
  std::optional<std::string> denoiser{};
  std::optional<std::string>
      solver{};  // with what belongs to it: of data alone no denoiser, of counts their likelihood
  std::optional<std::int64_t> iterations{};  // where the job leaves their number open
  std::string reason{};                      // one line for the user; empty: nothing is said
};

/// A rule about what a job leaves open. `job`: as it was asked for, with what the rules before this one decided; what is
/// open stands in SolverConfig::chosen. A rule does not read files, samples or the clock, and is the same on all ranks.
struct SettingsRule {
  std::string name;
  std::function<std::optional<Decision>(const JobConfig& job, const Facts& facts)> decide;
};

/// src/settings/rule_table.cpp: every rule, in the order in which they are asked, each with a file of its own. A program may
/// add rows before its first job.
std::vector<SettingsRule>& rule_table();

/// What the job says, and where it leaves something open what the rules say of these facts. Pure.
Settings decide(const JobConfig& asked, const Facts& facts);

/// The job with these settings in place of its own.
JobConfig with_settings(JobConfig job, const Settings& settings);

}  // namespace tessera
