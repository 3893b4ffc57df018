// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "document.hpp"
#include "tessera/config/choices.hpp"
#include "tessera/config/job.hpp"
#include "tessera/config/parse.hpp"
#include "values.hpp"

namespace tessera::config {

/// Where a key acts on something; `text` continues "it acts only ".
template <class T>
struct When {
  std::string text;
  std::function<bool(const T&)> acts;
};

/// One key of the job file: what is known of it stands here and nowhere else. Paths are relative to the node
/// that T stands for.
template <class T>
struct Key {
  KeyInfo info;
  std::function<void(const Site&, const Value&, T&)> read;
  std::function<Value(const T&)> write;  // null: nothing to write
  std::vector<When<T>> when;             // all must hold
};

/// An operator and the short form of a stack of rotated blurs, which parsing turns into parts.
struct OperatorForm {
  OperatorConfig op;
  double first = 0, last = 180;
  std::int64_t count = 0;
};

const std::vector<Key<JobConfig>>& job_table();  // problem.operator is one key here
std::vector<Key<JobConfig>> output_keys(const std::vector<When<JobConfig>>& cropped);
const std::vector<Key<OperatorForm>>& operator_table();

constexpr std::int64_t kSchema = 1;
constexpr const char* kStack = "stack";      // the type of a list of operators
constexpr const char* kAutoSolver = "auto";  // until choose_solver()

// The rows that a job names. Names are known to exist: parsing has checked them.
const OperatorChoice& chosen(const OperatorConfig& op);
const SolverChoice& chosen(const SolverConfig& solver);
const DenoiserChoice& chosen(const DenoiserConfig& denoiser);

/// Reads the node of an operator with its parts, and checks it. InputError.
OperatorConfig read_operator(const Site& site, const Value& value);
Value write_operator(const OperatorConfig& op);

}  // namespace tessera::config
