// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/denoise/denoiser.hpp"

namespace tessera {
namespace {

class IdentityDenoiser final : public Denoiser {
 public:
  void apply(const at::Tensor& in, double, at::Tensor& out) override { out.copy_(in); }
  std::int64_t bytes_sent() const override { return 0; }
  std::string description() const override { return "none"; }
};

}  // namespace

std::unique_ptr<Denoiser> make_identity_denoiser() { return std::make_unique<IdentityDenoiser>(); }

}  // namespace tessera
