// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "tessera/app/problem.hpp"
#include "tessera/app/run_plan.hpp"
#include "tessera/comm/transport_start.hpp"
#include "tessera/denoise/denoiser.hpp"

namespace tessera {

/// What reads, simulates or is given a problem.
using ProblemMaker =
    std::function<Problem(const RunPlan&, const Communicator&, const std::shared_ptr<Transport>&)>;

/// The plan of a run in its last form, its denoiser, and the data on its blocks.
struct Measured {
  RunPlan plan;
  StartedTransport started;
  std::unique_ptr<Denoiser> denoiser;
  Problem problem;
  std::string said;  // the job with its settings, before what the samples show of noise and light
};

/// What is to be chosen by the data.
enum class SettingsFrom { data, checkpoint };

/// Reads the samples once, and lets them decide what the job leaves open; where that changes the blocks, samples move.
/// `pause` is called between long steps, at the same places on all ranks, and may throw. Collective; InputError.
Measured measure(RunPlan plan, SettingsFrom from, const Communicator& comm,
                 const std::function<void()>& pause, const ProblemMaker& make = make_problem);

}  // namespace tessera
