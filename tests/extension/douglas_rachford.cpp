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

Option step_length() {
  return {"step_length", 1.0, {.least = 0, .most = 2, .above = true}, "", "r of z <- z + r (x - u)"};
}

/// Douglas-Rachford splitting, plug-and-play:
///   u = prox_{gamma f}(z);   x = P D(2 u - z, sigma);   z <- z + r (x - u).
///
/// Solves min f / s_n^2 + lambda g with sigma^2 = gamma lambda s_n^2 (tessera/solve/strength.hpp); P keeps
/// the
///   bounds.
/// Shapes: (C, [D,] H, W), this rank's block. Units: image and sigma in range [0, 1]; gamma (the option step)
/// > 0;
///   0 < r < 2.
/// Collective: step().
/// Source: Lions, Mercier, SIAM J. Numer. Anal. 16 (1979) 964.
class DouglasRachford final : public Solver {
 public:
  explicit DouglasRachford(const SolverInput& in)
      : in_(in),
        gamma_(penalties(in)),
        r_(in.options.own.number(step_length())),
        z_(in.start),
        u_(in.start.clone()),
        x_(in.start.clone()),
        next_(at::empty_like(z_)),
        reflected_(at::empty_like(z_)) {
    TESSERA_VALIDATE(0 < r_ && r_ < 2, "solver.step_length is ", r_,
                     " (the iteration converges for 0 < step_length < 2) use 1");
  }

  const at::Tensor& image() const override { return x_; }
  const at::Tensor& previous() const override { return next_; }

  IterationRecord step(int k) override {
    const double gamma = gamma_.at(k), sigma = in_.options.sigma.at(k);
    in_.data.prox(z_, gamma, u_);
    at::sub_out(reflected_, u_, z_).add_(u_);  // 2 u - z
    in_.denoiser.apply(reflected_, sigma, next_);
    in_.options.bound(next_);
    in_.data.measure(next_);
    at::sub_out(reflected_, next_, u_);  // x - u: how far from a fixed point
    z_.add_(reflected_, r_);
    Deferred residual = in_.space.relative_norm(reflected_, next_);
    std::swap(x_, next_);
    return {.step = gamma, .sigma = sigma, .residual = std::move(residual)};
  }

  std::vector<StateField> state() override {
    return {{.name = "z", .image = &z_}, {.name = "x", .image = &x_}};
  }

 private:
  SolverInput in_;
  Schedule gamma_;
  double r_;
  at::Tensor z_, u_, x_;  // auxiliary, data-consistent and denoised image
  at::Tensor next_, reflected_;
};

}  // namespace

SolverRow douglas_rachford() {
  return {.name = "drs",
          .make = make<DouglasRachford>,
          .data_step = DataStep::prox,
          .images = 5,
          .state_images = 2,
          .options = {step_length()}};
}

}  // namespace tessera
