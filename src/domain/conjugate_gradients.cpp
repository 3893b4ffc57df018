// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/domain/conjugate_gradients.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/add.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>
#include <cmath>

namespace tessera {

ConjugateGradients::Result ConjugateGradients::solve(const LinearSystem& system, at::Tensor& x,
                                                     const Space& space, int max_iterations, double limit) {
  constexpr int kFresh = 50;  // iterations between exact residuals
  if (!r_.defined() || r_.sizes() != x.sizes()) {
    r_ = at::empty_like(x);
    p_ = at::empty_like(x);
    q_ = at::empty_like(x);
  }
  // P r: in the memory of q, which is M p only until r is updated.
  const auto preconditioned = [&]() -> const at::Tensor& {
    if (!system.precondition) return r_;
    system.precondition(r_, q_);
    return q_;
  };
  system.residual(x, r_);
  p_.copy_(preconditioned());
  double rho = space.dot(r_, p_);
  Result result;
  while (rho > limit * limit && result.iterations < max_iterations) {
    system.M(p_, q_);
    const double curvature = space.dot(p_, q_);
    if (!(curvature > 0)) break;  // rounding, or NaN: no better x along p
    const double alpha = rho / curvature;
    x.add_(p_, alpha);
    ++result.iterations;
    if (result.iterations % kFresh == 0)
      system.residual(x, r_);
    else
      r_.sub_(q_, alpha);
    const at::Tensor& z = preconditioned();
    const double before = rho;
    rho = space.dot(r_, z);
    at::add_out(p_, z, p_, rho / before);
  }
  result.error = std::sqrt(std::max(0.0, rho));
  result.reached = rho <= limit * limit;
  return result;
}

}  // namespace tessera
