// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "tessera/app/run_plan.hpp"
#include "tessera/samples/survey.hpp"

namespace tessera {

/// What is known of a plan's samples before they are looked at; as long as the plan lives.
Survey survey_of(const RunPlan& plan);

/// Survey::in_image_range() of the plan's samples.
bool in_image_range(const RunPlan& plan);

}  // namespace tessera
