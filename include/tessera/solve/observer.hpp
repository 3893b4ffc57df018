// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "tessera/solve/metrics.hpp"
#include "tessera/solve/solver.hpp"
#include "tessera/solve/watch.hpp"

namespace tessera {

enum class StopReason { none, converged, limit, stopped, diverged };
const char* name(StopReason reason);

/// One finished iteration, every number known. NaN where something is undefined.
struct IterationResult {
  int iteration = 0;
  double start = 0, seconds = 0;
  double objective = std::numeric_limits<double>::quiet_NaN();  // of the data, and of a prior that is known
  double chi2 = std::numeric_limits<double>::quiet_NaN();       // per sample
  double residual = std::numeric_limits<double>::quiet_NaN();
  double step = 0, sigma = 0;
  double psnr = std::numeric_limits<double>::quiet_NaN();
};

/// When to stop; 0 switches a rule off.
struct StopRule {
  int iterations = 20;
  double residual = 0;    // stop when the relative movement falls below
  double chi2 = 0;        // discrepancy: stop when chi2 per sample falls below
  bool rounding = false;  // stop where further iterations would move nothing, Watch::stands()
};

/// Where a loop stands between two iterations. With the solver's state() it is what the rest depends on.
struct LoopState {
  int iterations = 0;                    // done
  IterationResult last;                  // of them
  double seconds = 0;                    // in the loop, those of earlier programs too
  StopReason reason = StopReason::none;  // why it ended; none: on its way
  IterationResult decisive;              // converged: the iteration that met the rule
  bool stood = false;                    // converged: because the residual stood at rounding
  Watch watch;                           // over the residuals
};

/// Sees every iteration; the trace, the progress line, snapshots and checkpoints are observers. Same calls on
/// all ranks.
class Observer {
 public:
  virtual ~Observer() = default;
  /// Right after step k, before its numbers are known.
  virtual void after_step(int k, const Solver& solver) {}
  /// When the numbers of an iteration are known (one iteration later).
  virtual void on_result(const IterationResult& result) {}
  /// Asked after step k: whether to stand still after step k + 1. One rank's yes is everybody's.
  virtual bool wants_rest(int k) { return false; }
  /// Between two iterations, nothing under way and every number known: where a rest was wanted, and at the
  /// end unless the loop diverged. Collective.
  virtual void at_rest(const LoopState& state) {}
  virtual void at_end(StopReason reason) {}
};

struct LoopInput {
  Solver& solver;
  DataTerm& data;
  Reducer& reducer;
  const Space& space;
  StopRule stop;
  const Metrics* metrics = nullptr;  // PSNR of every iteration
  std::vector<Observer*> observers;
  std::function<bool()> stop_requested{};  // polled once per iteration; one rank's yes is everybody's
  double pixels = 1;                       // values of the whole image, for its root mean square
  int settled = 0;                         // first iteration from which step and sigma do not change
  double range = 1;            // a root mean square that the image may have; 10 times it is out of range
  LoopState begin{};           // of a resumed run; the solver's state is restored by then
  at::Tensor* best = nullptr;  // where the best image is kept, for checkpoints; null: by the loop
};

struct LoopResult {
  StopReason reason = StopReason::none;
  int iterations = 0;  // done, those before `begin` too
  IterationResult last;
  double seconds = 0;      // as the iterations
  double own_seconds = 0;  // of this call
  at::Tensor image;        // what is to be kept, this rank's block
  int kept = -1;           // the iteration that it belongs to; -1: the start
  std::string cause;       // why not the last one, or why it diverged; empty: all is well
  // What ended it: residual, chi2 or rounding (rules that were met), iterations, signal, divergence.
  std::string ended_by;
};

/// Whether a loop that stands there has nothing left to do under this rule.
bool finished(const LoopState& state, const StopRule& rule);

/// Runs a solver. One reduction per iteration, read one iteration later, so that no step waits for it: a stop
/// takes effect after the step that follows the one that decided, on any number of ranks alike, and whether
/// or not there was a rest in between. A stop that was asked for yields to a rule that is met: such a run is
/// done.
///
/// Which image is kept: the last one, unless the iteration has left what it had reached. It diverged where a
/// number is not finite, the image's root mean square is above 10 times `range`, or Watch sees it grow; at
/// the limit Watch may prefer its best iteration. What is kept is then Watch's best image, and `cause` says
/// why. Collective.
LoopResult run_loop(const LoopInput& in);

}  // namespace tessera
