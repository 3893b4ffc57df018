// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/app/reconstruct.hpp"
#include "tessera/app/memory_plan.hpp"

#include <utility>

#include "job/survey.hpp"
#include "run/job_run.hpp"
#include "run/measure.hpp"
#include "tessera/app/operator_table.hpp"
#include "tessera/app/tuning.hpp"
#include "tessera/config/parse.hpp"
#include "tessera/core/error.hpp"
#include "tessera/samples/weigh_samples.hpp"

namespace tessera {
namespace {

void check_samples(const Tensors& y, const ProductSpace& range, int rank) {
  TESSERA_VALIDATE(y.size() == range.parts(), "samples of ", y.size(), " parts were given (the operator has ",
                   range.parts(), ") give one tensor for each");
  for (std::size_t i = 0; i < y.size(); ++i) {
    const ProductSpace::Part& part = range.part(i);
    const std::int64_t wanted = part.space.values(part.block(rank));
    const std::int64_t axes = part.space.volume() ? 4 : 3;
    TESSERA_VALIDATE(!y[i].defined() || y[i].numel() != wanted || y[i].dim() == axes, "part ", i,
                     " of the samples has ", y[i].dim(), " axes (",
                     axes == 4 ? "channels, slices, " : "channels, ", "rows, columns are wanted) reshape it");
    TESSERA_VALIDATE(y[i].defined() && y[i].numel() == wanted, "part ", i, " of the samples has ",
                     y[i].defined() ? y[i].numel() : 0, " values (rank ", rank, " owns ", part.block(rank),
                     " of it, ", wanted, " values) give the rank's own");
  }
}

}  // namespace

Reconstruction reconstruct(const ArrayProblem& problem, const std::string& settings, const Communicator& comm,
                           const std::vector<Observer*>& observers,
                           const std::function<bool()>& stop_requested) {
  know_choices();
  JobConfig job;
  comm.together([&] { job = parse_job("schema: 1\n" + settings, "settings", {}, {}, Purpose::arrays); });
  if (problem.noise > 0) job.problem.noise.gaussian = problem.noise;
  RunPlan plan = plan_arrays(job, problem.image, problem.op, comm);
  choose_execution(plan, comm, this_launch(comm));
  std::string laid;
  const std::unique_ptr<ScratchScope> scratch = open_scratch(plan, comm, laid);
  const ProblemMaker take = [&](const RunPlan& plan, const Communicator& ranks,
                                const std::shared_ptr<Transport>& transport) {
    Problem taken;
    taken.A = plan.op->place({plan.domain(), plan.options(), transport, ranks});
    Samples samples;
    ranks.together([&] {
      samples.y = problem.samples(taken.A->range(), ranks.rank());
      check_samples(samples.y, taken.A->range(), ranks.rank());
    });
    weigh_samples(survey_of(plan), std::move(samples), taken, ranks);
    return taken;
  };
  const auto go_on = [] {};
  JobRun run(measure(std::move(plan), SettingsFrom::data, comm, go_on, take), std::nullopt, comm, go_on);
  Reconstruction out;
  out.block = run.plan.decomposition.block(comm.rank());
  for (const auto* const lines : {&std::as_const(run.plan.notices), &std::as_const(run.problem.notices),
                                  &std::as_const(run.problem.warnings)})
    out.notices.insert(out.notices.end(), lines->begin(), lines->end());
  if (!laid.empty()) out.notices.push_back(laid);
  out.loop = run.iterate(observers, stop_requested);
  out.image = out.loop.image;
  return out;
}

}  // namespace tessera
