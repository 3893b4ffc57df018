// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "run/measure.hpp"
#include "tessera/app/problem.hpp"
#include "tessera/app/run_plan.hpp"
#include "tessera/comm/transport_start.hpp"
#include "tessera/denoise/denoiser.hpp"
#include "tessera/solve/checkpoint.hpp"
#include "tessera/solve/metrics.hpp"
#include "tessera/solve/observer.hpp"

namespace tessera {

/// The same fields, `prefix` before their names.
std::vector<StateField> prefixed(const std::string& prefix, std::vector<StateField> fields);

/// When the job's iterations end.
StopRule stop_rule(const JobConfig& job);

/// A job with everything there that iterates: built from what is known of it, and restored from the checkpoint
/// where it goes on from one. Nothing is written yet.
struct JobRun {
  /// `pause`: as of measure(). Collective; InputError.
  JobRun(Measured measured, std::optional<Checkpoint> checkpoint, const Communicator& communicator,
         const std::function<void()>& pause);
  JobRun(const JobRun&) = delete;
  JobRun& operator=(const JobRun&) = delete;

  /// Scores the start, and each iteration from then on; nothing without a truth. Collective.
  void score();
  /// The job's iterations; once: what only they need is given back. Collective.
  LoopResult iterate(const std::vector<Observer*>& observers, const std::function<bool()>& stop_requested);

  bool goes_on() const { return from.has_value(); }
  int done() const { return from ? from->loop.iterations : 0; }

  /// The job as it is run, for resolved.yaml: with bounds, and the noise that the misfit asked for.
  JobConfig resolved() const;

  const RunPlan plan;
  const std::string said;  // the job before what the samples show, Measured::said
  std::optional<Checkpoint> from;
  Communicator comm;
  StartedTransport started;
  std::unique_ptr<Denoiser> denoiser;
  Problem problem;      // but for measurement and weights, which the data term holds
  at::Tensor measured;  // its first part, until somebody has written it
  at::Tensor weights;   // of the same, where the job asks for bad samples; else none
  Reducer reducer;
  Space space;
  std::unique_ptr<DataTerm> data;
  SolverOptions options;
  std::vector<StateField> fields;  // what a checkpoint holds
  CheckpointPlace place;
  Box scored;  // the pixels that samples stand on
  std::unique_ptr<Metrics> metrics;
  double psnr_start = NAN;
  bool clipped = false;  // samples at the ends of their range are bounds
  int trial_iterations =
      0;              // of steps that told whether the noise has to be raised, before the first iteration
  double raised = 1;  // the noise, to the misfit that no image takes away

 private:
  /// Raises the noise, and what follows from it, until an image explains the data, and one without grain does.
  /// Where the model is right it changes nothing. Collective.
  void raise_noise(double L);
  void raise_to_misfit(double L);
  void raise_over_grain(double L);
  void set_noise(double noise, double L);

  bool level_said_ = false;  // the resolved job says the level that was raised
  at::Tensor start_, best_;  // best_: the loop's
  double start_rms_ = 0;
  std::unique_ptr<Denoiser> early_, continued_;
  std::unique_ptr<Solver> solver_;
};

}  // namespace tessera
