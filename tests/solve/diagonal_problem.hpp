// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/TensorOperators.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/sign.h>
#include <ATen/ops/sin.h>

#include <stdexcept>

#include "tessera/solve/solver.hpp"

namespace tessera::test {

/// f(x) = 1/2 |a x - y|^2 with a diagonal a: every solver's minimizer is known in closed form. The vector of
/// `total` numbers is dealt out unevenly: rank r holds about r + 1 shares.
class DiagonalTerm final : public DataTerm {
 public:
  DiagonalTerm(const Communicator& comm, const Space& space, std::int64_t total) : space_(space) {
    const std::int64_t shares = comm.size() * (comm.size() + 1) / 2, r = comm.rank();
    const std::int64_t lo = total * (r * (r + 1) / 2) / shares, hi = total * ((r + 1) * (r + 2) / 2) / shares;
    const at::Tensor i = at::arange(lo, hi, at::kDouble).reshape({1, 1, hi - lo});
    a = at::sin(i * 0.7) * 0.4 + 0.6;  // in (0.2, 1)
    y = at::sin(i * 1.3) * 0.5;
  }
  double value(const at::Tensor& x) override {
    const at::Tensor r = a * x - y;
    const double squares = space_.dot(r, r);
    objective_ = Deferred(0.5 * squares);
    chi2_ = Deferred(squares);
    return 0.5 * squares;
  }
  void gradient(const at::Tensor& x, at::Tensor& out) override {
    const at::Tensor r = a * x - y;
    note(r);
    out.copy_(a * r);
  }
  void measure(const at::Tensor& x) override { note(a * x - y); }
  void prox(const at::Tensor& z, double gamma, at::Tensor& out, bool) override {
    out.copy_((a * y * gamma + z) / (a * a * gamma + 1.0));
  }
  Deferred objective() const override { return objective_; }
  Deferred chi2() const override { return chi2_; }
  double lipschitz() override { return 1.0; }
  void adjoint_start(at::Tensor& out) override { out.copy_(a * y); }
  void sensitivity(at::Tensor& out) override { out.copy_(a * a); }
  DataSamples samples() override { throw std::logic_error("a diagonal term has no samples"); }
  const DistributedOperator& op() const override {
    throw std::logic_error("a diagonal term has no operator");
  }

  at::Tensor a, y;

 private:
  void note(const at::Tensor& r) {
    objective_ = space_.sum(local_dot(r, r).mul(0.5));
    chi2_ = space_.norm_squared(r);
  }

  const Space& space_;
  Deferred objective_{0.0}, chi2_{0.0};
};

inline at::Tensor soft(const at::Tensor& x, double t) { return at::sign(x) * at::clamp(at::abs(x) - t, 0.0); }

/// The prox of threshold |.|_1, or x -> shrink x. Its potential: Moreau's envelope of that, or
/// (1 - shrink) |x|^2 / 2.
class KnownDenoiser final : public Denoiser {
 public:
  double threshold = 0, shrink = 1;
  void apply(const at::Tensor& in, double, at::Tensor& out) override {
    out.copy_(soft(in, threshold) * shrink);
    potential_ = threshold > 0 ? at::abs(out).sum() * threshold + 0.5 * local_dot(in - out, in - out)
                               : 0.5 * (1 - shrink) * local_dot(in, in);
  }
  at::Tensor potential() const override { return potential_; }
  std::int64_t bytes_sent() const override { return 0; }
  std::string description() const override { return "known"; }

 private:
  at::Tensor potential_;
};

}  // namespace tessera::test
