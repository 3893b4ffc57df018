// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/domain/data_term.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/add.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/view_as_real.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "circular_norm.hpp"
#include "power_iteration.hpp"
#include "sample_weights.hpp"
#include "tessera/core/error.hpp"
#include "tessera/core/phase.hpp"
#include "tessera/domain/conjugate_gradients.hpp"
#include "tessera/domain/fourier.hpp"

namespace tessera {
namespace {

class LeastSquares final : public DataTerm {
 public:
  LeastSquares(DataTermInput in, const Space& space)
      : A_(std::move(in.A)),
        y_(std::move(in.y)),
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
    start_ = A_->make_image();
    for (std::size_t i = 0; i < y_.size(); ++i) residual_[i].copy_(weigh(i, y_[i]));
    A_->adjoint(residual_, start_);
    diagonal_ = A_->diagonal(squared_weights());
    if (!diagonal_ && !weighted_ && A_->decomposition().image().extent(0) == 1) prepare_fourier();
  }

  double value(const at::Tensor& x) override {
    A_->apply(x, residual_);
    double sum = 0.5 * weigh_residual().item<double>();
    A_->comm().all_reduce({&sum, 1}, Reduce::sum);
    return sum;
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
    if (!work_.defined()) work_ = at::empty_like(z);
    at::add_out(work_, z, start_, gamma);  // right-hand side of (gamma A^T W A + 1) u = z + gamma A^T W y
    if (diagonal_) {
      out.copy_(work_).div_(diagonal_->mul(gamma).add_(1));
    } else if (fourier_) {
      fourier_->forward(work_);
      if (symbol_.numel() > 0)
        at::view_as_real(fourier_->spectrum()).div_(symbol_.mul(gamma).add_(1).unsqueeze(-1));
      fourier_->inverse(out);
    } else {
      if (!warm) out.copy_(z);
      const LinearMap normal = [&](const at::Tensor& in, at::Tensor& to) {
        A_->apply(in, residual_);
        for (std::size_t i = 0; i < y_.size(); ++i)
          if (root_weights_[i].defined()) residual_[i].mul_(root_weights_[i]).mul_(root_weights_[i]);
        A_->adjoint(residual_, to);
        to.mul_(gamma).add_(in);
      };
      solver_.solve(normal, work_, out, space_, prox_.max_iterations, prox_.tolerance);
    }
  }

  Deferred objective() const override { return objective_; }
  Deferred chi2() const override { return chi2_; }

  double lipschitz() override {
    if (!std::isnan(lipschitz_)) return lipschitz_;
    if (!weighted_) {
      lipschitz_ = operator_norm_squared(*A_, space_, seed_);
    } else if (diagonal_) {
      double largest = diagonal_->numel() > 0 ? diagonal_->max().item<double>() : 0.0;
      A_->comm().all_reduce({&largest, 1}, Reduce::max);
      lipschitz_ = largest;
    } else {
      const LinearMap normal = [&](const at::Tensor& in, at::Tensor& out) {
        A_->apply(in, residual_);
        for (std::size_t i = 0; i < y_.size(); ++i)
          if (root_weights_[i].defined()) residual_[i].mul_(root_weights_[i]).mul_(root_weights_[i]);
        A_->adjoint(residual_, out);
      };
      lipschitz_ = power_iteration(*A_, normal, space_, seed_, 1e-3, 200);
    }
    return lipschitz_;
  }

  void adjoint_start(at::Tensor& out) override { out.copy_(start_); }
  const DistributedOperator& op() const override { return *A_; }
  std::int64_t prox_bytes_sent() const override {
    if (diagonal_) return 0;
    return fourier_ ? fourier_->bytes_sent() : A_->bytes_sent();
  }
  // A power iteration on other ranks differs in its last bits.
  std::vector<StateField> state() override { return {{.name = "lipschitz", .scalar = &lipschitz_}}; }

 private:
  // W t for a tensor over part i.
  at::Tensor weigh(std::size_t i, const at::Tensor& t) const {
    const at::Tensor& root = root_weights_[i];
    return root.defined() ? t.mul(root).mul_(root) : t;
  }
  Measurement squared_weights() const {
    Measurement w(y_.size());
    for (std::size_t i = 0; i < y_.size(); ++i)
      if (root_weights_[i].defined()) w[i] = root_weights_[i].square();
    return w;
  }

  // A x in residual_ becomes W (A x - y); returns this rank's |A x - y|^2_W.
  at::Tensor weigh_residual() {
    at::Tensor chi = at::zeros({}, A_->options().dtype(at::kDouble));
    for (std::size_t i = 0; i < y_.size(); ++i) {
      at::Tensor& r = residual_[i];
      r.sub_(y_[i]);
      if (root_weights_[i].defined()) r.mul_(root_weights_[i]);
      chi = chi.add(local_dot(r, r));
      if (root_weights_[i].defined()) r.mul_(root_weights_[i]);
    }
    return chi;
  }

  void report(const at::Tensor& local_chi) {
    const double variance = noise_sigma_ > 0 ? noise_sigma_ * noise_sigma_ : 1.0;
    objective_ = space_.sum(local_chi.mul(0.5));
    chi2_ = space_.sum(local_chi.div(static_cast<double>(samples_) * variance));
  }

  void prepare_fourier() {
    const std::vector<CircularConvolution> kernels = A_->circular();
    if (kernels.empty()) return;
    const Box& image = A_->decomposition().image();
    fourier_.emplace(A_->decomposition(), A_->image_channels(), A_->options(), A_->transport(),
                     A_->comm().rank());
    const std::int64_t begin = fourier_->first_column(), end = fourier_->last_column();
    at::Tensor sum = at::zeros({image.extent(1), end - begin}, at::kDouble);
    if (end > begin)
      for (const CircularConvolution& k : kernels)
        sum.add_(spectrum_squared(k.taps, image.extent(1), image.extent(2), begin, end));
    symbol_ = sum.to(A_->options());
  }

  std::shared_ptr<DistributedOperator> A_;
  Measurement y_;             // 0 where the weight is 0 for want of a finite value
  Measurement root_weights_;  // square roots; undefined: 1 everywhere on this rank
  bool weighted_ = false;     // on any rank
  double noise_sigma_;
  ProxOptions prox_;
  std::uint64_t seed_;
  Space space_;
  std::int64_t samples_ = 1;            // that count, all ranks
  Measurement residual_;                // workspace of the layout
  at::Tensor start_;                    // A^T W y
  at::Tensor work_;                     // right-hand side of the prox
  std::optional<at::Tensor> diagonal_;  // of A^T W A
  std::optional<DistributedFourier> fourier_;
  at::Tensor symbol_;  // sum of |K|^2 at this rank's columns, (height, columns)
  ConjugateGradients solver_;
  Deferred objective_, chi2_;
  double lipschitz_ = std::numeric_limits<double>::quiet_NaN();  // until it is asked for
};

}  // namespace

std::unique_ptr<DataTerm> make_least_squares(DataTermInput input, const Space& space) {
  return std::make_unique<LeastSquares>(std::move(input), space);
}

}  // namespace tessera
