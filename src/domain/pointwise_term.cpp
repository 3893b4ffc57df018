// SPDX-License-Identifier: BSD-3-Clause
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "sample_weights.hpp"
#include "tessera/core/error.hpp"
#include "tessera/core/phase.hpp"
#include "tessera/domain/bands.hpp"
#include "tessera/domain/conjugate_gradients.hpp"
#include "tessera/domain/data_term.hpp"

namespace tessera {
namespace {

// With local_dot's order of summation, which does not depend on threads.
at::Tensor local_sum(const at::Tensor& t) { return local_dot(t, at::ones_like(t)); }

constexpr int kNewton = 30;             // steps of the proximal point, at most
constexpr int kHalvings = 20;           // of a step that does not descend
constexpr double kDescent = 1e-4;       // share of the predicted descent that a step must reach (Armijo)
constexpr double kRounding = 1e-14;     // of a sum of many terms: near the solution heights no longer tell
constexpr double kInnerResidual = 0.1;  // of a Newton step's equation: more is wasted far from the solution

class PointwiseTerm final : public DataTerm {
 public:
  PointwiseTerm(DataTermInput in, std::unique_ptr<PointwiseLoss> loss, const Space& space)
      : A_(std::move(in.A)),
        y_(std::move(in.y)),
        loss_(std::move(loss)),
        prox_(in.prox),
        noise_sigma_(in.noise_sigma),
        seed_(in.seed),
        space_(space) {
    A_->comm().together([&] { weights_ = sample_weights(*A_, y_, std::move(in.weights)); });
    // What a mask lets nothing through of counts nothing; its pixels are free.
    const Measurement observed = A_->observed();
    for (std::size_t i = 0; i < y_.size(); ++i) {
      if (!observed[i].defined()) continue;
      const at::Tensor seen = observed[i].ne(0).to(y_[i].options()).expand_as(y_[i]);
      weights_[i] = weights_[i].defined() ? weights_[i].mul(seen) : seen;
    }
    samples_ = counted_samples(*A_, y_, weights_);
    means_ = A_->make_measurement();
    work_ = A_->make_measurement();
    find_selection();
  }

  double value(const at::Tensor& x) override {
    A_->apply(x, means_);
    const auto [value, chi] = local_sums();
    std::array<double, 2> sums{value.item<double>(), chi.item<double>()};
    A_->comm().all_reduce(sums, Reduce::sum);
    objective_ = Deferred(sums[0]);
    chi2_ = Deferred(sums[1] / static_cast<double>(samples_));
    return sums[0];
  }

  void gradient(const at::Tensor& x, at::Tensor& gradient) override {
    measure(x);
    slope(gradient);
  }

  void measure(const at::Tensor& x) override {
    A_->apply(x, means_);
    const auto [value, chi] = local_sums();
    objective_ = space_.sum(value);
    chi2_ = space_.sum(chi.div(static_cast<double>(samples_)));
  }

  void prox(const at::Tensor& z, double gamma, at::Tensor& out, bool warm) override {
    TESSERA_EXPECT(gamma > 0, "prox with gamma ", gamma, " (a step is above 0)");
    TESSERA_EXPECT(!out.is_alias_of(z), "prox was to overwrite its input (z is read to the end)");
    const PhaseScope phase(Phase::prox);
    if (selection_) {
      by_bands(
          [&](at::Tensor to, const at::Tensor& from, const at::Tensor& y, const at::Tensor& selected) {
            const at::Tensor point = loss_->prox(from, gamma, y);
            to.copy_(selected.defined() ? at::where(selected, point, from) : point);
          },
          out, z, y_[0], selected_);
      return;
    }
    if (!warm) out.copy_(z);
    newton(z, gamma, out);
  }

  DataSamples samples() override {
    return {.A = *A_, .y = y_, .weights = weights_, .left = means_, .background = loss_->background()};
  }

  // Its residual is the signed root of the squared deviation over the variance that the loss expects.
  Fit fit(const at::Tensor& x) override {
    A_->apply(x, means_);
    Fit fit{work_, Measurement(y_.size()), y_, noise_sigma_};
    for (std::size_t i = 0; i < y_.size(); ++i) {
      by_bands(
          [&](at::Tensor out, const at::Tensor& m, const at::Tensor& y, const at::Tensor& w) {
            out.copy_(weighted(loss_->deviation(m, y), w).sqrt_().mul_((m - y).sign_()));
          },
          work_[i], means_[i], y_[i], weights_[i]);
      if (weights_[i].defined()) fit.counted[i] = weights_[i].ne(0).to(y_[i].options());
    }
    return fit;
  }
  Deferred objective() const override { return objective_; }
  Deferred chi2() const override { return chi2_; }

