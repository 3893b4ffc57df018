// SPDX-License-Identifier: BSD-3-Clause
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/sub.h>

#include <memory>
#include <utility>

#include "tessera/core/error.hpp"
#include "tessera/solve/solver.hpp"

namespace tessera {
namespace {

Option relaxation() {
  return {"relaxation",
          1.0,
          {.least = 0, .most = 1, .above = true},
          "",
          "x <- r new + (1 - r) x with r = relaxation"};
}

/// Proximal gradient, plug-and-play:
///   z = x - tau grad f(x),   f(x) = |A x - y|^2_W / 2
///   x = (1 - r) x + r P D(z, sigma)
///
/// Solves min f / s_n^2 + lambda g with sigma^2 = tau lambda s_n^2 (tessera/solve/strength.hpp); P keeps the
///   bounds.
/// Shapes: (C, [D,] H, W), this rank's block, no halo. Units: image and sigma in range [0, 1]. r: relaxation.
/// Assumes: 0 < tau < 2 / L, L = |A^T W A|. If D is the prox of sigma^2 g and g is convex, x tends to a
///   minimizer; for a network D we look for a fixed point, which r < 1 reaches where D is only non-expansive,
///   and claim no objective.
/// Errors: a bad option is an InputError, thrown by all ranks before the first collective of the iteration.
/// Collective: construction and step(). What `in` refers to must outlive the solver.
/// Source: Combettes, Wajs, Multiscale Model. Simul. 4 (2005) 1168; with a denoiser: Kamilov, Mansour,
///   Wohlberg, IEEE Signal Process. Lett. 24 (2017) 1872.
class ProximalGradient final : public Solver {
 public:
  explicit ProximalGradient(const SolverInput& in)
      : in_(in),
        tau_(gradient_steps(in)),
        r_(in.options.own.number(relaxation())),
        x_(in.start),
        next_(at::empty_like(x_)),
        z_(at::empty_like(x_)) {
    TESSERA_VALIDATE(0 < r_ && r_ <= 1, "solver.relaxation is ", r_,
                     " (a mean of the last and the new image lies in (0, 1]) use 1");
  }

  const at::Tensor& image() const override { return x_; }
  const at::Tensor& previous() const override { return next_; }

  IterationRecord step(int k) override {
    const double tau = tau_.at(k), sigma = in_.options.sigma.at(k);
    in_.data.gradient(x_, z_);
    Deferred prior = prior_value(in_, x_, tau, sigma);
    at::sub_out(z_, x_, z_, tau);  // z = x - tau grad f(x)
    in_.denoiser.apply(z_, sigma, next_);
    in_.options.bound(next_);
    if (r_ != 1.0) next_.mul_(r_).add_(x_, 1.0 - r_);

    // Movement, not grad f: it vanishes where f and the prior balance. The ratio is a promise on the
    // iteration's one reduction; the loop reads it an iteration later, so no step waits for it.
    Movement movement = in_.space.movement(next_, x_, z_);
    std::swap(x_, next_);
    return {.step = tau,
            .sigma = sigma,
            .residual = std::move(movement.relative),
            .squares = std::move(movement.squares),
            .prior = std::move(prior)};
  }

  std::vector<StateField> state() override { return {{.name = "x", .image = &x_}}; }

 private:
  SolverInput in_;       // data term, denoiser, space: references; options, start: copies
  Schedule tau_;         // step lengths
  double r_;             // relaxation
  at::Tensor x_, next_;  // image; the denoiser's output
  at::Tensor z_;         // gradient, then gradient step, then movement
};

}  // namespace

SolverRow proximal_gradient() {
  return {.name = "pgd",
          .make = make<ProximalGradient>,
          .data_step = DataStep::gradient,
          .passes = "gradient x > z; x z > z; denoise z > previous; previous x",
          .options = {relaxation()}};
}

}  // namespace tessera
