// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <optional>

#include "tessera/settings/settings.hpp"

// One function a file, one row of rule_table.cpp each. What chose a constant stands beside it.
namespace tessera::rules {

/// Total variation where no shipped network fits the image: other channels than 1 and 3, volumes off their grid.
std::optional<Decision> no_shipped_network(const JobConfig& job, const Facts& facts);

/// The solver of operators in memory: what a job gets that names the like.
std::optional<Decision> operator_of_arrays(const JobConfig& job, const Facts& facts);

/// Where few samples are far above all others and above their noise: Richardson-Lucy of counts of stars, else total
/// variation where no network knows so little noise.
std::optional<Decision> few_bright_samples(const JobConfig& job, const Facts& facts);

/// What a mask gets, where weights turn out to be marks alone.
std::optional<Decision> missing_samples(const JobConfig& job, const Facts& facts);

/// More than one pass where samples turn out to differ: then one pass of a denoiser is not the answer.
std::optional<Decision> samples_that_differ(const JobConfig& job, const Facts& facts);

/// More iterations where samples are few for the pixels that they are to tell, and of operators of which nothing is known.
std::optional<Decision> operator_of_few_samples(const JobConfig& job, const Facts& facts);

}  // namespace tessera::rules
