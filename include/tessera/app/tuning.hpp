// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

#include "tessera/app/modelled.hpp"
#include "tessera/perf/tuned.hpp"

namespace tessera {

/// Where a job runs: this launch, or a pretended one on this host.
struct Place {
  int ranks = 1, per_host = 1, threads = 1;
};
Place this_launch(const Communicator& comm);  ///< collective
Place pretended_launch(int ranks);            ///< cores shared as jobs/launch.sh does

/// The machine of --machine; without a name the one measured here (beside the tuned file) where its
/// fingerprint still holds, else round numbers for this kind of device. InputError.
Machine planning_machine(const std::string& name, const Geometry& g, const Place& place);

/// Fills in what the job leaves to `auto`: mode, patch, batch and transport, from the tuned file where it has
/// this job on this machine, else from the cost model. Rank 0 decides; collective. Says in g.notices what it
/// chose and why; resolved.yaml then holds it.
void choose_execution(Geometry& g, const Communicator& comm, const Place& place);

/// Bytes that features may take on every rank. Collective.
double feature_budget(const Geometry& g, const Communicator& comm, const Place& place);
/// Writes a choice into the job, and cuts the image as its mode wants it where the job gives no grid.
void set_execution(Geometry& g, const Execution& e);

/// Every way of running the job's denoiser that is worth a look, fastest first; each mode on the grid that it
/// wants.
std::vector<Prediction> rank_ways(const Geometry& g, const Modelled& m, const Machine& machine,
                                  double features);

/// What a tuned choice belongs to: network, sizes, ranks, precision, memory.
std::string shape_key(const Geometry& g, const Place& place);

}  // namespace tessera
