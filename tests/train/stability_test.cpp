// SPDX-License-Identifier: BSD-3-Clause
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/matmul.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>

#include "scenes.hpp"
#include "tessera/core/random.hpp"
#include "tessera/denoise/network.hpp"
#include "tessera/denoise/runner.hpp"

namespace tessera {
namespace {

/// x -> G x G is a circular Gaussian blur: row i of G holds the kernel around i, wrapped.
at::Tensor blur(std::int64_t side, double width) {
  at::Tensor g = at::empty({side, side}, at::kFloat);
  for (std::int64_t i = 0; i < side; ++i)
    for (std::int64_t k = 0; k < side; ++k) {
      const auto distance = static_cast<double>(std::min(std::abs(i - k), side - std::abs(i - k)));
      g.data_ptr<float>()[i * side + k] =
          static_cast<float>(std::exp(-0.5 * distance * distance / (width * width)));
    }
  return g / g.sum(at::IntArrayRef{1}, /*keepdim=*/true);
}

struct Curve {
  double start = -100, best = -100, last = -100;  // PSNR in dB
  double early = 0, late = 0;                     // |x+ - x| / |x| at iterations 100 and 600
};

/// Proximal gradient with step 1 on a drawn scene, blurred by 1.6 pixels, noise 0.01.
Curve iterate(const std::string& weights, std::int64_t channels, double sigma) {
  constexpr std::int64_t side = 64;
  const at::NoGradGuard no_gradient;
  Runner network(load_network("drunet", weights, channels), {});
  const at::Tensor clean = at::empty({1, channels, side, side}, at::kFloat);
  training::Draws draws(/*seed=*/11, /*step=*/0, /*item=*/0);
  training::dead_leaves(channels, side, draws, clean.data_ptr<float>());
  const at::Tensor g = blur(side, 1.6);
  const auto map = [&](const at::Tensor& x) { return at::matmul(at::matmul(g, x), g.t()); };
  const auto adjoint = [&](const at::Tensor& x) { return at::matmul(at::matmul(g.t(), x), g); };
  const Random random(1, RandomStream::noise);
  at::Tensor y = map(clean);
  for (std::int64_t i = 0; i < y.numel(); ++i)
    y.data_ptr<float>()[i] += static_cast<float>(0.01 * random.normal(i));

  Curve curve;
  at::Tensor x = adjoint(y);
  const auto psnr = [&] { return -10 * std::log10((x.clamp(0, 1) - clean).square().mean().item<double>()); };
  curve.start = psnr();
  for (int k = 1; k <= 600; ++k) {
    const at::Tensor next = network.run(x - adjoint(map(x) - y), sigma).contiguous();
    const double change = (next - x).norm().item<double>() / x.norm().item<double>();
    if (k == 100) curve.early = change;
    curve.late = change;
    x = next;
    curve.last = psnr();
    curve.best = std::max(curve.best, curve.last);
  }
  return curve;
}

TEST(ShippedWeights, stay_at_their_best_over_hundreds_of_iterations) {
  struct Case {
    const char* weights;
    std::int64_t channels;
    double sigma;
  };
  for (const auto& [weights, channels, sigma] :
       {Case{"drunet_small_color_stable", 3, 0.01}, Case{"drunet_small_gray_stable", 1, 0.05}}) {
    SCOPED_TRACE(std::string(weights) + " at " + std::to_string(sigma));
    const Curve curve = iterate(weights, channels, sigma);
    EXPECT_GT(curve.best, curve.start + 1);  // something was reconstructed
    EXPECT_GT(curve.last, curve.best - 0.2);
    EXPECT_LT(curve.late, std::max(1e-6, 0.3 * curve.early));  // or at rounding
  }
}

}  // namespace
}  // namespace tessera
