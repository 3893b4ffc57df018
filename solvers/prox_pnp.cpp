// SPDX-License-Identifier: BSD-3-Clause
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/sub.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>

#include "tessera/core/error.hpp"
#include "tessera/solve/solver.hpp"

namespace tessera {
namespace {

constexpr double kFallen = 0.1;  // the theory promises 0.25 for tau <= 1 / L_f
constexpr double kHalved = 0.5;  // eta
constexpr double kReach = 1.5;   // tau L_f < (M + 2) / (M + 1), M <= 1 the Lipschitz constant of gamma grad g
constexpr int kHalvings = 6;     // of one step

/// Plug-and-play with a proximal denoiser (Prox-PnP, proximal gradient):
///   z  = x - tau grad f(x)
///   x+ = z - gamma grad g(z),   grad g(z) = z - D(z, sigma),   gamma = tau w <= 1
///
/// Where gamma grad g contracts, the second line is the proximal map of phi,
///   phi(x) = gamma g(z) - |z - x|^2 / 2   with   x = z - gamma grad g(z),
/// and the iteration goes down on
///   F = f + phi / tau = f + w (g(z) - gamma |grad g(z)|^2 / 2),
/// which tends to f + w g, the objective of gspnp, as tau falls. Stands for min f / s_n^2 + lambda g / sigma^2
///   with w = lambda s_n^2 / sigma^2 (tessera/solve/strength.hpp). gamma = 1, step = 1 / w, is D itself: the
///   iteration of pgd with the same three keys.
/// tau is halved, and gamma with it, until phi >= 0 and F(x) - F(x+) >= 0.1 / tau |x+ - x|^2, and stays so:
///   one of them fails where gamma grad g expands, or where L_f is too small. A shorter tau is another F, at no
///   x a higher one where both maps are proximal: phi / gamma is the largest g(z) - |z - x|^2 / (2 gamma) of
///   all z. Where five halvings do not go below the last value, that was none of an F, which begins anew.
///   F is first known of x+: at the start, which is no D(z), phi is infinite.
/// A trial costs one pass of the network, as in gspnp. Waits in each step for F(x+).
/// Shapes: (C, [D,] H, W), this rank's block. Units: image and sigma in range [0, 1]; w: the option lambda;
///   the first tau: the option step, min(1 / L_f, 1 / w) where it is unset.
/// Assumes: grad f and gamma grad g are Lipschitz, of constants L_f and M < 1. Then F(x_k) converges and limits
///   of x_k are critical points.
/// Errors: a denoiser without a potential, bounds, a list of steps or of levels, a step outside of
///   0 < tau < 1.5 / L_f or above 1 / w are InputErrors. Collective: construction and step().
/// Source: Hurault, Leclaire, Papadakis, "Proximal denoiser for convergent plug-and-play optimization with
///   nonconvex regularization", ICML 2022, arXiv 2201.13256; gamma and the reach of tau: Hurault, Chambolle,
///   Leclaire, Papadakis, arXiv 2311.01216. Their tau is fixed; its halving is ours.
class ProxPnp final : public Solver {
 public:
  explicit ProxPnp(const SolverInput& in)
      : in_(in),
        tau_(first_step(in)),
        x_(in.start),
        next_(at::empty_like(x_)),
        gradient_(at::empty_like(x_)),
        z_(at::empty_like(x_)) {}

  const at::Tensor& image() const override { return x_; }
  const at::Tensor& previous() const override { return next_; }

  IterationRecord step(int k) override {
    const double sigma = in_.options.sigma.at(k);
    in_.data.gradient(x_, gradient_);
    Point there;
    for (int trial = 0; trial < kHalvings; ++trial, tau_ *= kHalved) {
      there = step_to_next(sigma);
      const double enough = kFallen / tau_ * there.moved - rounding(x_) * std::abs(there.height);
      if (there.prior >= 0 && height_ - there.height >= enough) break;
      if (!std::isfinite(there.height)) break;                             // the loop ends such a run
      if (there.moved <= rounding(x_) * rounding(x_) * there.size) break;  // x stands
    }
    height_ = there.height;
    std::swap(x_, next_);
    return {.step = there.step,
            .sigma = sigma,
            .residual = Deferred(std::sqrt(there.moved) / (std::sqrt(there.size) + 1e-6)),
            .prior = Deferred(there.prior)};
  }

  std::vector<StateField> state() override {
    return {{.name = "x", .image = &x_},
            {.name = "tau", .scalar = &tau_},
            {.name = "height", .scalar = &height_}};
  }

 private:
  static double first_step(const SolverInput& in) {
    validate_descent(in, "proxpnp");
    const double tau = gradient_steps(in, 0, kReach).at(0), longest = 1 / in.options.weight;
    if (!in.options.step.set()) return std::min(tau, longest);
    TESSERA_VALIDATE(tau <= longest * (1 + 1e-6), "solver.step is ", tau,
                     " (step times the prior's weight is the denoiser's share, 1 at most) write at most ",
                     longest, ", or auto");
    return tau;
  }
  struct Point {
    double step = 0;               // tau
    double height = 0, prior = 0;  // F; phi / tau
    double moved = 0, size = 0;    // |x+ - x|^2, |x+|^2
  };
  // x+ by this tau, and what is asked of it. Waits.
  Point step_to_next(double sigma) {
    const double gamma = tau_ * in_.options.weight;
    at::sub_out(z_, x_, gradient_, tau_);
    in_.denoiser.apply(z_, sigma, next_);
    const at::Tensor g = known_potential(in_, "proxpnp");
    next_.mul_(gamma).add_(z_, 1 - gamma);  // z - gamma (z - D(z))
    z_.sub_(next_);
    const at::Tensor fallen = local_dot(z_, z_);
    at::sub_out(z_, next_, x_);
    const at::Tensor own =
        at::stack({g.to(x_.device()), fallen, local_dot(z_, z_), local_dot(next_, next_)}).cpu();
    std::array<double, 4> sums{};
    std::copy_n(own.data_ptr<double>(), sums.size(), sums.begin());
    in_.space.comm().all_reduce(sums, Reduce::sum);
    const double prior = in_.options.weight * sums[0] - sums[1] / (2 * tau_);
    return {tau_, in_.data.value(next_) + prior, prior, sums[2], sums[3]};
  }

  SolverInput in_;
  double tau_;
  at::Tensor x_, next_;                                      // image; x+ that is tried
  at::Tensor gradient_, z_;                                  // grad f(x); z, then movements
  double height_ = std::numeric_limits<double>::infinity();  // F(x), not known before the first step
};

}  // namespace

SolverRow prox_pnp() {
  return {.name = "proxpnp",
          .make = make<ProxPnp>,
          .data_step = DataStep::red,
          .images = 4,
          .needs_potential = true};
}

}  // namespace tessera
