// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

#include "tessera/app/tuning.hpp"

namespace tessera {

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

}  // namespace tessera
