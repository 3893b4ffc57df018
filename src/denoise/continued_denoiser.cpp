// SPDX-License-Identifier: BSD-3-Clause
#include <ATen/core/Tensor.h>

#include <algorithm>

#include "tessera/denoise/denoiser.hpp"

namespace tessera {
namespace {

class ContinuedDenoiser final : public Denoiser {
 public:
  ContinuedDenoiser(Denoiser& inner, double level) : inner_(inner), level_(level) {}

  void apply(const at::Tensor& in, double sigma, at::Tensor& out) override {
    share_ = sigma >= level_ ? 1 : sigma * sigma / (level_ * level_);
    inner_.apply(in, std::max(sigma, level_), out);
    if (share_ < 1) out.mul_(share_).add_(in, 1 - share_);
  }
  void set_noise(double s) override { inner_.set_noise(s); }
  at::Tensor prior(const at::Tensor& x, double sigma) override {  // below the level D is the prox of nothing
    return sigma >= level_ ? inner_.prior(x, sigma) : at::Tensor();
  }
  at::Tensor potential() const override {
    const at::Tensor g = inner_.potential();
    return g.defined() ? g.mul(share_) : g;
  }
  std::int64_t bytes_sent() const override { return inner_.bytes_sent(); }
  bool bytes_are_exact() const override { return inner_.bytes_are_exact(); }
  std::string description() const override { return inner_.description(); }
  std::string notice() const override { return inner_.notice(); }
  void release() override { inner_.release(); }
  std::vector<StateField> state() override { return inner_.state(); }
  std::vector<std::pair<std::string, std::int64_t>> choices() const override { return inner_.choices(); }

 private:
  Denoiser& inner_;
  double level_;
  double share_ = 1;  // of inner_'s step, in the last call
};

}  // namespace

std::unique_ptr<Denoiser> make_continued(Denoiser& inner, double level) {
  return std::make_unique<ContinuedDenoiser>(inner, level);
}

}  // namespace tessera
