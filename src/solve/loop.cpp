// SPDX-License-Identifier: BSD-3-Clause
#include <ATen/ops/empty_like.h>

#include <cmath>
#include <optional>
#include <utility>

#include "tessera/core/phase.hpp"
#include "tessera/solve/observer.hpp"

namespace tessera {
namespace {

constexpr double kDivergedRms = 100;  // the image's range is [0, 1]

// An iteration whose numbers are on their way.
struct Flying {
  IterationResult result;
  IterationRecord record;
  Deferred objective, chi2, psnr, squares, stop;
};

}  // namespace

const char* name(StopReason reason) {
  switch (reason) {
    case StopReason::converged:
      return "converged";
    case StopReason::limit:
      return "limit";
    case StopReason::stopped:
      return "stopped";
    case StopReason::diverged:
      return "diverged";
    case StopReason::none:
      break;
  }
  return "none";
}

LoopResult run_loop(const LoopInput& in) {
  LoopResult out;
  Solver& solver = in.solver;
  at::Tensor good = solver.image().clone();               // seen to be good
  at::Tensor candidate = at::empty_like(solver.image());  // the image after the flying iteration
  std::optional<Flying> flying;
  const double begin = now();

  // The flying iteration's numbers have arrived: tell the observers and decide.
  const auto land = [&]() -> StopReason {
    IterationResult& r = flying->result;
    r.objective = flying->objective.value();
    r.chi2 = flying->chi2.value();
    r.residual = flying->record.residual.value();
    r.psnr = flying->psnr.value();
    const double rms = std::sqrt(flying->squares.value() / in.pixels);
    for (Observer* o : in.observers) o->on_result(r);
    out.last = r;
    out.iterations = r.iteration + 1;
    if (!std::isfinite(rms) || rms > kDivergedRms || !std::isfinite(r.residual)) return StopReason::diverged;
    std::swap(good, candidate);
    if (flying->stop.value() > 0) return StopReason::stopped;
    if (r.residual < in.stop.residual || r.chi2 < in.stop.chi2) return StopReason::converged;
    return StopReason::none;
  };

  StopReason reason = in.stop.iterations > 0 ? StopReason::none : StopReason::limit;
  for (int k = 0; reason == StopReason::none; ++k) {
    set_iteration(k);
    Flying next;
    next.result.iteration = k;
    next.result.start = now();
    if (k > 0) candidate.copy_(solver.image());
    next.record = solver.step(k);
    next.result.step = next.record.step;
    next.result.sigma = next.record.sigma;
    next.objective = in.data.objective();
    next.chi2 = in.data.chi2();
    {
      const PhaseScope phase(Phase::metrics);
      if (in.metrics) next.psnr = in.metrics->psnr(solver.image(), in.reducer);
      next.squares = in.space.norm_squared(solver.image());
      next.stop = in.reducer.add(in.stop_requested && in.stop_requested() ? 1.0 : 0.0);
    }
    for (Observer* o : in.observers) o->after_step(k, solver);
    in.reducer.finish();
    in.reducer.launch();
    if (flying) reason = land();
    next.result.seconds = now() - next.result.start;
    flying = std::move(next);
    if (k + 1 == in.stop.iterations && reason == StopReason::none) reason = StopReason::limit;
  }
  if (flying) {  // the last step's own numbers
    in.reducer.finish();
    if (reason != StopReason::diverged) {
      candidate.copy_(solver.image());
      const StopReason last = land();
      if (last == StopReason::diverged || (last == StopReason::converged && reason == StopReason::limit))
        reason = last;
    }
  }
  set_iteration(-1);
  out.reason = reason;
  out.image = good;
  out.seconds = now() - begin;
  for (Observer* o : in.observers) o->at_end(reason);
  return out;
}

}  // namespace tessera
