// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

#include "tessera/app/run_plan.hpp"
#include "tessera/comm/communicator.hpp"

namespace tessera {

/// Files whose samples stand beside those of the measurement (weights, frames, marks, the truth), held against it by what
/// their headers say: sizes of pixels, and turns.
void hold_against_measurement(const RunPlan& plan, const std::string& path, const SourceInfo& info);

/// Of the two, turns alone.
void say_turn(const RunPlan& plan, const std::string& path, const SourceInfo& info);

/// A note where a FITS has flags of bad samples beside the measurement's extension and the job names no samples that do
/// not count. Collective.
void say_flags(const RunPlan& plan, const Communicator& comm);

/// Codes of quality or classes are no weights. InputError.
void refuse_codes(const std::string& path, const SourceInfo& info);

}  // namespace tessera
