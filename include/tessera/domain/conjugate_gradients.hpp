// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

#include "tessera/domain/space.hpp"

namespace tessera {

/// out <- M in, linear; collective.
using LinearMap = std::function<void(const at::Tensor& in, at::Tensor& out)>;

/// M x = b with M symmetric and positive definite.
struct LinearSystem {
  LinearMap M;
  /// out <- b - M in. A map of its own, since b and M in may be large numbers of a small difference.
  LinearMap residual;
  /// out <- about M^-1 in, symmetric and positive definite; empty: none.
  LinearMap precondition;
};

/// Solves M x = b on a distributed image from the x given, until sqrt(<r, P r>) <= limit, r the residual and
/// P the preconditioner.
///
/// Without one that is |r|; where M >= 1 it bounds the error of x. With one it is what P takes for the
/// error's energy norm sqrt(<e, M e>), which bounds |e| there too. Two reductions per iteration; the residual
/// is computed anew every 50 iterations, so that rounding does not pile up. Persistent buffers. Collective;
/// every rank takes the same decisions, since it sees the same sums.
/// Source: M. Hestenes, E. Stiefel, J. Res. Natl. Bur. Stand. 49 (1952) 409; preconditioned: Golub, Van Loan,
///   Matrix Computations, 4th ed., algorithm 11.5.1.
class ConjugateGradients {
 public:
  struct Result {
    int iterations = 0;
    double error = 0;      // sqrt(<r, P r>) at the end
    bool reached = false;  // the limit
  };
  Result solve(const LinearSystem& system, at::Tensor& x, const Space& space, int max_iterations,
               double limit);
  /// b - M x of the last solve.
  const at::Tensor& residual() const { return r_; }

 private:
  at::Tensor r_, p_, q_;  // residual; direction; M p, then P r
};

}  // namespace tessera
