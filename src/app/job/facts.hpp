// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "tessera/app/problem.hpp"
#include "tessera/settings/facts.hpp"

namespace tessera {

/// What rules look at, by headers and the operator alone: as far as the plan is made. The network need not be there.
Facts facts_of(const RunPlan& plan);

/// The same with what the samples showed.
Facts facts_of(const RunPlan& plan, const Problem& problem);

}  // namespace tessera
