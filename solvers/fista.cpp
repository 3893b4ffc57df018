// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/solve/lagged.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/sub.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "tessera/core/error.hpp"
#include "tessera/domain/bands.hpp"
#include "tessera/solve/solver.hpp"

namespace tessera {
namespace {

Option momentum() { return {"momentum", 3.0, {.least = 2}, "", "a of the extrapolation k / (k + 1 + a)"}; }

constexpr double kGrowth = 2;  // of the residual, that the momentum is taken to make

/// Accelerated proximal gradient, plug-and-play:
///   x+ = P D(z - tau grad f(z), sigma)
///   z  = x+ + k / (k + 1 + a) (x+ - x),   k = 0, 1, ...
///
/// Solves min f / s_n^2 + lambda g with sigma^2 = tau lambda s_n^2 (tessera/solve/strength.hpp); P keeps the
///   bounds. The momentum starts anew (k = 0) where it points against the last step,
///   <z - x+, x+ - x> > 0, and where the residual has doubled since it started: a network's Jacobian is not
///   symmetric, so that with a momentum near 1 patterns may turn and grow. Then k / (k + 1 + a) stays below
///   what it was halfway to that iteration, for the rest of the run. Both are decided from the numbers of two
///   iterations before, so that nothing waits. It starts anew, too, where sigma falls below
///   SolverOptions::level, the steps to nothing that end a run.
/// The residual is that of the plain step, |x+ - z| / |x+|.
/// Shapes: (C, [D,] H, W), this rank's block. Units: image and sigma in range [0, 1]. a: momentum, >= 2.
/// Assumes: 0 < tau < 4 / (3 L) (1 / L for the proven rate). With D the prox of tau g, g convex: O(1/k^2) in
///   the objective, and for a > 2 the images converge.
/// Errors: as in proximal_gradient.cpp. Collective: construction and step().
/// Source: Beck, Teboulle, SIAM J. Imaging Sci. 2 (2009) 183; the momentum (n - 1) / (n + a), n = k + 1, of
///   Chambolle, Dossal, J. Optim. Theory Appl. 166 (2015) 968; starting anew: O'Donoghue, Candes, Found.
///   Comput. Math. 15 (2015) 715, whose first condition it is.
class Fista final : public Solver {
 public:
  explicit Fista(const SolverInput& in)
      : in_(in),
        tau_(gradient_steps(in, 0, 4.0 / 3.0)),
        a_(in.options.own.number(momentum())),
        x_(in.start),
        z_(in.start.clone()),
        next_(at::empty_like(x_)),
        work_(at::empty_like(x_)) {
    TESSERA_VALIDATE(a_ >= 2, "solver.momentum is ", a_, " (below 2 the extrapolation loses its rate) use 3");
  }

  const at::Tensor& image() const override { return x_; }
  const at::Tensor& previous() const override { return next_; }

  IterationRecord step(int k) override {
    const double tau = tau_.at(k), sigma = in_.options.sigma.at(k);
    const bool grew = grows();
    if (grew) most_ = std::min(age_, most_) / 2;
    if (grew || against_.earlier() > 0 || sigma < in_.options.level) start_anew();
    in_.data.gradient(z_, work_);
    Deferred prior = prior_value(in_, z_, tau, sigma);
    at::sub_out(work_, z_, work_, tau);
    in_.denoiser.apply(work_, sigma, next_);
    in_.options.bound(next_);
    const double n = static_cast<double>(std::min(age_++, most_)), momentum = n / (n + 1 + a_);
    BandSum against, plain, size;
    by_bands(
        [&](at::Tensor z, const at::Tensor& next, const at::Tensor& x) {
          const at::Tensor moved = next - x;
          z.sub_(next);
          against.add(local_dot(z, moved));
          plain.add(local_dot(z, z));
          size.add(local_dot(next, next));
          z.copy_(next).add_(moved, momentum);
        },
        z_, next_, x_);
    against_.push(in_.space.sum(against.value()));
    Deferred residual = in_.space.relative_root({plain.value()}, size.value());  // free of the momentum
    residual_.push(residual);
    std::swap(x_, next_);
    return {.step = tau,
            .sigma = sigma,
            .residual = std::move(residual),
            .squares = in_.space.sum(size.value()),
            .prior = std::move(prior)};
  }

  std::vector<StateField> state() override {
    std::vector<StateField> fields = against_.state("against");
    for (StateField& field : residual_.state("residual")) fields.push_back(std::move(field));
    fields.push_back({.name = "least", .scalar = &least_});
    fields.push_back({.name = "x", .image = &x_});
    fields.push_back({.name = "z", .image = &z_});
    fields.push_back({.name = "age", .count = &age_});
    fields.push_back({.name = "most", .count = &most_});
    return fields;
  }
  void at_rest() override {
    against_.at_rest();
    residual_.at_rest();
  }

 private:
  // Whether the residual has left the least since the momentum started; 0: none has arrived.
  bool grows() {
    const double r = residual_.earlier();
    if (r > 0 && (least_ == 0 || r < least_)) least_ = r;
    return r > kGrowth * least_;
  }
  void start_anew() {
    age_ = 0;
    least_ = 0;
    against_.forget();
    residual_.forget();
  }

  SolverInput in_;
  Schedule tau_;
  double a_;          // of the momentum
  at::Tensor x_, z_;  // image; extrapolated point
  at::Tensor next_, work_;
  std::int64_t age_ = 0;                                          // iterations since the momentum started
  std::int64_t most_ = std::numeric_limits<std::int32_t>::max();  // k of the extrapolation
  Lagged against_;                                                // <z - x+, x+ - x>
  Lagged residual_;
  double least_ = 0;  // residual since the momentum started
};

}  // namespace

SolverRow fista() {
  return {.name = "fista",
          .make = make<Fista>,
          .data_step = DataStep::gradient,
          .images = 4,
          .state_images = 2,
          .passes = "gradient z > work; z work > work; denoise work > previous; z previous x > z",
          .options = {momentum()}};
}

}  // namespace tessera
