// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

#include "tessera/domain/space.hpp"

namespace tessera {

/// out <- M in, symmetric and positive; collective.
using LinearMap = std::function<void(const at::Tensor& in, at::Tensor& out)>;

/// Solves M x = b on a distributed image, |b - M x| <= tolerance |b|, from the x given.
///
/// Two reductions per iteration; the residual is computed anew every 50 iterations, so that rounding does not
/// pile up. Persistent buffers. Collective; every rank takes the same decisions, since it sees the same sums.
/// Source: M. Hestenes, E. Stiefel, J. Res. Natl. Bur. Stand. 49 (1952) 409.
class ConjugateGradients {
 public:
  struct Result {
    int iterations = 0;
    double relative_residual = 0;
  };
  Result solve(const LinearMap& M, const at::Tensor& b, at::Tensor& x, const Space& space, int max_iterations,
               double tolerance);
  /// b - M x of the last solve.
  const at::Tensor& residual() const { return r_; }

 private:
  at::Tensor r_, p_, q_;
};

}  // namespace tessera
