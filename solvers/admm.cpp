// SPDX-License-Identifier: BSD-3-Clause
#include <ATen/core/Tensor.h>
#include <ATen/ops/add.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/zeros_like.h>

#include <memory>
#include <utility>

#include "tessera/core/error.hpp"
#include "tessera/domain/bands.hpp"
#include "tessera/solve/solver.hpp"

namespace tessera {
namespace {

Option dual_step() {
  return {
      "dual_step",
      0.0,
      {.least = 0, .most = 1.6, .above = true, .word = "auto", .example = "0.5"},
      "",
      "length of the multiplier's step; auto: 0.2 or 0.5 for a network whose sigma falls by itself, else 1"};
}

// Short steps where the denoiser's level falls to a last one: the multiplier adds up what it changes before.
double beta_of(const SolverOptions& options) {
  const double said = options.own.number(dual_step());
  return said > 0 ? said : options.level > 0 ? (options.pixels ? 0.5 : 0.2) : 1.0;
}

/// Alternating direction method of multipliers, plug-and-play, scaled dual z:
///   u  = prox_{gamma f}(x - z)
///   x+ = P D(u + z, sigma)
///   z  = z + beta (u - x+),   z_0 = 0
///
/// Solves min f / s_n^2 + lambda g with sigma^2 = gamma lambda s_n^2 (tessera/solve/strength.hpp); P keeps
///   the bounds. Where gamma changes, z (gamma times the multiplier) is scaled with it.
/// The residual is that of the fixed point: the primal one, u - x+, and the dual one, x+ - x, together,
///   sqrt(|u - x+|^2 + |x+ - x|^2) / |x+| (Boyd's stopping rule asks both to be small, section 3.3).
/// Shapes: (C, [D,] H, W), this rank's block. Units: image and sigma in range [0, 1]. gamma: the option step,
///   > 0; beta: dual_step, 0 < beta < (1 + sqrt 5) / 2.
/// Assumes: with D the prox of sigma^2 g, g convex, x tends to a minimizer; a network should be firmly
///   non-expansive.
/// Collective: step().
/// Source: Boyd, Parikh, Chu, Peleato, Eckstein, Found. Trends Mach. Learn. 3 (2011) 1; with a denoiser:
///   Venkatakrishnan, Bouman, Wohlberg, GlobalSIP 2013.
class Admm final : public Solver {
 public:
  explicit Admm(const SolverInput& in)
      : in_(in),
        gamma_(penalties(in)),
        beta_(beta_of(in.options)),
        x_(in.start),
        z_(at::zeros_like(x_)),
        u_(in.start.clone()),
        next_(at::empty_like(x_)),
        work_(at::empty_like(x_)) {
    TESSERA_VALIDATE(0 < beta_ && beta_ < 1.618, "solver.dual_step is ", beta_,
                     " (ADMM converges for 0 < dual_step < 1.618) use 1");
  }

  const at::Tensor& image() const override { return x_; }
  const at::Tensor& previous() const override { return next_; }

  IterationRecord step(int k) override {
    const double gamma = gamma_.at(k), sigma = in_.options.sigma.at(k);
    const double turned = k > 0 ? gamma / gamma_.at(k - 1) : 1;  // the dual is scaled by gamma
    by_bands(
        [&](at::Tensor work, at::Tensor z, const at::Tensor& x) {
          if (turned != 1) z.mul_(turned);
          at::sub_out(work, x, z);
        },
        work_, z_, x_);
    in_.data.prox(work_, gamma, u_);
    at::add_out(work_, u_, z_);
    in_.denoiser.apply(work_, sigma, next_);
    in_.options.bound(next_);
    BandSum primal, dual, size;
    by_bands(
        [&](at::Tensor z, const at::Tensor& u, const at::Tensor& next, const at::Tensor& x) {
          const at::Tensor apart = u - next, moved = next - x;
          z.add_(apart, beta_);
          primal.add(local_dot(apart, apart));
          dual.add(local_dot(moved, moved));
          size.add(local_dot(next, next));
        },
        z_, u_, next_, x_);
    Deferred residual = in_.space.relative_root({primal.value(), dual.value()}, size.value());
    in_.data.measure(next_);
    Deferred prior = prior_value(in_, next_, gamma, sigma);
    std::swap(x_, next_);
    return {.step = gamma,
            .sigma = sigma,
            .residual = std::move(residual),
            .squares = in_.space.sum(size.value()),
            .prior = std::move(prior)};
  }

  std::vector<StateField> state() override {
    return {{.name = "x", .image = &x_}, {.name = "z", .image = &z_}};
  }

 private:
  SolverInput in_;
  Schedule gamma_;
  double beta_;
  at::Tensor x_, z_, u_;  // denoised image; scaled dual; data-consistent image
  at::Tensor next_, work_;
};

}  // namespace

SolverRow admm() {
  return {.name = "admm",
          .make = make<Admm>,
          .data_step = DataStep::prox,
          .images = 5,
          .state_images = 2,
          .passes =
              "x z > work; prox work > u; u z > work; denoise work > previous; z u previous x > z; "
              "measure previous",
          .options = {dual_step()},
          .multiplier = true};
}

}  // namespace tessera
