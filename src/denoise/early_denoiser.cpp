// SPDX-License-Identifier: BSD-3-Clause
#include <ATen/core/Tensor.h>

#include <utility>

#include "tessera/core/error.hpp"
#include "tessera/denoise/denoiser.hpp"

namespace tessera {
namespace {

class EarlyDenoiser final : public Denoiser {
 public:
  EarlyDenoiser(std::unique_ptr<Denoiser> early, Denoiser& exact, double level)
      : early_(std::move(early)), exact_(exact), level_(level) {
    TESSERA_EXPECT(early_->state().empty() && exact_.state().empty(),
                   "two denoisers with a state of their own take turns (a checkpoint holds one) use one");
  }

  void apply(const at::Tensor& in, double sigma, at::Tensor& out) override {
    const bool early = sigma >= level_;
    Denoiser& used = early ? *early_ : exact_;
    if (early != was_early_) (early ? exact_ : *early_).release();
    was_early_ = early;
    used.apply(in, sigma, out);
  }
  void set_noise(double s) override {
    early_->set_noise(s);
    exact_.set_noise(s);
  }
  at::Tensor potential() const override { return was_early_ ? early_->potential() : exact_.potential(); }
  std::int64_t bytes_sent() const override { return exact_.bytes_sent(); }
  bool bytes_are_exact() const override { return false; }
  std::string description() const override { return exact_.description(); }
  std::string notice() const override { return exact_.notice(); }
  void release() override {
    early_->release();
    exact_.release();
  }
  std::vector<std::pair<std::string, std::int64_t>> choices() const override { return exact_.choices(); }

 private:
  std::unique_ptr<Denoiser> early_;
  Denoiser& exact_;
  double level_;
  bool was_early_ = false;
};

}  // namespace

std::unique_ptr<Denoiser> make_early(std::unique_ptr<Denoiser> early, Denoiser& exact, double level) {
  return std::make_unique<EarlyDenoiser>(std::move(early), exact, level);
}

}  // namespace tessera
