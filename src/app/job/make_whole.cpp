// SPDX-License-Identifier: BSD-3-Clause
#include "job/make_whole.hpp"

#include <ATen/TensorOperators.h>
#include <fmt/format.h>

#include "job/survey.hpp"
#include "tessera/app/problem.hpp"
#include "tessera/core/error.hpp"
#include "tessera/domain/fill.hpp"
#include "tessera/physics/operators.hpp"
#include "tessera/samples/missing.hpp"
#include "tessera/samples/weigh_samples.hpp"

namespace tessera {

std::vector<std::string> make_whole(const RunPlan& plan, const std::string& path, at::Tensor& block,
                                    const std::shared_ptr<Transport>& transport, const Communicator& comm) {
  std::vector<std::string> lines;
  const std::int64_t all = plan.image.box.pixels() * plan.image.channels,
                     missing = count_missing(block, comm);
  TESSERA_VALIDATE(missing < all, "all ", all, " values of ", path,
                   " are not numbers (there is nothing to denoise) correct the file");
  at::Tensor marks = block.isfinite().to(block.options());
  std::vector<std::unique_ptr<LocalOperator>> identity;
  identity.push_back(make_identity());
  Problem problem;
  problem.A = make_local_stack({plan.domain(), plan.options(), transport, comm}, identity);
  if (missing > 0) {
    block.masked_fill_(marks.eq(0), 0);
    Reducer reducer(comm);
    fill_unmeasured(*problem.A, marks, 0.5, block, Space(comm, &reducer));
    lines.push_back(fmt::format(
        "note: {} of {} samples are not numbers: they are filled from their neighbors", missing, all));
  }
  problem.noise_sigma = plan.job.solver.sigma.values.front();  // what the network is asked to take away
  warn_of_values(survey_of(plan), {block.to(at::kCPU, at::kFloat).contiguous()},
                 {marks.to(at::kCPU, at::kFloat).contiguous()}, problem, comm);
  const std::vector<std::string>& warnings = problem.warnings;
  for (const std::string& warning : warnings) lines.push_back("warning: " + warning);
  if (!warnings.empty())
    lines.push_back(
        "note: these keys are a job's: `tessera run` without an operator denoises too, and takes them");
  return lines;
}

}  // namespace tessera
