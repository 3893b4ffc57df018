// SPDX-License-Identifier: BSD-3-Clause
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/sub.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <utility>

#include "tessera/core/error.hpp"
#include "tessera/solve/solver.hpp"

namespace tessera {
namespace {

constexpr double kShare = 0.1;    // gamma
constexpr double kShorter = 0.5;  // eta
constexpr int kTrials = 100;      // of one step, should nothing else end them

/// Gradient-step plug-and-play:
///   x+ = prox_{tau f}(x - tau w grad g(x)),   grad g(x) = x - D(x, sigma)
///
/// Goes down on F = f + w g, the denoiser's own potential g, in every step: tau becomes eta tau until
///   F(x) - F(x+) >= gamma / tau |x+ - x|^2, and stays. Stands for min f / s_n^2 + lambda g / sigma^2 with
///   w = lambda s_n^2 / sigma^2 (tessera/solve/strength.hpp). The image is D(x), a sample of the denoiser as
///   published; objective, chi2 and residual |x+ - x| / |x+| belong to x.
/// A trial costs one pass of the network, which is the next step's too if x+ is kept: one per iteration once
///   tau fits. This is the one solver that waits for a number in each step, F(x+).
/// Shapes: (C, [D,] H, W), this rank's block. Units: image and sigma in range [0, 1]; w: the option lambda;
///   the first tau: the option step, 1 / w where it is unset.
/// Assumes: grad g is Lipschitz, g bounded below; nothing of f but its prox. Then F(x_k) converges and limits
///   of x_k are critical points, for convex f. Where a step too short to be told from rounding does not go
///   down either, x stays.
/// Errors: a denoiser without a potential, bounds, a list of steps or of levels are InputErrors. Collective:
///   construction and step().
/// Source: Hurault, Leclaire, Papadakis, "Gradient step denoiser for convergent plug-and-play", ICLR 2022,
///   arXiv 2110.03220, algorithm 1 with its backtracking (gamma = 0.1; eta there 0.9, here fewer passes).
class GradientStep final : public Solver {
 public:
  explicit GradientStep(const SolverInput& in)
      : in_(in),
        tau_(in.options.step.set() ? in.options.step.at(0) : 1 / in.options.weight),
        x_(in.start),
        u_(in.start.clone()),
        next_(at::empty_like(x_)),
        next_u_(at::empty_like(x_)),
        z_(at::empty_like(x_)) {
    validate_descent(in, "gspnp");
    TESSERA_VALIDATE(tau_ > 0, "solver.step is ", tau_, " (the first step tau is positive) write auto");
  }

  const at::Tensor& image() const override { return u_; }
  const at::Tensor& previous() const override { return next_u_; }

  IterationRecord step(int k) override {
    const double sigma = in_.options.sigma.at(k), weight = in_.options.weight;
    if (!begun_) {
      height_ = look_at(x_, sigma, u_).height;
      begun_ = 1;
    }
    Point there;
    for (int trial = 0; trial < kTrials; ++trial, tau_ *= kShorter) {
      at::sub_out(z_, x_, u_).mul_(-tau_ * weight).add_(x_);
      in_.data.prox(z_, tau_, next_);
      there = look_at(next_, sigma, next_u_);
      if (height_ - there.height >= kShare / tau_ * there.moved - rounding(x_) * std::abs(height_)) break;
      if (!std::isfinite(there.height)) break;                        // the loop ends such a run
      if (there.moved <= rounding(x_) * rounding(x_) * there.size) {  // x is as low as arithmetic can tell
        next_.copy_(x_);
        there = look_at(next_, sigma, next_u_);
        break;
      }
    }
    height_ = there.height;
    std::swap(x_, next_);
    std::swap(u_, next_u_);
    return {.step = tau_,
            .sigma = sigma,
            .residual = Deferred(std::sqrt(there.moved) / (std::sqrt(there.size) + 1e-6)),
            .prior = Deferred(there.prior)};
  }

  std::vector<StateField> state() override {
    return {{.name = "x", .image = &x_},
            {.name = "denoised", .image = &u_},
            {.name = "tau", .scalar = &tau_},
            {.name = "begun", .scalar = &begun_},
            {.name = "height", .scalar = &height_}};
  }

 private:
  struct Point {
    double height = 0, prior = 0;  // F; w g
    double moved = 0, size = 0;    // |p - x|^2, |p|^2
  };
  // D(p) and what else a step asks of it. Waits.
  Point look_at(const at::Tensor& p, double sigma, at::Tensor& denoised) {
    in_.denoiser.apply(p, sigma, denoised);
    const at::Tensor mine = known_potential(in_, "gspnp");
    at::sub_out(z_, p, x_);
    const at::Tensor own = at::stack({mine.to(p.device()), local_dot(z_, z_), local_dot(p, p)}).cpu();
    std::array<double, 3> sums{};
    std::copy_n(own.data_ptr<double>(), sums.size(), sums.begin());
    sums[0] *= in_.options.weight;
    in_.space.comm().all_reduce(sums, Reduce::sum);
    return {in_.data.value(p) + sums[0], sums[0], sums[1], sums[2]};
  }
  SolverInput in_;
  double tau_;
  at::Tensor x_, u_;          // x; D(x), the image
  at::Tensor next_, next_u_;  // of the step that is tried
  at::Tensor z_;              // what prox_f is taken of, then x+ - x
  double begun_ = 0;          // 1: u_ is D(x_)
  double height_ = 0;         // F(x)
};

}  // namespace

SolverRow gradient_step() {
  return {
      .name = "gspnp",
      .make = make<GradientStep>,
      .data_step = DataStep::descent,
      .images = 5,
      .state_images = 2,
      .passes =
          "x u > z; z > z; z x > z; prox z > previous; denoise previous > v; previous x > z; z; previous; "
          "measure previous",
      .needs_potential = true};
}

}  // namespace tessera
