// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/domain/data_term.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "largest_eigenvalue.hpp"
#include "sample_weights.hpp"
#include "tessera/core/error.hpp"
#include "tessera/core/phase.hpp"
#include "tessera/domain/bands.hpp"
#include "tessera/domain/quadratic_prox.hpp"

namespace tessera {
namespace {

class LeastSquares final : public DataTerm {
 public:
  LeastSquares(DataTermInput in, const Space& space)
      : A_(std::move(in.A)),
        y_(std::move(in.y)),
        ends_(std::move(in.ends)),
        noise_sigma_(in.noise_sigma),
        prox_(in.prox),
        seed_(in.seed),
        space_(space) {
    A_->comm().together([&] {
      root_weights_ = sample_weights(*A_, y_, std::move(in.weights));
      for (at::Tensor& w : root_weights_)
        if (w.defined()) w = w.sqrt();
    });
    const Measurement observed = A_->observed();
    std::int64_t weighted = 0;  // ranks with weights
    for (std::size_t i = 0; i < y_.size(); ++i) {
      if (root_weights_[i].defined()) weighted = 1;
      if (observed[i].defined()) y_[i] = y_[i].mul(observed[i]);  // a mask's samples are 0 in A x too
    }
    A_->comm().all_reduce({&weighted, 1}, Reduce::max);
    weighted_ = weighted > 0;
    samples_ = counted_samples(*A_, y_, root_weights_);

    residual_ = A_->make_measurement();
    quadratic_.emplace(A_, root_weights_, weighted_, space_, prox_, noise_sigma_);
    if (quadratic_->wants_adjoint()) adjoint_start(adjoint_ = A_->make_image());
  }

  double value(const at::Tensor& x) override {
    A_->apply(x, residual_);
    double chi = weigh_residual().item<double>();
    A_->comm().all_reduce({&chi, 1}, Reduce::sum);
    objective_ = Deferred(0.5 * chi);
    chi2_ = Deferred(chi / (static_cast<double>(samples_) * variance()));
    return 0.5 * chi;
  }

  void gradient(const at::Tensor& x, at::Tensor& gradient) override {
    A_->apply(x, residual_);
    report(weigh_residual());
    A_->adjoint(residual_, gradient);
  }

  void measure(const at::Tensor& x) override {
    A_->apply(x, residual_);
    report(weigh_residual());
  }

  void prox(const at::Tensor& z, double gamma, at::Tensor& out, bool warm) override {
    TESSERA_EXPECT(gamma > 0, "prox with gamma ", gamma, " (a step is above 0)");
    TESSERA_EXPECT(!out.is_alias_of(z), "prox was to overwrite its input (z is read to the end)");
    const PhaseScope phase(Phase::prox);
    if (!warm && quadratic_->iterative()) out.copy_(z);
    if (ends_.empty()) {
      quadratic_->solve(y_, adjoint_, z, gamma, out, residual_);
      return;
    }
    const Measurement target = target_at(z);
    at::Tensor adjoint;
    if (quadratic_->wants_adjoint()) {
      for (std::size_t i = 0; i < y_.size(); ++i) residual_[i].copy_(weigh(i, target[i]));
      A_->adjoint(residual_, adjoint = A_->make_image());
    }
    quadratic_->solve(target, adjoint, z, gamma, out, residual_);
  }

  Deferred objective() const override { return objective_; }
  Deferred chi2() const override { return chi2_; }

  double lipschitz() override {
    if (!std::isnan(lipschitz_)) return lipschitz_;
    if (!weighted_) {
      lipschitz_ = operator_norm_squared(*A_, space_, seed_);
    } else if (const auto& diagonal = quadratic_->diagonal()) {
      double largest = diagonal->numel() > 0 ? diagonal->max().item<double>() : 0.0;
      A_->comm().all_reduce({&largest, 1}, Reduce::max);
      lipschitz_ = largest;
    } else {
      const LinearMap map = [&](const at::Tensor& in, at::Tensor& out) { normal(in, out); };
      lipschitz_ = largest_eigenvalue(*A_, map, space_, seed_);
    }
    return lipschitz_;
  }

