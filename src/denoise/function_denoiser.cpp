// SPDX-License-Identifier: BSD-3-Clause
// Denoisers that are functions of a rank's block.
#include <utility>

#include "tessera/denoise/denoiser_table.hpp"

namespace tessera {
namespace {

class FunctionDenoiser final : public Denoiser {
 public:
  using Function = std::function<void(const at::Tensor&, double, at::Tensor&)>;
  FunctionDenoiser(Function f, std::string description)
      : f_(std::move(f)), description_(std::move(description)) {}
  void apply(const at::Tensor& in, double sigma, at::Tensor& out) override { f_(in, sigma, out); }
  std::int64_t bytes_sent() const override { return 0; }
  std::string description() const override { return description_; }

 private:
  Function f_;
  std::string description_;
};

}  // namespace

std::unique_ptr<Denoiser> make_function_denoiser(
    std::function<void(const at::Tensor& in, double sigma, at::Tensor& out)> f, std::string description) {
  return std::make_unique<FunctionDenoiser>(std::move(f), std::move(description));
}

std::unique_ptr<Denoiser> make_identity_denoiser() {
  return make_function_denoiser([](const at::Tensor& in, double, at::Tensor& out) { out.copy_(in); }, "none");
}

DenoiserRow identity_row() {
  return {.name = "none",
          .takes_sigma = false,
          .make = [](const DenoiserContext&, const Options&, at::TensorOptions) {
            return make_identity_denoiser();
          }};
}

}  // namespace tessera
