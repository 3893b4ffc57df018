// SPDX-License-Identifier: BSD-3-Clause
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/sub.h>

#include <memory>
#include <utility>

#include "tessera/core/error.hpp"
#include "tessera/domain/bands.hpp"
#include "tessera/solve/solver.hpp"

namespace tessera {
namespace {

/// Regularization by denoising, gradient descent:
///   x = P (x - tau (grad f(x) + w (x - D(x, sigma))))
///
/// Stands for min f / s_n^2 + lambda g with w = lambda s_n^2 / sigma^2 (tessera/solve/strength.hpp), since
///   x - D(x, sigma) is sigma^2 grad g where sigma is small; P keeps the bounds.
/// Shapes: (C, [D,] H, W), this rank's block. Units: image and sigma in range [0, 1]; w: the option lambda.
/// Assumes: 0 < tau < 2 / (L + w); fixed points solve grad f(x) + w (x - D(x)) = 0. If D has a symmetric
///   Jacobian and is homogeneous, this is a gradient of f + w/2 x^T (x - D(x)).
/// Collective: construction and step().
/// Source: Romano, Elad, Milanfar, SIAM J. Imaging Sci. 10 (2017) 1804.
class Red final : public Solver {
 public:
  explicit Red(const SolverInput& in)
      : in_(in),
        tau_(gradient_steps(in, in.options.weight)),
        x_(in.start),
        next_(at::empty_like(x_)),
        direction_(at::empty_like(x_)) {
    TESSERA_VALIDATE(in.options.weight > 0, "solver.lambda is ", in.options.weight,
                     " (the prior's weight is positive) use for example 0.1");
  }

  const at::Tensor& image() const override { return x_; }
  const at::Tensor& previous() const override { return next_; }

  IterationRecord step(int k) override {
    const double tau = tau_.at(k), sigma = in_.options.sigma.at(k), weight = in_.options.weight;
    in_.data.gradient(x_, direction_);
    in_.denoiser.apply(x_, sigma, next_);
    by_bands(
        [&](at::Tensor next, at::Tensor direction, const at::Tensor& x) {
          direction.add_(x, weight).sub_(next, weight);
          at::sub_out(next, x, direction, tau);
        },
        next_, direction_, x_);
    in_.options.bound(next_);
    Movement movement = in_.space.movement(next_, x_, direction_);
    std::swap(x_, next_);
    return {.step = tau,
            .sigma = sigma,
            .residual = std::move(movement.relative),
            .squares = std::move(movement.squares)};
  }

  std::vector<StateField> state() override { return {{.name = "x", .image = &x_}}; }

 private:
  SolverInput in_;
  Schedule tau_;
  at::Tensor x_, next_;   // image; D(x), then the next image
  at::Tensor direction_;  // of descent, then the movement
};

}  // namespace

SolverRow red() {
  return {.name = "red",
          .make = make<Red>,
          .data_step = DataStep::red,
          .passes =
              "gradient x > direction; denoise x > previous; previous direction x > previous direction; "
              "previous x"};
}

}  // namespace tessera
