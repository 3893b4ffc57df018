// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/domain/pointwise_loss.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/where.h>

#include <algorithm>

#include "tessera/core/error.hpp"

namespace tessera {
namespace {

class PoissonLoss final : public PointwiseLoss {
 public:
  PoissonLoss(double gain, double background, double noise_sigma)
      : gain_(gain), background_(background), scale_(noise_sigma * noise_sigma / gain) {
    TESSERA_VALIDATE(gain > 0, "problem.noise.poisson is ", gain,
                     " (the likelihood of counts needs their gain) write it");
    TESSERA_VALIDATE(background >= 0, "problem.likelihood.background is ", background,
                     " (a mean count is not negative) use 0 or more");
    TESSERA_EXPECT(noise_sigma > 0, "a Poisson loss without a noise level (it sets the loss's scale)");
  }

  at::Tensor value(const at::Tensor& m, const at::Tensor& y) const override {
    const at::Tensor v = m + background_, c = counts(y), e = floor(c), d = v - e;
    const at::Tensor inside = v - c * at::where(c > 0, v, at::ones_like(v)).clamp_min(kTiny).log();
    const at::Tensor below = e - c * e.log() + (1 - c / e) * d + 0.5 * bend(c, e) * d * d;
    return at::where(v >= e, inside, below) * scale_;
  }
  at::Tensor derivative(const at::Tensor& m, const at::Tensor& y) const override {
    const at::Tensor v = m + background_, c = counts(y), e = floor(c);
    return at::where(v >= e, 1 - c / v.clamp_min(kTiny), 1 - c / e + bend(c, e) * (v - e)) * scale_;
  }
  at::Tensor curvature(const at::Tensor& m, const at::Tensor& y) const override {
    const at::Tensor v = m + background_, c = counts(y), e = floor(c);
    return at::where(v >= e, c / (v * v).clamp_min(kTiny), bend(c, e)) * scale_;
  }
  at::Tensor steepest(const at::Tensor& y) const override {
    const at::Tensor c = counts(y), e = floor(c);
    return bend(c, e) * scale_;
  }
  at::Tensor prox(const at::Tensor& z, double gamma, const at::Tensor& y) const override {
    const double k = gamma * scale_;
    const at::Tensor c = counts(y), e = floor(c), s = z + background_, b = s - k;
    const at::Tensor root = 0.5 * (b + (b * b + 4 * k * c).sqrt());  // of v^2 - b v - k c
    const at::Tensor slope = bend(c, e), below = (s - k * (1 - c / e - slope * e)) / (1 + k * slope);
    // The derivative at the floor says on which side of it the minimum lies.
    const at::Tensor above = k * (1 - c / e) + e - s <= 0;
    return at::where(above, root, below) - background_;
  }
  std::optional<double> background() const override { return background_; }
  at::Tensor deviation(const at::Tensor& m, const at::Tensor& y) const override {
    const at::Tensor v = (m + background_).clamp_min(gain_), r = m - y;
    return r * r / (v * gain_);
  }

 private:
  static constexpr double kTiny = 1e-15;
  at::Tensor counts(const at::Tensor& y) const { return (y + background_).clamp_min(0.0); }
  at::Tensor floor(const at::Tensor& c) const {
    return (c * 0.25).clamp_min(std::max(background_, 0.25 * gain_));
  }
  // phi'' below the floor e: its own there, and never so little that phi would fall for v < 0.
  static at::Tensor bend(const at::Tensor& c, const at::Tensor& e) { return c.maximum(e - c) / (e * e); }

  double gain_, background_, scale_;
};

class HuberLoss final : public PointwiseLoss {
 public:
  HuberLoss(double threshold, double noise_sigma)
      : t_(threshold * noise_sigma), v_(noise_sigma * noise_sigma) {
    TESSERA_VALIDATE(threshold > 0, "problem.likelihood.threshold is ", threshold,
                     " (below it a sample is no outlier) use for example 1.345");
    TESSERA_EXPECT(noise_sigma > 0, "a Huber loss without a noise level (it sets the threshold)");
  }

  at::Tensor value(const at::Tensor& m, const at::Tensor& y) const override {
    const at::Tensor a = (m - y).abs();
    return at::where(a <= t_, 0.5 * a * a, t_ * (a - 0.5 * t_));
  }
  at::Tensor derivative(const at::Tensor& m, const at::Tensor& y) const override {
    return (m - y).clamp(-t_, t_);
  }
  at::Tensor curvature(const at::Tensor& m, const at::Tensor& y) const override {
    return (m - y).abs().le(t_).to(m.options());
  }
  at::Tensor steepest(const at::Tensor& y) const override { return at::ones_like(y); }
  at::Tensor prox(const at::Tensor& z, double gamma, const at::Tensor& y) const override {
    const at::Tensor r = z - y;
    return z - at::where(r.abs() <= (1 + gamma) * t_, r * (gamma / (1 + gamma)), r.sign() * (gamma * t_));
  }
  at::Tensor deviation(const at::Tensor& m, const at::Tensor& y) const override {
    return value(m, y) * (2 / v_);
  }

 private:
  double t_, v_;
};

}  // namespace

std::unique_ptr<PointwiseLoss> make_poisson_loss(double gain, double background, double noise_sigma) {
  return std::make_unique<PoissonLoss>(gain, background, noise_sigma);
}

std::unique_ptr<PointwiseLoss> make_huber_loss(double threshold, double noise_sigma) {
  return std::make_unique<HuberLoss>(threshold, noise_sigma);
}

}  // namespace tessera
