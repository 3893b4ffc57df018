// SPDX-License-Identifier: BSD-3-Clause
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>

#include <memory>
#include <optional>
#include <utility>

#include "tessera/domain/bands.hpp"
#include "tessera/solve/solver.hpp"

namespace tessera {
namespace {

Option inertia() {
  return {"inertia",
          std::optional<double>(),
          {.least = 0, .most = 0.95, .word = "auto", .example = "0.3"},
          "",
          "share of the last movement that is added before the data step; auto: 0.32 to 0.6, less with more "
          "noise, where a network's sigma falls by itself, else 0"};
}

/// Half-quadratic splitting, plug-and-play, with inertia beta:
///   u  = prox_{gamma f}(x_k + beta (x_k - x_{k-1})),   x_{-1} = x_0
///   x_{k+1} = P D(u, sigma)
///
/// Solves min over x, u of f(u) / s_n^2 + lambda g(x) + |u - x|^2 / (2 gamma s_n^2) with
///   sigma^2 = gamma lambda s_n^2 (tessera/solve/strength.hpp), which is min f / s_n^2 + lambda g as gamma
///   falls to 0; P keeps the bounds. Falling sigma_k with gamma_k = sigma_k^2 / (0.23 s_n^2) is DPIR.
/// Shapes: (C, [D,] H, W), this rank's block. Units: image and sigma in range [0, 1]; gamma (the option step)
///   > 0.
/// Collective: step().
/// Source: Geman, Yang, IEEE Trans. Image Process. 4 (1995) 932; with a denoiser: Zhang, Li, Zuo, Zhang, Van
///   Gool, Timofte, "Plug-and-play image restoration with deep denoiser prior", arXiv 2008.13751. The inertia is that
///   of the heavy ball: Polyak, USSR Comput. Math. Math. Phys. 4 (1964) 1; five iterations with it make the picture of
///   twelve without (docs/solvers.md).
class HalfQuadraticSplitting final : public Solver {
 public:
  explicit HalfQuadraticSplitting(const SolverInput& in)
      : in_(in),
        gamma_(penalties(in)),
        beta_(in.options.own.get<std::optional<double>>(inertia()).value_or(in.options.inertia)),
        x_(in.start),
        u_(in.start.clone()),
        next_(at::empty_like(x_)) {}

  const at::Tensor& image() const override { return x_; }
  const at::Tensor& previous() const override { return next_; }

  IterationRecord step(int k) override {
    const double gamma = gamma_.at(k), sigma = in_.options.sigma.at(k);
    const bool moves = beta_ > 0 && k > 0;
    if (moves)  // the image before has done its work
      by_bands([&](at::Tensor before, const at::Tensor& x) { before.mul_(-beta_).add_(x, 1 + beta_); }, next_,
               x_);
    in_.data.prox(moves ? next_ : x_, gamma, u_);
    in_.denoiser.apply(u_, sigma, next_);
    in_.options.bound(next_);
    in_.data.measure(next_);
    Deferred prior = prior_value(in_, next_, gamma, sigma);
    Movement movement = in_.space.movement(next_, x_, u_);
    std::swap(x_, next_);
    return {.step = gamma,
            .sigma = sigma,
            .residual = std::move(movement.relative),
            .squares = std::move(movement.squares),
            .prior = std::move(prior)};
  }

  std::vector<StateField> state() override {
    return {{.name = "x", .image = &x_}, {.name = "previous", .image = &next_}};
  }

 private:
  SolverInput in_;
  Schedule gamma_;
  double beta_;
  at::Tensor x_, u_;  // image; data-consistent image
  at::Tensor next_;   // between two steps: the image before
};

}  // namespace

SolverRow half_quadratic_splitting() {
  return {.name = "hqs",
          .make = make<HalfQuadraticSplitting>,
          .data_step = DataStep::prox,
          .state_images = 2,
          .passes =
              "previous x > previous; prox previous > u; denoise u > previous; measure previous; previous x",
          .options = {inertia()}};
}

}  // namespace tessera
