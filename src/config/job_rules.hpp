// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

#include "tessera/config/parse.hpp"
#include "values.hpp"

namespace tessera::config {

/// What no key says alone: missing, contradictory, without effect. Fills in what only the whole file decides.
/// `boundary` is what measurements were made with, where their file says it.
/// InputError where values do not go with each other.
void finish(const Site& site, const std::string& file, const std::string& boundary, Purpose purpose,
            JobConfig& job);

/// Step, sigma and lambda are settled when the noise level and the operator's norm are known; what the file
/// alone decides is refused here. Behind finish().
void check_schedules(const Site& site, const std::string& file, const JobConfig& job);

/// The boundary that an operator's first blur has; empty where it has none.
std::string boundary_of(const OperatorConfig& op);

}  // namespace tessera::config
