// SPDX-License-Identifier: BSD-3-Clause
#include "run/measure.hpp"

#include <ATen/TensorOperators.h>

#include <utility>

#include "job/facts.hpp"
#include "tessera/app/job_denoiser.hpp"
#include "tessera/app/tuning.hpp"
#include "tessera/config/parse.hpp"
#include "tessera/settings/settings.hpp"

namespace tessera {
namespace {

// Under a likelihood of counts weights say no more than which of them count.
void know_how_counts_scatter(Problem& problem) {
  for (at::Tensor& w : problem.weights) w = w.ne(0).to(w.scalar_type());
  problem.marked = problem.missing > 0;
  if (!problem.marked) problem.weights.clear();
}

}  // namespace

Measured measure(RunPlan plan, SettingsFrom from, const Communicator& comm,
                 const std::function<void()>& pause, const ProblemMaker& make) {
  StartedTransport started = open_transport(plan, comm);
  // Before the samples: what its features may take is what is free beside the program.
  std::unique_ptr<Denoiser> denoiser = make_denoiser(plan, comm, started.transport);
  pause();
  Problem problem = make(plan, comm, started.transport);
  if (from == SettingsFrom::data) {
    Settings shown = decide(plan.asked, facts_of(plan, problem));
    if (!shown.same(plan.settings)) {
      plan = with_settings(plan, shown, comm);
      choose_execution(plan, comm, this_launch(comm));
      started = open_transport(plan, comm);
      denoiser = make_denoiser(plan, comm, started.transport);
      problem = on_blocks(std::move(problem), plan, comm, started.transport);
      if (plan.job.problem.likelihood.type == "poisson") know_how_counts_scatter(problem);
    }
  }
  pause();
  std::string said = write_job(plan.job);
  return {.plan = with_estimate(std::move(plan), problem),
          .started = std::move(started),
          .denoiser = std::move(denoiser),
          .problem = std::move(problem),
          .said = std::move(said)};
}

}  // namespace tessera
