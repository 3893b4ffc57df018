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

/// Accelerated proximal gradient, plug-and-play:
///   x+ = D(z - tau grad f(z), sigma);   z = x+ + (k + a - 1) / (k + a) (x+ - x),   k = 0, 1, ...
///
/// Shapes: (C, [D,] H, W), this rank's block. Units: image and sigma in range [0, 1]. a: momentum, >= 2.
/// Assumes: 0 < tau < 2 / L (1 / L for the proven rate). With D the prox of tau g, g convex: O(1/k^2) in the
///   objective.
/// Errors: as in proximal_gradient.cpp. Collective: construction and step().
/// Source: Beck, Teboulle, SIAM J. Imaging Sci. 2 (2009) 183; the momentum of Chambolle, Dossal, J. Optim.
/// Theory
///   Appl. 166 (2015) 968.
class Fista final : public Solver {
 public:
  explicit Fista(const SolverInput& in)
      : in_(in),
        tau_(gradient_steps(in)),
        x_(in.start),
        z_(in.start.clone()),
        next_(at::empty_like(x_)),
        work_(at::empty_like(x_)) {
    TESSERA_VALIDATE(in.options.momentum >= 2, "solver.momentum is ", in.options.momentum,
                     " (below 2 the extrapolation loses its rate) use 3");
  }

  const at::Tensor& image() const override { return x_; }

  IterationRecord step(int k) override {
    const double tau = tau_.at(k), sigma = in_.options.sigma.at(k), a = in_.options.momentum;
    in_.data.gradient(z_, work_);
    at::sub_out(work_, z_, work_, tau);
    in_.denoiser.apply(work_, sigma, next_);
    at::sub_out(work_, next_, x_);  // x+ - x
    Deferred movement = in_.space.relative_norm(work_, next_);
    z_.copy_(next_).add_(work_, (k + a - 1) / (k + a));
    std::swap(x_, next_);
    return {.step = tau, .sigma = sigma, .residual = std::move(movement)};
  }

  std::vector<StateField> state() override {
    return {{.name = "x", .image = &x_}, {.name = "z", .image = &z_}};
  }

 private:
  SolverInput in_;
  Schedule tau_;
  at::Tensor x_, z_;  // image; extrapolated point
  at::Tensor next_, work_;
};

}  // namespace

std::unique_ptr<Solver> make_fista(const SolverInput& in) { return std::make_unique<Fista>(in); }

}  // namespace tessera
