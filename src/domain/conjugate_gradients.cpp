// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/domain/conjugate_gradients.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/sub.h>

#include <cmath>

namespace tessera {

ConjugateGradients::Result ConjugateGradients::solve(const LinearMap& M, const at::Tensor& b, at::Tensor& x,
                                                     const Space& space, int max_iterations,
                                                     double tolerance) {
  constexpr int kFresh = 50;  // iterations between exact residuals
  if (!r_.defined() || r_.sizes() != b.sizes()) {
    r_ = at::empty_like(b);
    p_ = at::empty_like(b);
    q_ = at::empty_like(b);
  }
  M(x, q_);
  at::sub_out(r_, b, q_);
  const std::vector<double> start = space.dots({{b, b}, {r_, r_}});
  const double scale = start[0] > 0 ? start[0] : 1.0;
  double rho = start[1];
  const double limit = tolerance * tolerance * scale;
  Result result;
  p_.copy_(r_);
  while (rho > limit && result.iterations < max_iterations) {
    M(p_, q_);
    const double curvature = space.dot(p_, q_);
    if (!(curvature > 0)) break;  // rounding, or NaN: no better x along p
    const double alpha = rho / curvature;
    x.add_(p_, alpha);
    ++result.iterations;
    if (result.iterations % kFresh == 0) {
      M(x, q_);
      at::sub_out(r_, b, q_);
    } else {
      r_.sub_(q_, alpha);
    }
    const double before = rho;
    rho = space.dot(r_, r_);
    p_.mul_(rho / before).add_(r_);
  }
  result.relative_residual = std::sqrt(rho / scale);
  return result;
}

}  // namespace tessera
