// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <optional>

#include "tessera/app/run_plan.hpp"
#include "tessera/perf/model.hpp"

namespace tessera {

/// Conjugate gradients that a proximal step is taken for where nobody counted: what preconditioned ones need
/// in the middle of a schedule, about. Enough to choose how the network runs, which they do not depend on.
inline constexpr double kInnerIterations = 10;

/// A job in the terms of the cost model.
struct Modelled {
  std::shared_ptr<const OperatorPlan> op;
  std::optional<NetworkWork> network;
  DataWork data;  // refers to op
};

/// Arithmetic; no file is read. Without a network (tv, none) the data step alone.
Modelled model_job(const RunPlan& plan, bool gpu);

/// Conjugate gradients per data step, mean over a run, and how they are known.
struct InnerIterations {
  double count = 0;
  std::string source;
};
/// Of the last run in the job's output folder, if operator and solver were the same; else counted, by running
/// the job on a synthetic scene of 192 x 192 pixels (more where a kernel is large), its own operator, noise,
/// schedules and network, on this rank alone: some tenths of a second with a shipped network. The number
/// depends on kernel, border and penalties, hardly on the size. For a job whose data step runs conjugate
/// gradients. Not collective.
InnerIterations expected_inner(const RunPlan& plan);
bool runs_conjugate_gradients(const RunPlan& plan, const Modelled& m);

/// What the job says, over the transport that a run on the machine would choose.
Execution wanted_execution(const RunPlan& plan, const Machine& machine);

}  // namespace tessera
