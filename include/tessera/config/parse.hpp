// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tessera/config/job.hpp"

namespace tessera {

/// What a measurement file says of the problem that made it: YAML, as write_problem() writes it.
struct FileProblem {
  std::string path;  // of the measurement file
  std::string text;  // empty: it says nothing
};

/// What a job is read for. measure: its data are made, and nothing is reconstructed; what a solver needs is not
/// asked for. arrays: operator and data are in memory, and the job says the rest.
enum class Purpose { reconstruct, measure, arrays };

/// Reads a job file: keys, types, units, ranges and files are checked; the message names file and line, and
/// for an unknown key the nearest known one. `overrides` are "key.path=value". A key that acts on nothing in
/// this job is an error. What `file` says of operator, scale, noise, seed and image size holds where the job
/// says nothing of it; JobConfig::notices tell what was taken and what differs. InputError only. Not
/// collective: rank 0 reads the text, every rank parses it.
JobConfig parse_job(const std::string& text, const std::string& path,
                    const std::vector<std::string>& overrides, const FileProblem& file = {},
                    Purpose purpose = Purpose::reconstruct);

/// Whether the samples are the image's pixels, under white noise of one level: one pass of a denoiser at that
/// level is then the answer.
bool is_denoising(const ProblemConfig& problem);

/// The job with another denoiser, at its defaults; a solver that the job leaves open is chosen anew for it.
JobConfig with_denoiser(JobConfig job, const std::string& network);
/// The job with another solver, and with `iterations` where it leaves their number open; one of data alone has no denoiser,
/// one of counts their likelihood.
JobConfig with_solver(JobConfig job, const std::string& name, std::int64_t iterations);

/// problem.measurements of a job file, absolute; empty where it has none. Nothing else is checked.
/// InputError.
std::string named_measurements(const std::string& text, const std::string& path,
                               const std::vector<std::string>& overrides);

/// The keys of the problem that belong to its data: operator, scale, noise, seed, image size. A path that
/// starts with ":/" is a dataset of the file that this text will stand in.
std::string write_problem(const JobConfig& job);

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