  double lipschitz() override {
    if (!std::isnan(lipschitz_)) return lipschitz_;
    double steepest = 0;
    for (std::size_t i = 0; i < y_.size(); ++i)
      if (y_[i].numel() > 0)
        read_by_bands(
            [&](const at::Tensor& y, const at::Tensor& w) {
              steepest = std::max(steepest, weighted(loss_->steepest(y), w).max().item<double>());
            },
            y_[i], weights_[i]);
    A_->comm().all_reduce({&steepest, 1}, Reduce::max);
    return lipschitz_ = steepest * lipschitz_of_squares();
  }
  double lipschitz_of_squares() override {
    if (std::isnan(norm_)) norm_ = operator_norm_squared(*A_, space_, seed_);
    return norm_;
  }
  void adjoint_start(at::Tensor& out) override {
    for (std::size_t i = 0; i < y_.size(); ++i)
      by_bands([](at::Tensor to, const at::Tensor& y, const at::Tensor& w) { to.copy_(weighted(y, w)); },
               work_[i], y_[i], weights_[i]);
    A_->adjoint(work_, out);
  }
  void sensitivity(at::Tensor& out) override {
    A_->apply(at::ones_like(out), work_);
    for (std::size_t i = 0; i < y_.size(); ++i)
      if (weights_[i].defined()) work_[i].mul_(weights_[i]);
    A_->adjoint(work_, out);
  }
  const DistributedOperator& op() const override { return *A_; }
  ProxReport prox_report() const override { return report_; }
  std::vector<StateField> state() override { return {{.name = "lipschitz", .scalar = &lipschitz_}}; }

 private:
  static at::Tensor weighted(const at::Tensor& t, const at::Tensor& w) { return w.defined() ? t * w : t; }

  // f of the means in means_, this rank's share.
  at::Tensor local_value() const {
    return sum_of([&](const at::Tensor& m, const at::Tensor& y) { return loss_->value(m, y); });
  }
  // And their squared deviations over the variance that the loss expects.
  std::array<at::Tensor, 2> local_sums() const {
    return {local_value(),
            sum_of([&](const at::Tensor& m, const at::Tensor& y) { return loss_->deviation(m, y); })};
  }
  template <class F>
  at::Tensor sum_of(const F& of) const {
    BandSum sum;
    sum.add(at::zeros({}, A_->options().dtype(at::kDouble)));
    for (std::size_t i = 0; i < y_.size(); ++i)
      read_by_bands([&](const at::Tensor& m, const at::Tensor& y,
                        const at::Tensor& w) { sum.add(local_sum(weighted(of(m, y), w))); },
                    means_[i], y_[i], weights_[i]);
    return sum.value();
  }

  // A^T phi'(m) of the means in means_.
  void slope(at::Tensor& out) {
    for (std::size_t i = 0; i < y_.size(); ++i)
      by_bands([&](at::Tensor to, const at::Tensor& m, const at::Tensor& y,
                   const at::Tensor& w) { to.copy_(weighted(loss_->derivative(m, y), w)); },
               work_[i], means_[i], y_[i], weights_[i]);
    A_->adjoint(work_, out);
  }

  // One part that is the image itself, or some of its pixels: then every pixel has its own minimum.
  void find_selection() {
    std::int64_t closed = 0;
    const ProductSpace::Part& samples = A_->range().part(0);
    const bool pixels = y_.size() == 1 && A_->domain().parts() == 1 && samples.box() == A_->image().box() &&
                        samples.space.planes() == A_->image().space.planes();
    if (const auto all = pixels ? A_->diagonal({}) : std::nullopt) {
      const at::Tensor& d = all->front();
      const bool binary =
          weights_[0].defined() ? (weights_[0] * (1 - weights_[0])).eq(0).all().item<bool>() : true;
      closed = binary && (d * (1 - d)).eq(0).all().item<bool>();
      if (weights_[0].defined()) selected_ = weights_[0].ne(0);
    }
    A_->comm().all_reduce({&closed, 1}, Reduce::min);
    if (closed) selection_ = selected_.defined();
  }

