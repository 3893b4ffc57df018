// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <vector>

#include "tessera/app/run_plan.hpp"

namespace tessera {

/// What is 0 and 1 in the image's file, and in that of a truth that only scores. `sources`: files in the image's units,
/// which are read where their headers do not say it. Collective; InputError.
void set_scale(RunPlan& plan, const std::vector<std::string>& sources, const Communicator& comm);

/// The job's curve, or whether it is open until the samples are seen: of blurred photographs, of which the file says one
/// or whose format has one by convention. InputError where it cannot be.
void set_curve(RunPlan& plan);

}  // namespace tessera
