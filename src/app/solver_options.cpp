// SPDX-License-Identifier: BSD-3-Clause
// From the job file's solver section to the solver's options.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tessera/app/problem.hpp"
#include "tessera/config/parse.hpp"
#include "tessera/denoise/denoiser_table.hpp"

namespace tessera {
namespace {

Schedule schedule(const ScheduleConfig& c, int iterations) {
  if (c.automatic) return {};
  if (c.form == "log") return Schedule::log_space(c.first, c.last, iterations);
  if (c.form == "linear") return Schedule::linear(c.first, c.last, iterations);
  return c.values;
}

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

}  // namespace

// A schedule 'dpir' of either key ends at the noise level and sets what belongs to it.
SolverOptions solver_options(const Geometry& g, double noise, double L, bool missing) {
  const SolverConfig& s = g.job.solver;
  const int n = static_cast<int>(s.iterations);
  const SolverRow& row = find_solver(s.name);
  const DataStep kind = row.data_step;
  SolverOptions o;
  o.iterations = n;
  o.own = s.options;
  if (s.bounds) {
    o.least = (*s.bounds)[0];
    o.most = (*s.bounds)[1];
  }
  Strength said{schedule(s.step, n), schedule(s.sigma, n), s.lambda};
  const auto level = [&](const ScheduleConfig& c) { return c.last > 0 ? c.last : noise; };
  if (s.sigma.form == "dpir") {
    said.sigma = dpir_schedule(level(s.sigma), n).sigma;
    if (s.step.automatic && kind == DataStep::prox && !s.lambda)
      said.step = dpir_schedule(level(s.sigma), n).gamma;
  }
  if (s.step.form == "dpir") said.step = dpir_schedule(level(s.step), n).gamma;

  const bool takes_sigma =
      g.network ? g.network->takes_sigma() : find_denoiser(g.job.denoiser.network).takes_sigma;
  if (!takes_sigma) {  // sigma plays no part
    o.sigma = 0.0;
    o.step = said.step;
    if (kind == DataStep::prox && !o.step.set()) o.step = 1 / L;
    o.lambda = s.lambda.value_or(L);
    return o;
  }
  const bool descends = row.needs_potential;
  if (descends && !said.sigma.set() && noise > 0) said.sigma = kDescentLevel * noise / std::sqrt(L);
  const bool open = !said.sigma.set() && !said.step.set() && noise > 0, prox = kind == DataStep::prox;
  const bool pixels = o.pixels = g.network && g.op->traits(g.domain()).pointwise();
  const double r = noise / std::sqrt(L);  // of a pixel
  // Without a multiplier the result is the denoiser's last picture, which is a minimizer only as sigma falls.
  // One iteration alone is the denoiser at the noise level.
  const bool exact_split = !g.network && prox && !row.multiplier;
  const double last = exact_split ? (n > 1 ? r / 3 : r) : last_level(row, pixels, r);
  const bool falls = open && (prox || (g.network && !said.lambda));
  // A denoiser that is exact needs no last steps to nothing: total variation goes on at its level.
  const Fall fall = g.network ? fall_of(row, pixels) : Fall{exact_split ? 24 : 8, 0};
  const double usual = usual_lambda(row, pixels, r);
  // The MAP estimate is one pass at the noise level, which is then a fixed point.
  const bool one_pass = falls && row.multiplier && g.network && !missing && is_denoising(g.job.problem);
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
  o.strength = *settled.lambda;
  if (falls && !one_pass && g.network) o.level = last;
  if (falls && !prox) {  // its step follows sigma below the level, gradient_steps()
    o.sigma = falling(last, n, fall);
    o.step = {};
  }
  const double share = settled.sigma.values().back() / noise;  // weight = lambda / share^2
  o.lambda = s.lambda || (s.sigma.automatic && !descends) ? *settled.lambda / (share * share)
             : descends                                   ? kDescentWeight * L
                                                          : L;
  if (descends && noise > 0) o.strength = o.lambda * share * share;
  return o;
}

std::string untrained(const Geometry& g, const Schedule& sigma, double level) {
  if (!g.network || !g.network->sigma_range || !g.network->takes_sigma()) return {};
  const auto [least, most] = *g.network->sigma_range;
  for (const double value : sigma.values())
    if (const double s = std::max(value, level); s < least || s > most * (1 + 1e-6))
      return fmt::format(
          "the denoiser's sigma {:.4g} lies outside [{:.4g}, {:.4g}], for which {} were trained", s, least,
          most, g.job.denoiser.weights.empty() ? "the weights" : g.job.denoiser.weights);
  return {};
}

}  // namespace tessera