  // Newton's method for h(u) = gamma f(u) + |u - z|^2 / 2, which is convex with h'' >= 1: |h'| bounds the
  // distance to its minimum, as in QuadraticProx.
  void newton(const at::Tensor& z, double gamma, at::Tensor& u) {
    if (!slope_.defined())
      for (at::Tensor* t : {&slope_, &direction_, &tried_}) *t = at::empty_like(z);
    at::Tensor &h = slope_, &d = direction_, &tried = tried_;
    Measurement curvature(y_.size());
    const LinearMap hessian = [&](const at::Tensor& in, at::Tensor& to) {
      A_->apply(in, work_);
      for (std::size_t i = 0; i < y_.size(); ++i) work_[i].mul_(curvature[i]);
      A_->adjoint(work_, to);
      to.mul_(gamma).add_(in);
    };
    const auto height = [&](const at::Tensor& at) {  // of h; means_ are those of `at` afterwards
      A_->apply(at, means_);
      const at::Tensor r = at - z;
      double sum = gamma * local_value().item<double>() + 0.5 * local_dot(r, r).item<double>();
      A_->comm().all_reduce({&sum, 1}, Reduce::sum);
      return sum;
    };
    const LinearMap left = [&](const at::Tensor& in, at::Tensor& to) {
      hessian(in, to);
      to.neg_().add_(h);
    };
    const double values = static_cast<double>(A_->domain().values());
    const double error = prox_.tolerance > 0 ? prox_.tolerance
                         : noise_sigma_ > 0  ? 0.02 * noise_sigma_
                                             : 1e-5;
    const double limit = error * std::sqrt(values);
    double now = height(u);
    ++report_.calls;
    double slope_norm = 0;
    for (int k = 0; k < kNewton; ++k) {
      slope(h);
      h.mul_(gamma).add_(u).sub_(z);
      slope_norm = space_.norm(h);
      if (slope_norm <= limit) break;
      for (std::size_t i = 0; i < y_.size(); ++i) {
        if (!curvature[i].defined()) curvature[i] = at::empty_like(means_[i]);
        by_bands([&](at::Tensor to, const at::Tensor& m, const at::Tensor& y,
                     const at::Tensor& w) { to.copy_(weighted(loss_->curvature(m, y), w)); },
                 curvature[i], means_[i], y_[i], weights_[i]);
      }
      h.neg_();
      d.zero_();
      report_.iterations +=
          solver_.solve({hessian, left, {}}, d, space_, prox_.max_iterations, kInnerResidual * slope_norm)
              .iterations;
      const double descent = -space_.dot(h, d);  // < 0
      double step = 1, next = now;
      int halved = 0;
      for (; halved < kHalvings; ++halved, step /= 2) {
        at::Tensor to = tried.copy_(u).add_(d, step);
        next = height(to);
        if (next <= now + kDescent * step * descent + kRounding * std::abs(now)) break;
      }
      beat();
      if (halved == kHalvings) break;
      u.copy_(tried);
      now = next;
    }
    report_.missed += slope_norm > limit;
    report_.worst = std::max(report_.worst, slope_norm / std::sqrt(values));
  }

  std::shared_ptr<DistributedOperator> A_;
  Measurement y_, weights_;  // undefined weights: 1 everywhere on this rank
  std::unique_ptr<PointwiseLoss> loss_;
  ProxOptions prox_;
  double noise_sigma_;
  std::uint64_t seed_;
  Space space_;
  std::int64_t samples_ = 1;       // that count, all ranks
  Measurement means_, work_;       // A x; workspace of the layout
  std::optional<bool> selection_;  // A is the identity (false) or selects pixels (true, selected_)
  at::Tensor selected_;
  at::Tensor slope_, direction_, tried_;  // of Newton's method
  ConjugateGradients solver_;
  ProxReport report_;
  Deferred objective_, chi2_;
  double norm_ = std::numeric_limits<double>::quiet_NaN();       // |A|^2, likewise
  double lipschitz_ = std::numeric_limits<double>::quiet_NaN();  // until it is asked for
};

}  // namespace

std::unique_ptr<DataTerm> make_pointwise_term(DataTermInput input, std::unique_ptr<PointwiseLoss> loss,
                                              const Space& space) {
  return std::make_unique<PointwiseTerm>(std::move(input), std::move(loss), space);
}

}  // namespace tessera
