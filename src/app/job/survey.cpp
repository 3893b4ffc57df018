// SPDX-License-Identifier: BSD-3-Clause
#include "job/survey.hpp"

namespace tessera {

Survey survey_of(const RunPlan& plan) {
  Survey survey{.problem = plan.job.problem,
                .chosen = plan.job.solver.chosen,
                .network = plan.network.has_value(),
                .scan = plan.scan.has_value(),
                .counts = plan.scan && plan.scan->transmission,
                .data = plan.data,
                .offset = plan.offset,
                .factor = plan.factor,
                .curve = plan.curve,
                .curve_open = plan.curve_open,
                .curve_unsaid = !plan.asked.problem.scale.curve && !plan.curve_open &&
                                plan.data.light.says == StoredLight::Says::nothing,
                .options = plan.options()};
  for (const OperatorConfig& part : plan.parts) {
    const OperatorRow& row = find_operator(part.type);
    survey.parts.push_back({row.choice.kernel, row.own_range, part.boundary});
  }
  return survey;
}

bool in_image_range(const RunPlan& plan) { return survey_of(plan).in_image_range(); }

}  // namespace tessera
