// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <vector>

#include "tessera/config/job.hpp"
#include "tessera/core/options.hpp"
#include "tessera/samples/scan.hpp"

namespace tessera {

/// What a scan's file states of beam, distances and pitch, for a job that states none of them: converted to its unit in
/// scan.file.stated, with scan.unit. Of a job that does, what differs is a warning, and scan.unit stays empty.
void weigh_stated(const ProblemConfig& problem, Scan& scan);
/// Takes it; where `unit` is empty, what the options have, auto as parallel and 1.
void take_stated(Options& options, const StatedGeometry& stated, const std::string& unit);
/// A line about what is taken.
std::string stated_words(const Scan& scan);

}  // namespace tessera
