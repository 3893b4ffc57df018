// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tessera/config/job.hpp"

namespace tessera {

/// Reads a job file: keys, types, units, ranges and files are checked; the message names file and line, and
/// for an unknown key the nearest known one. `overrides` are "key.path=value". A key that acts on nothing in
/// this job is an error. InputError only. Not collective: rank 0 reads the text, every rank parses it.
JobConfig parse_job(const std::string& text, const std::string& path,
                    const std::vector<std::string>& overrides);

/// Bytes per rank that the job allows where `available` are there for each rank; nothing for auto.
std::optional<std::int64_t> memory_budget(const JobConfig& job, std::int64_t available);

/// Paths of the keys in which two jobs differ, both as write_job() writes them; a list counts as one value.
std::vector<std::string> differing_keys(const std::string& a, const std::string& b);

/// The job with every default written out: `tessera run resolved.yaml` gives the same run.
std::string write_job(const JobConfig& job);

/// Every key: path, type, unit, default, limits, one line of meaning; docs/job_file.md is tested against it.
struct KeyInfo {
  std::string path, type, unit, fallback, limits, meaning;
};
const std::vector<KeyInfo>& job_keys();

}  // namespace tessera
