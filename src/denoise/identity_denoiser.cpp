// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/denoise/denoiser_table.hpp"

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

DenoiserRow identity_row() {
  return {.name = "none",
          .takes_sigma = false,
          .make = [](const DenoiserContext&, const Options&, at::TensorOptions) {
            return make_identity_denoiser();
          }};
}

}  // namespace tessera
