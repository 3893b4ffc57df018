// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "tessera/solve/solver.hpp"

namespace tessera {

enum class StopReason { none, converged, limit, stopped, diverged };
const char* name(StopReason reason);

/// One finished iteration, every number known. NaN where something is undefined.
struct IterationResult {
  int iteration = 0;
  double start = 0, seconds = 0;
  double objective = std::numeric_limits<double>::quiet_NaN();
  double chi2 = std::numeric_limits<double>::quiet_NaN();  // per sample
  double residual = std::numeric_limits<double>::quiet_NaN();
  double step = 0, sigma = 0;
  double psnr = std::numeric_limits<double>::quiet_NaN();
  double ssim = std::numeric_limits<double>::quiet_NaN();
};

/// Sees every iteration; the trace, the progress line, snapshots and checkpoints are observers. Same calls on
/// all ranks.
class Observer {
 public:
  virtual ~Observer() = default;
  /// Right after step k, before its reduction is known: may add terms to the reducer, look at the image.
  virtual void after_step(int k, const Solver& solver) {}
  /// When the numbers of an iteration are known (one iteration later).
  virtual void on_result(const IterationResult& result) {}
  virtual void at_end(StopReason reason) {}
};

/// When to stop; 0 switches a rule off.
struct StopRule {
  int iterations = 20;
  double residual = 0;  // stop when the relative movement falls below
  double chi2 = 0;      // discrepancy: stop when chi2 per sample falls below
};

/// Full-reference scores against a truth, as deferred numbers on the iteration's reduction.
struct Scores {
  at::Tensor truth;  // this rank's block; undefined: none
  bool ssim_every_iteration = false;
};

struct LoopResult {
  StopReason reason = StopReason::none;
  int iterations = 0;
  IterationResult last;
  double seconds = 0;
  at::Tensor image;  // the last good image, this rank's block
};

/// Runs a solver. One reduction per iteration, read one iteration later; a stop is therefore seen one step
/// late and the image of the deciding iteration + 1 is returned, the same on any number of ranks. NaN or a
/// residual that has grown a thousandfold ends the run as diverged with the last good image. `stop_requested`
/// is polled once per iteration and agreed on by all ranks. Collective.
LoopResult run_loop(Solver& solver, DataTerm& data, Reducer& reducer, const Space& space,
                    const StopRule& stop, const Scores& scores, const std::vector<Observer*>& observers,
                    bool (*stop_requested)() = nullptr);

}  // namespace tessera
