// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/solve/choose_schedules.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "tessera/core/error.hpp"

namespace tessera {
namespace {

// What lambda is where neither it nor sigma is written, for noise r of a pixel. Splitting: DPIR's; with a
// multiplier, which brings the noise back in, more where the noise is strong. Gradient and red: the MAP estimate.
double usual_lambda(const SolverRow& solver, bool pixels, double r) {
  constexpr double kDpir = 0.23, kStrong = 0.025;
  if (solver.data_step != DataStep::prox) return 1.0;
  if (!solver.multiplier) return kDpir;
  return std::clamp(kDpir * r / kStrong, kDpir, pixels ? 1.0 : 0.5);
}

// The level at which a network is used last: above the noise r of a pixel, where networks contract and the
// images are best (docs/solvers.md has the measurements). hqs goes down to r where samples are pixels, since
// its proximal points amplify no noise there, and nearly so elsewhere, where little noise is found (below 0.012
// networks do little) and where much of it is not (they leave more than there is).
double last_level(const SolverRow& solver, bool pixels, double r) {
  if (solver.data_step != DataStep::prox) return std::max(r, std::min(3 * r, 0.03));
  if (solver.multiplier) return std::max(1.5 * r, std::min(4 * r, 0.04));
  return pixels ? r : std::max(r * std::clamp(r / 0.06, 1.0, 1.5), std::min(4 * r, 0.012));
}

// gspnp as published for blurs (Hurault et al., ICLR 2022), and proxpnp, which stands for the same problem: the
// level in noise levels of a pixel, and the potential's weight beside f, in units of f's curvature.
constexpr double kDescentLevel = 1.8, kDescentWeight = 0.1;

// Where the denoiser's level falls by itself: in how many iterations, and the first of the steps to nothing
// that follow, as a share of the last level.
struct Fall {
  int iterations;
  double first;
};

// ADMM's multiplier adds up what a network changes while sigma is large: fewer iterations, with short dual
// steps. Gradients find a blurred picture more slowly than proximal points. A long first step to nothing
// follows the data once more: that sharpens what was blurred and brings noise into what was not.
Fall fall_of(const SolverRow& solver, bool pixels) {
  if (solver.data_step == DataStep::gradient) return {pixels ? 24 : 60, 0.01};
  if (solver.data_step == DataStep::red) return {60, 0.01};
  if (solver.multiplier) return pixels ? Fall{24, 0.01} : Fall{8, 0.1};
  return {24, pixels ? 0.1 : 0.3};
}

// What hqs adds of its last movement, by the noise r of a pixel: a network that goes down in kFew iterations comes as
// far as in twelve without (docs/defaults.md); strong noise wants less, and a kernel that is too wide, whose error grows
// as the data are followed, bears no more. Of volumes plane by plane three networks' mean wants more. Where there are
// more iterations it has less to replace. Scans, whose first proximal steps leave streaks, are best without: of 180 and
// of 45 views five iterations make 0.6 and 1.3 dB more than twelve, and with inertia 0.9 and 1.0 less.
constexpr double kFew = 5;
double usual_inertia(double r, bool volume, int iterations) {
  return (volume ? 0.6 : std::clamp(0.7 - 40 * r, 0.32, 0.6)) * std::min(1.0, kFew / iterations);
}

// From strong denoising down to `last`, then on to nothing, so that a longer run ends at rounding with the
// best that it had reached instead of leaving it.
constexpr double kFirst = 49.0 / 255.0, kNothing = 1e-7;

Schedule falling(double last, int iterations, Fall fall) {
  std::vector<double> v =
      Schedule::log_space(std::max(kFirst, last), last, std::min(iterations, fall.iterations)).values();
  for (double share = fall.first; share > kNothing && std::ssize(v) < iterations; share *= 0.01)
    v.push_back(last * share);
  return v;
}

template <class Rule>
Schedule map(const Schedule& s, Rule rule) {
  std::vector<double> out;
  for (const double v : s.values()) out.push_back(rule(v));
  return out;
}

}  // namespace

Strength settle(const Strength& said, DataStep kind, double usual, double noise, double L) {
  Strength s = said;
  const bool by_weight = weighs(kind);
  TESSERA_VALIDATE(
      !(s.lambda && s.sigma.set() && s.step.set()) || by_weight,
      "solver.lambda, solver.sigma and solver.step are all given (sigma^2 = step lambda noise^2: "
      "two of them say the third) leave one to auto");
  TESSERA_VALIDATE(!s.lambda || *s.lambda > 0, "solver.lambda is ", s.lambda.value_or(0),
                   " (the prior's strength is positive) use for example 1");
  const double v = noise * noise;
  const auto noise_for = [&](const char* key) {
    TESSERA_VALIDATE(noise > 0, key, " cannot be found (the noise level is not known) ",
                     "write solver.sigma, or the level in problem.noise");
  };
  if (!s.sigma.set()) {
    noise_for("solver.sigma");
    if (!s.lambda) s.lambda = usual;
    if (by_weight)
      s.sigma = noise / std::sqrt(L);
    else {
      if (!s.step.set()) s.step = 1 / L;
      s.sigma = map(s.step, [&](double step) { return noise * std::sqrt(step * *s.lambda); });
    }
    return s;
  }
  const double last = s.sigma.values().back();
  if (s.lambda && by_weight) {
    noise_for("the weight of the prior");
    TESSERA_VALIDATE(last > 0, "solver.sigma ends at 0 (the prior's weight is lambda noise^2 / sigma^2) ",
                     "end it above 0");
  }
  if (s.lambda) {
    if (!s.step.set() && !by_weight) {
      noise_for("solver.step");
      TESSERA_VALIDATE(last > 0, "solver.sigma ends at 0 (with solver.lambda the steps follow sigma^2) ",
                       "end it above 0");
      s.step = map(s.sigma, [&](double sigma) { return sigma * sigma / (*s.lambda * v); });
    }
    return s;
  }
  if (!s.step.set() && !by_weight) {
    s.step = 1 / L;
    if (kind == DataStep::prox && last > 0)
      s.step = map(s.sigma, [&](double sigma) { return sigma * sigma / (last * last) / L; });
  }
  const double step = s.step.set() && !by_weight ? s.step.values().back() : 1 / L;
  s.lambda = noise > 0 ? last * last / (step * v) : std::numeric_limits<double>::quiet_NaN();
  return s;
}

void choose_schedules(const ScheduleRequest& in, SolverOptions& o) {
  const SolverRow& row = in.solver;
  const DataStep kind = row.data_step;
  const int n = o.iterations;
  const double noise = in.noise, L = in.L;
  Strength said = in.said;
  if (!in.takes_sigma) {  // sigma plays no part
    o.sigma = 0.0;
    o.step = said.step;
    if (kind == DataStep::prox && !o.step.set()) o.step = 1 / L;
    o.weight = said.lambda.value_or(L);
    return;
  }
  const bool lambda_said = said.lambda.has_value(), descends = row.needs_potential;
  if (descends && !said.sigma.set() && noise > 0) said.sigma = kDescentLevel * noise / std::sqrt(L);
  const bool open = !said.sigma.set() && !said.step.set() && noise > 0, prox = kind == DataStep::prox;
  const bool pixels = o.pixels = in.network && in.pixels;
  const double r = noise / std::sqrt(L);  // of a pixel
  // Without a multiplier the result is the denoiser's last picture, which is a minimizer only as sigma falls.
  // One iteration alone is the denoiser at the noise level.
  const bool exact_split = !in.network && prox && !row.multiplier;
  const double last = exact_split ? (n > 1 ? r / 3 : r) : last_level(row, pixels, r);
  const bool falls = open && (prox || (in.network && !said.lambda));
  // A denoiser that is exact needs no last steps to nothing: total variation goes on at its level.
  const Fall fall = in.network ? fall_of(row, pixels) : Fall{exact_split ? 24 : 8, 0};
  const double usual = usual_lambda(row, pixels, r);
  // The MAP estimate is one pass at the noise level, which is then a fixed point.
  const bool one_pass = falls && row.multiplier && in.network && in.denoising;
  if (one_pass) {
    said.sigma = r;
    if (!said.lambda) said.lambda = 1.0;
  } else if (falls && prox) {
    said.sigma = falling(last, n, fall);
    if (!said.lambda) said.lambda = usual;
  } else if (falls) {
    said.sigma = last;
  }
  const Strength settled = settle(said, kind, usual, noise, L);
  o.step = settled.step;
  o.sigma = settled.sigma;
  o.lambda = *settled.lambda;
  // Of ten photographs with a noise of 0.002 networks at that level lose 1.4 dB, continued from 0.005 none loses; at
  // 0.005 all gain.
  constexpr double kAble = 0.005;
  if (falls && !one_pass && in.network) o.level = pixels ? std::max(last, kAble) : last;
  if (falls && prox && !one_pass && in.network && !pixels && in.convolves)
    o.inertia = usual_inertia(r, in.volume, n);
  if (falls && !prox) {  // its step follows sigma below the level, gradient_steps()
    o.sigma = falling(last, n, fall);
    o.step = {};
  }
  const double share = settled.sigma.values().back() / noise;  // weight = lambda / share^2
  o.weight = lambda_said || (in.sigma_open && !descends) ? *settled.lambda / (share * share)
             : descends                                  ? kDescentWeight * L
                                                         : L;
  if (descends && noise > 0) o.lambda = o.weight * share * share;
}

}  // namespace tessera
