// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <vector>

#include "tessera/domain/distributed_operator.hpp"
#include "tessera/domain/pointwise_loss.hpp"
#include "tessera/domain/quadratic_prox.hpp"
#include "tessera/domain/space.hpp"
#include "tessera/domain/state.hpp"

namespace tessera {

/// What data say about an image, per part and on this rank's samples: the material of diagnostics.
struct Fit {
  Measurement
      residual;  // (A x - y) over the deviation of the noise: white, variance 1 at the truth; 0 where w is
  Measurement counted;     // 1 where a sample counts, else 0; undefined: all of them do
  Measurement data;        // y
  double noise_sigma = 0;  // 0: unknown, residuals are not divided by it
};

/// What a data term is made of. References hold as long as the term.
struct DataSamples {
  DistributedOperator& A;
  const Measurement& y;  // of parts; 0 where the weight is 0 for want of a finite value
  Measurement weights;   // W; undefined: 1 everywhere on this rank
  /// What the last measure() or gradient() left, to be overwritten: W (A x - y) of least squares, A x of others.
  Measurement& left;
  std::optional<double> background{};  // of counts; none: the samples are no counts
  bool linear = false;                 // least squares
};

/// f(x) = sum_i w_i phi((A x)_i; y_i), w = weight per sample (default 1; 0 for masked, saturated or NaN
/// samples), such that f / noise_sigma^2 is the negative log-likelihood up to a constant. Least squares:
/// f(x) = 1/2 |A x - y|^2_W.
///
/// One forward and one adjoint per gradient; f and chi2 come with it. All calls are collective.
class DataTerm {
 public:
  virtual ~DataTerm() = default;

  /// f(x); waits for its reduction. objective() and chi2() then belong to this x, and are known.
  virtual double value(const at::Tensor& x) = 0;
  /// Writes grad f(x) into `gradient`. objective() and chi2() then belong to this x.
  virtual void gradient(const at::Tensor& x, at::Tensor& gradient) = 0;
  /// argmin_u  gamma f(u) + 1/2 |u - z|^2 into `out` (may not alias z): closed form where there is one, else
  /// conjugate gradients started at `out` when warm, else at z.
  virtual void prox(const at::Tensor& z, double gamma, at::Tensor& out, bool warm = false) = 0;

  /// One forward: objective() and chi2() then belong to this x. For methods whose output is no point of a
  /// gradient.
  virtual void measure(const at::Tensor& x) = 0;

  /// For methods that go another way than down on f.
  virtual DataSamples samples() = 0;

  /// f, and |A x - y|^2_W / noise_sigma^2 per sample with weight, at the last point of gradient() or
  /// measure(), one iteration late, or of value().
  virtual Deferred objective() const = 0;
  virtual Deferred chi2() const = 0;

  /// Lipschitz constant of the gradient, |A^T W A|. Collective at first call, then known.
  virtual double lipschitz() = 0;
  /// A bound of |A^T W A|, which a start A^T W y is divided by. Collective.
  virtual double lipschitz_of_squares() { return lipschitz(); }
  /// One forward. The tensors are the term's own: to be read before its next call. No parts: a term without
  /// samples, such as those of tests.
  virtual Fit fit(const at::Tensor& x) { return {}; }
  /// A^T W y into out, and A^T W A 1: how much each pixel is seen. Their quotient is a mean of the samples
  /// that see a pixel, where no tap is negative.
  virtual void adjoint_start(at::Tensor& out) = 0;
  virtual void sensitivity(at::Tensor& out) = 0;
  virtual const DistributedOperator& op() const = 0;
  /// How the inner solver of prox() went so far; no calls where all of them were in closed form.
  virtual ProxReport prox_report() const { return {}; }
  /// What later calls depend on beside their arguments, for checkpoints; scalars are restored before anything
  /// is asked for.
  virtual std::vector<StateField> state() { return {}; }
};

struct DataTermInput {
  std::shared_ptr<DistributedOperator> A;
  Measurement y;           // taken over; NaN where the weight is 0 is allowed
  Measurement weights;     // empty: 1 everywhere
  double noise_sigma = 0;  // of a sample of weight 1; 0: unknown, chi2 is then in squared units of y
  ProxOptions prox;
  std::uint64_t seed = 0;  // power iteration
  /// Of least squares. 1: the true value is y or larger, -1: or smaller, 0: it is y; empty: 0 everywhere.
  Measurement ends{};
};

/// Collective. Samples where y or the weight is not finite get weight 0. InputError on all ranks for weights
/// below zero or of other shapes than y.
/// Gradient A^T W (A x - y); the proximal point is (A^T W A + 1/gamma)^-1 (A^T W y + z/gamma). Clipped samples (ends)
/// pull from one side: their residual is 0 beyond y. The proximal point then is that of f's majorizer at z, with A z in
/// place of y where it lies beyond, which iterations carry to f itself.
std::unique_ptr<DataTerm> make_least_squares(DataTermInput input, const Space& space);

/// The same for any convex loss (pointwise_loss.hpp): Poisson, Huber. The proximal point is in closed form
/// where A is the identity or a mask, else by Newton's method with conjugate gradients and a line search.
std::unique_ptr<DataTerm> make_pointwise_term(DataTermInput input, std::unique_ptr<PointwiseLoss> loss,
                                              const Space& space);

}  // namespace tessera
