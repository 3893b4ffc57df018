// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "tessera/config/parse.hpp"
#include "values.hpp"

namespace tessera::config {

/// What `solver.name: auto` and `solver.iterations: auto` stand for, by what the file says of operator,
/// denoiser and data; other keys stay as they are. docs/solvers.md has the rule and its figures.
void choose_solver(const Site& site, Purpose purpose, JobConfig& job);

}  // namespace tessera::config
