// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/app/parts.hpp"

#include <utility>

#include "tessera/app/job_denoiser.hpp"
#include "tessera/app/operator_table.hpp"
#include "tessera/app/run_plan.hpp"
#include "tessera/app/tuning.hpp"
#include "tessera/config/parse.hpp"
#include "tessera/physics/operators.hpp"

namespace tessera {
namespace {

JobConfig parse_words(const std::string& words, const Communicator& comm) {
  know_choices();
  JobConfig job;
  comm.together([&] { job = parse_job("schema: 1\n" + words, "settings", {}, {}, Purpose::arrays); });
  return job;
}

// Operators ask the files that they name when they are placed.
struct Kept {
  std::shared_ptr<OperatorFiles> files;
  std::shared_ptr<OperatorPlan> op;
};

}  // namespace

NamedOperator plan_operator(const std::string& problem, const ImageSpace& image, const Communicator& comm) {
  const RunPlan plan = plan_operator(parse_words(problem, comm), image, comm);
  const auto kept = std::make_shared<Kept>(Kept{plan.files, plan.op});
  return {
      .plan = {kept, kept->op.get()}, .notices = plan.files->notices(), .warnings = plan.files->warnings()};
}

PlacedDenoiser place_denoiser(const std::string& settings, const ImageSpace& image,
                              const Communicator& comm) {
  std::vector<std::unique_ptr<LocalOperator>> identity;
  identity.push_back(make_identity());
  RunPlan plan = plan_arrays(parse_words(settings, comm), image, plan_local_stack(std::move(identity)), comm);
  plan.job.scratch = "never";  // its images are somebody else's
  choose_execution(plan, comm, this_launch(comm));
  PlacedDenoiser out;
  out.transport = open_transport(plan, comm).transport;
  out.denoiser = make_denoiser(plan, comm, out.transport);
  out.decomposition = plan.decomposition;
  out.notices = std::move(plan.notices);
  return out;
}

}  // namespace tessera
