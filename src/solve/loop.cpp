// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/solve/observer.hpp"

#include <ATen/core/Tensor.h>

#include <cmath>
#include <optional>
#include <utility>

#include "tessera/core/error.hpp"
#include "tessera/core/phase.hpp"
#include "tessera/domain/bands.hpp"
#include "tessera/domain/tensor_memory.hpp"

namespace tessera {
namespace {

constexpr double kOutOfRange = 10;  // times the range's root mean square

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

namespace {

// One run of the loop. An iteration's numbers arrive while the next one is computed: what they ask for takes
// effect after the step that follows.
class Loop {
 public:
  explicit Loop(const LoopInput& in)
      : in_(in), solver_(in.solver), at_(in.begin), best_(in.best ? *in.best : own_) {
    if (!best_.defined()) best_ = solver_.image().clone();
  }

  LoopResult run() {
    StopReason reason = StopReason::none;
    if (finished(at_, in_.stop)) {
      reason = at_.reason == StopReason::converged ? at_.reason : StopReason::limit;
    } else if (at_.iterations > 0) {
      converges();
    }
    at_.reason = StopReason::none;
    const bool runs = reason == StopReason::none;
    for (int k = at_.iterations; reason == StopReason::none; ++k) reason = iterate(k);
    if (flying_) reason = land_last(reason);
    set_iteration(-1);
    at_.reason = reason;
    if (runs && reason != StopReason::diverged) tell_at_rest();
    return result(reason);
  }

 private:
  // An iteration whose numbers are on their way.
  struct Flying {
    IterationResult result;
    IterationRecord record;
    Deferred objective, chi2, psnr, squares, stop, rest;
  };

  // By the last iteration's numbers.
  bool converges() {
    const bool by_rule = met(at_.last, in_.stop);
    if (!by_rule && !(in_.stop.rounding && at_.watch.stands())) return false;
    asked_ = StopReason::converged;
    at_.decisive = at_.last;
    at_.stood = !by_rule;
    return true;
  }

  void diverged(std::string why) {
    asked_ = StopReason::diverged;
    cause_ = std::move(why);
  }

  // Step k; then the numbers of the one before. Whether, and why, it was the last.
  StopReason iterate(int k) {
    set_iteration(k);
    Flying next = step(k);
    if (flying_) land(solver_.previous());
    next.result.seconds = now() - next.result.start;
    flying_ = std::move(next);
    StopReason reason = asked_;
    if (k + 1 == in_.stop.iterations && (reason == StopReason::none || reason == StopReason::stopped))
      reason = StopReason::limit;
    if (reason == StopReason::none && rest_) {
      land_now();
      if (asked_ == StopReason::diverged)
        reason = asked_;
      else
        tell_at_rest();
    }
    return reason;
  }

  Flying step(int k) {
    Flying next;
    next.result.iteration = k;
    next.result.start = now();
    next.record = solver_.step(k);
    next.result.step = next.record.step;
    next.result.sigma = next.record.sigma;
    next.objective = in_.data.objective();
    next.chi2 = in_.data.chi2();
    {
      const PhaseScope phase(Phase::metrics);
      if (in_.metrics) next.psnr = in_.metrics->psnr(solver_.image(), in_.reducer);
      next.squares =
          next.record.squares.asked() ? next.record.squares : in_.space.norm_squared(solver_.image());
      next.stop = in_.reducer.add(in_.stop_requested && in_.stop_requested() ? 1.0 : 0.0);
      bool wanted = false;
      for (Observer* o : in_.observers) wanted |= o->wants_rest(k);
      next.rest = in_.reducer.add(wanted ? 1.0 : 0.0);
    }
    for (Observer* o : in_.observers) o->after_step(k, solver_);
    in_.reducer.finish();
    in_.reducer.launch();
    return next;
  }

  // The flying iteration's numbers have arrived: tells the observers and decides. `image`: the one it made.
  void land(const at::Tensor& image) {
    IterationResult& r = flying_->result;
    const double prior = flying_->record.prior.value();
    r.objective = flying_->objective.value() + (std::isnan(prior) ? 0 : prior);
    r.chi2 = flying_->chi2.value();
    r.residual = flying_->record.residual.value();
    r.psnr = flying_->psnr.value();
    for (Observer* o : in_.observers) o->on_result(r);
    at_.last = r;
    at_.iterations = r.iteration + 1;
    rest_ = flying_->rest.value() > 0;
    asked_ = StopReason::none;
    judge(r, std::sqrt(flying_->squares.value() / in_.pixels), image);
    flying_.reset();
  }

  // `rms`: of the image.
  void judge(const IterationResult& r, double rms, const at::Tensor& image) {
    if (!std::isfinite(rms) || !std::isfinite(r.residual))
      return diverged(concat("iteration ", r.iteration + 1, " made numbers that are not finite"));
    if (rms > kOutOfRange * in_.range)
      return diverged(concat("the image left its range in iteration ", r.iteration + 1,
                             ", its root mean square is ", rms));
    const Watch::Verdict verdict = at_.watch.see(r.iteration, r.residual, r.chi2, r.iteration >= in_.settled);
    if (verdict == Watch::Verdict::best) {
      overwritten_soon(best_);
      by_bands([](at::Tensor best, const at::Tensor& now) { best.copy_(now); }, best_, image);
    }
    if (verdict == Watch::Verdict::growing)
      diverged(concat("residual or chi2 have grown since iteration ", at_.watch.best + 1, ", in iteration ",
                      r.iteration + 1, " they are no longer settling"));
    else if (!converges() && flying_->stop.value() > 0)
      asked_ = StopReason::stopped;
  }

  void land_now() {
    in_.reducer.finish();
    land(solver_.image());
  }

  // The last step's own numbers.
  StopReason land_last(StopReason reason) {
    if (reason == StopReason::diverged) {
      in_.reducer.finish();
      return reason;
    }
    land_now();
    const bool late = asked_ == StopReason::converged && reason == StopReason::limit;
    return asked_ == StopReason::diverged || late ? asked_ : reason;
  }

  void tell_at_rest() {
    at_.seconds = seconds_before_ + now() - begin_;
    solver_.at_rest();
    for (Observer* o : in_.observers) o->at_rest(at_);
  }

  LoopResult result(StopReason reason) {
    LoopResult out;
    out.reason = reason;
    out.ended_by = ended_by(reason, at_, in_.stop);
    out.iterations = at_.iterations;
    out.last = at_.last;
    out.kept = at_.iterations - 1;
    if (reason == StopReason::limit && at_.watch.better_than(out.kept))
      cause_ =
          concat("the residual was smallest in iteration ", at_.watch.best + 1, " and has doubled since");
    out.cause = cause_;
    if (cause_.empty()) {
      out.image = at_.iterations > 0 ? solver_.image() : best_;
    } else {
      out.image = best_;
      out.kept = at_.watch.best;
    }
    out.own_seconds = now() - begin_;
    out.seconds = seconds_before_ + out.own_seconds;
    for (Observer* o : in_.observers) o->at_end(reason);
    return out;
  }

  const LoopInput& in_;
  Solver& solver_;
  LoopState at_;
  const double begin_ = now(), seconds_before_ = at_.seconds;
  at::Tensor own_;
  at::Tensor& best_;  // the image of the watch's best iteration
  std::string cause_;
  std::optional<Flying> flying_;
  StopReason asked_ = StopReason::none;  // by the last iteration's numbers
  bool rest_ = false;                    // somebody wants one
};

}  // namespace

LoopResult run_loop(const LoopInput& in) { return Loop(in).run(); }

}  // namespace tessera
