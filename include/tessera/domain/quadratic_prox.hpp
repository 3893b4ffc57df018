// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>

#include "tessera/domain/conjugate_gradients.hpp"
#include "tessera/domain/distributed_operator.hpp"
#include "tessera/domain/space.hpp"

namespace tessera {

/// Whether conjugate gradients are preconditioned; automatic: where it saves time.
enum class Preconditioning { automatic, always, never };

/// Options of the proximal step's inner solver.
struct ProxOptions {
  int max_iterations = 200;
  /// Largest rms error of a proximal point, in the internal range; 0: tied to the step, 1 % of sqrt(gamma)
  /// times the noise level, about 2 % of what the denoiser of the same iteration takes for noise; 1e-5 where
  /// there is no noise.
  double tolerance = 0;
  Preconditioning preconditioning = Preconditioning::automatic;
};

/// How proximal points by conjugate gradients went so far.
struct ProxReport {
  std::int64_t calls = 0;
  std::int64_t iterations = 0;  // of all calls
  std::int64_t missed = 0;      // calls that ended before their tolerance
  double worst = 0;             // the largest estimate of a result's rms error, internal range
};

/// u = argmin gamma/2 |A u - y|^2_W + 1/2 |u - z|^2, that is (gamma A^T W A + 1) u = z + gamma A^T W y.
///
/// The way is that of plan_prox(); in the coarse one u = z + gamma A^T (gamma A A^T + 1)^-1 (y - A z).
/// Conjugate gradients end when the rms error of u is at most the tolerance, in the unit of the image: with M
/// the matrix of the equation, M >= 1 whatever gamma is, so that its residual bounds the error, |u - u*| <=
/// |r|. Collective: construction, solve. Persistent buffers.
class QuadraticProx {
 public:
  /// `root_weights`: square roots, undefined where 1 on this rank; `weighted`: on any rank. `noise_sigma`: 0
  /// where there is none.
  QuadraticProx(std::shared_ptr<DistributedOperator> A, Measurement root_weights, bool weighted,
                const Space& space, const ProxOptions& options, double noise_sigma);
  ~QuadraticProx();

  /// Writes u into `out`, started at `out` where iterative. `adjoint` is A^T W y where it is wanted; `work` a
  /// measurement that is overwritten. Returns what the solution leaves of the equation, b - M u; undefined in
  /// closed form.
  at::Tensor solve(const Measurement& y, const at::Tensor& adjoint, const at::Tensor& z, double gamma,
                   at::Tensor& out, Measurement& work);

  const ProxReport& report() const { return report_; }
  bool iterative() const;
  /// Whether solve() reads `adjoint`.
  bool wants_adjoint() const;
  /// A^T W A where it is a pointwise product.
  const std::optional<at::Tensor>& diagonal() const { return diagonal_; }

 private:
  struct Closed;
  struct Iterative;
  std::shared_ptr<DistributedOperator> A_;
  std::optional<at::Tensor> diagonal_;  // of A^T W A
  std::unique_ptr<Closed> closed_;      // in Fourier space
  std::unique_ptr<Iterative> iterative_;
  ProxReport report_;
};

}  // namespace tessera
