// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/app/run_plan.hpp"
#include "tessera/denoise/execution.hpp"
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

/// What the job says, over the transport that a run on the machine would choose.
Execution wanted_execution(const RunPlan& plan, const Machine& machine);

/// Free bytes for each rank of the memory that it computes in: its GPU's, shared by the ranks on it, or the
/// host's.
std::int64_t available_bytes(const RunPlan& plan, int ranks_on_host);
/// Bytes per rank that the job allows where `available` are there for each rank; nothing for auto.
std::optional<std::int64_t> memory_budget(const JobConfig& job, std::int64_t available);
/// How the job's denoiser runs, and what its features may take beside all else. InputError where that is nothing.
ExecutionOptions execution_options(const RunPlan& plan, int ranks_on_host);

/// Where a job runs: this launch, or a pretended one on this host.
struct Place {
  int ranks = 1, per_host = 1, threads = 1;
};
Place this_launch(const Communicator& comm);  ///< collective
/// As jobs/launch.sh would start them on this host; threads 0: each has its share of the cores.
Place pretended_launch(int ranks, int threads = 0);

/// The machine that was measured here in a launch like this one (beside the tuned file); none where there is
/// no such file, or its fingerprint does not hold any more.
std::optional<Machine> measured_machine(const RunPlan& plan, const Place& place);
/// That, else round numbers for this kind of device.
Machine planning_machine(const RunPlan& plan, const Place& place);

/// Fills in what the job leaves to `auto`: mode, patch, batch and transport, from the tuned file where it has
/// this job on this machine, else from the cost model. Rank 0 decides; collective. Says in plan.notices what it
/// chose and why; resolved.yaml then holds it.
void choose_execution(RunPlan& plan, const Communicator& comm, const Place& place);

/// Bytes that features may take on every rank. Collective.
double feature_budget(const RunPlan& plan, const Communicator& comm, const Place& place);
/// Writes a choice into the job, and cuts the image as its mode wants it where the job gives no grid.
void set_execution(RunPlan& plan, const Execution& e);

/// Every way of running the job's denoiser that is worth a look, fastest first; each mode on the grid that it
/// wants.
std::vector<Prediction> rank_ways(const RunPlan& plan, const Modelled& m, const Machine& machine,
                                  double features);

/// What a tuned choice belongs to: network, sizes, ranks, precision, memory.
std::string shape_key(const RunPlan& plan, const Place& place);

}  // namespace tessera