  Fit fit(const at::Tensor& x) override {
    A_->apply(x, residual_);
    const Measurement observed = A_->observed();
    Fit fit{residual_, Measurement(y_.size()), y_, noise_sigma_};
    for (std::size_t i = 0; i < y_.size(); ++i) {
      at::Tensor& counted = fit.counted[i];
      take_data(residual_[i], y_[i], end(i));
      if (noise_sigma_ > 0) residual_[i].div_(noise_sigma_);
      if (root_weights_[i].defined()) {
        residual_[i].mul_(root_weights_[i]);
        counted = root_weights_[i].ne(0).to(y_[i].options());
      }
      if (observed[i].defined()) {
        const at::Tensor seen = observed[i].ne(0).to(y_[i].options()).expand_as(y_[i]);
        counted = counted.defined() ? counted.mul(seen) : seen;
      }
    }
    return fit;
  }
  void adjoint_start(at::Tensor& out) override {
    for (std::size_t i = 0; i < y_.size(); ++i) residual_[i].copy_(weigh(i, y_[i]));
    A_->adjoint(residual_, out);
  }
  void sensitivity(at::Tensor& out) override { normal(at::ones_like(out), out); }
  DataSamples samples() override {
    Measurement weights;
    for (const at::Tensor& root : root_weights_)
      weights.push_back(root.defined() ? root.mul(root) : at::Tensor());
    return {.A = *A_, .y = y_, .weights = std::move(weights), .left = residual_, .linear = true};
  }
  const DistributedOperator& op() const override { return *A_; }
  ProxReport prox_report() const override { return quadratic_->report(); }
  // A power iteration on other ranks differs in its last bits.
  std::vector<StateField> state() override { return {{.name = "lipschitz", .scalar = &lipschitz_}}; }

 private:
  // A^T W A x.
  void normal(const at::Tensor& x, at::Tensor& out) {
    A_->apply(x, residual_);
    for (std::size_t i = 0; i < y_.size(); ++i)
      if (root_weights_[i].defined())
        by_bands([](at::Tensor r, const at::Tensor& root) { r.mul_(root).mul_(root); }, residual_[i],
                 root_weights_[i]);
    A_->adjoint(residual_, out);
  }
  // W t for a tensor over part i.
  at::Tensor weigh(std::size_t i, const at::Tensor& t) const {
    const at::Tensor& root = root_weights_[i];
    return root.defined() ? t.mul(root).mul_(root) : t;
  }

  // A x in r becomes A x - y, and 0 beyond a clipped sample.
  static void take_data(at::Tensor& r, const at::Tensor& y, const at::Tensor& ends) {
    r.sub_(y);
    if (ends.defined() && r.numel() > 0) r.masked_fill_(r.mul(ends).gt(0), 0);
  }
  at::Tensor end(std::size_t i) const { return ends_.empty() ? at::Tensor() : ends_[i]; }
  // What the samples are pulled to from z: y, or A z where that lies beyond a clipped one.
  Measurement target_at(const at::Tensor& z) {
    A_->apply(z, residual_);
    Measurement target;
    for (std::size_t i = 0; i < y_.size(); ++i) {
      const at::Tensor beyond = residual_[i].sub(y_[i]).mul_(ends_[i]).gt(0);
      target.push_back(at::where(beyond, residual_[i], y_[i]));
    }
    return target;
  }

  // A x in residual_ becomes W (A x - y); returns this rank's |A x - y|^2_W.
  at::Tensor weigh_residual() {
    at::Tensor chi = at::zeros({}, A_->options().dtype(at::kDouble));
    for (std::size_t i = 0; i < y_.size(); ++i) {
      by_bands(
          [&](at::Tensor r, const at::Tensor& y, const at::Tensor& ends, const at::Tensor& root) {
            take_data(r, y, ends);
            if (root.defined()) r.mul_(root);
            chi = chi.add(local_dot(r, r));
            if (root.defined()) r.mul_(root);
          },
          residual_[i], y_[i], end(i), root_weights_[i]);
    }
    return chi;
  }

  void report(const at::Tensor& local_chi) {
    objective_ = space_.sum(local_chi.mul(0.5));
    chi2_ = space_.sum(local_chi.div(static_cast<double>(samples_) * variance()));
  }
  double variance() const { return noise_sigma_ > 0 ? noise_sigma_ * noise_sigma_ : 1.0; }

  std::shared_ptr<DistributedOperator> A_;
  Measurement y_;             // 0 where the weight is 0 for want of a finite value
  Measurement ends_;          // empty: no sample is clipped
  Measurement root_weights_;  // square roots; undefined: 1 everywhere on this rank
  bool weighted_ = false;     // on any rank
  double noise_sigma_;
  ProxOptions prox_;
  std::uint64_t seed_;
  Space space_;
  std::int64_t samples_ = 1;  // that count, all ranks
  Measurement residual_;      // workspace of the layout
  at::Tensor adjoint_;        // A^T W y, where the proximal point in closed form needs it
  std::optional<QuadraticProx> quadratic_;
  Deferred objective_, chi2_;
  double lipschitz_ = std::numeric_limits<double>::quiet_NaN();  // until it is asked for
};

}  // namespace

std::unique_ptr<DataTerm> make_least_squares(DataTermInput input, const Space& space) {
  return std::make_unique<LeastSquares>(std::move(input), space);
}

}  // namespace tessera
