// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/solve/observer.hpp"

#include <ATen/core/Tensor.h>

#include <cmath>
#include <optional>
#include <utility>

#include "tessera/core/error.hpp"
#include "tessera/core/phase.hpp"

namespace tessera {
namespace {

constexpr double kOutOfRange = 10;  // times the range's root mean square

// An iteration whose numbers are on their way.
struct Flying {
  IterationResult result;
  IterationRecord record;
  Deferred objective, chi2, psnr, squares, stop, rest;
};

bool met(const IterationResult& r, const StopRule& rule) {
  return r.residual < rule.residual || r.chi2 < rule.chi2;
}

const char* ended_by(StopReason reason, const LoopState& at, const StopRule& rule) {
  switch (reason) {
    case StopReason::converged:
      return at.stood ? "rounding" : at.decisive.residual < rule.residual ? "residual" : "chi2";
    case StopReason::limit:
      return "iterations";
    case StopReason::stopped:
      return "signal";
    case StopReason::diverged:
      return "divergence";
    case StopReason::none:
      break;
  }
  return "";
}

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

bool finished(const LoopState& state, const StopRule& rule) {
  if (state.reason == StopReason::converged && (state.stood ? rule.rounding : met(state.decisive, rule)))
    return true;
  return state.iterations >= rule.iterations;
}

LoopResult run_loop(const LoopInput& in) {
  LoopState at = in.begin;
  Solver& solver = in.solver;
  at::Tensor own;
  at::Tensor& best = in.best ? *in.best : own;  // the image of the watch's best iteration
  if (!best.defined()) best = solver.image().clone();
  std::string cause;
  std::optional<Flying> flying;
  const double begin = now();
  const double seconds_before = at.seconds;

  // What the numbers of the last iteration ask for, and whether somebody wants a rest: both take effect after
  // the step that follows.
  StopReason asked = StopReason::none;
  bool rest = false;

  const auto converges = [&] {  // by the last iteration's numbers
    const bool by_rule = met(at.last, in.stop);
    if (!by_rule && !(in.stop.rounding && at.watch.stands())) return false;
    asked = StopReason::converged;
    at.decisive = at.last;
    at.stood = !by_rule;
    return true;
  };

  // The flying iteration's numbers have arrived: tell the observers and decide. `image`: the one it made.
  const auto land = [&](const at::Tensor& image) {
    IterationResult& r = flying->result;
    const double prior = flying->record.prior.value();
    r.objective = flying->objective.value() + (std::isnan(prior) ? 0 : prior);
    r.chi2 = flying->chi2.value();
    r.residual = flying->record.residual.value();
    r.psnr = flying->psnr.value();
    const double rms = std::sqrt(flying->squares.value() / in.pixels);
    for (Observer* o : in.observers) o->on_result(r);
    at.last = r;
    at.iterations = r.iteration + 1;
    rest = flying->rest.value() > 0;
    asked = StopReason::none;
    const auto diverged = [&](std::string why) {
      asked = StopReason::diverged;
      cause = std::move(why);
    };
    if (!std::isfinite(rms) || !std::isfinite(r.residual)) {
      diverged(concat("iteration ", r.iteration + 1, " made numbers that are not finite"));
    } else if (rms > kOutOfRange * in.range) {
      diverged(concat("the image left its range in iteration ", r.iteration + 1, ", its root mean square is ",
                      rms));
    } else {
      const Watch::Verdict verdict = at.watch.see(r.iteration, r.residual, r.chi2, r.iteration >= in.settled);
      if (verdict == Watch::Verdict::best) best.copy_(image);
      if (verdict == Watch::Verdict::growing) {
        diverged(concat("residual or chi2 have grown since iteration ", at.watch.best + 1, ", in iteration ",
                        r.iteration + 1, " they are no longer settling"));
      } else if (!converges() && flying->stop.value() > 0) {
        asked = StopReason::stopped;
      }
    }
    flying.reset();
  };
  const auto land_now = [&] {
    in.reducer.finish();
    land(solver.image());
  };
  const auto tell_at_rest = [&] {
    at.seconds = seconds_before + now() - begin;
    solver.at_rest();
    for (Observer* o : in.observers) o->at_rest(at);
  };

  StopReason reason = StopReason::none;
  if (finished(at, in.stop)) {
    reason = at.reason == StopReason::converged ? at.reason : StopReason::limit;
  } else if (at.iterations > 0) {
    converges();
  }
  at.reason = StopReason::none;
  const bool runs = reason == StopReason::none;
  for (int k = at.iterations; reason == StopReason::none; ++k) {
    set_iteration(k);
    Flying next;
    next.result.iteration = k;
    next.result.start = now();
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
      bool wanted = false;
      for (Observer* o : in.observers) wanted |= o->wants_rest(k);
      next.rest = in.reducer.add(wanted ? 1.0 : 0.0);
    }
    for (Observer* o : in.observers) o->after_step(k, solver);
    in.reducer.finish();
    in.reducer.launch();
    if (flying) land(solver.previous());
    next.result.seconds = now() - next.result.start;
    flying = std::move(next);
    reason = asked;
    if (k + 1 == in.stop.iterations && (reason == StopReason::none || reason == StopReason::stopped))
      reason = StopReason::limit;
    if (reason == StopReason::none && rest) {
      land_now();
      if (asked == StopReason::diverged)
        reason = asked;
      else
        tell_at_rest();
    }
  }
  if (flying) {  // the last step's own numbers
    if (reason == StopReason::diverged) {
      in.reducer.finish();
    } else {
      land_now();
      if (asked == StopReason::diverged || (asked == StopReason::converged && reason == StopReason::limit))
        reason = asked;
    }
  }
  set_iteration(-1);
  at.reason = reason;
  if (runs && reason != StopReason::diverged) tell_at_rest();

  LoopResult out;
  out.reason = reason;
  out.ended_by = ended_by(reason, at, in.stop);
  out.iterations = at.iterations;
  out.last = at.last;
  out.kept = at.iterations - 1;
  if (reason == StopReason::limit && at.watch.better_than(out.kept))
    cause = concat("the residual was smallest in iteration ", at.watch.best + 1, " and has doubled since");
  out.cause = cause;
  if (cause.empty()) {
    out.image = at.iterations > 0 ? solver.image() : best;
  } else {
    out.image = best;
    out.kept = at.watch.best;
  }
  out.own_seconds = now() - begin;
  out.seconds = seconds_before + out.own_seconds;
  for (Observer* o : in.observers) o->at_end(reason);
  return out;
}

}  // namespace tessera
