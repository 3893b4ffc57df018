// SPDX-License-Identifier: BSD-3-Clause
#include "orbits.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>

#include "tessera/core/random.hpp"

namespace tessera {
namespace {

using training::reflection_norm;

at::Tensor normal(at::IntArrayRef shape, std::uint32_t part) {
  const Random random(3, RandomStream::noise, part);
  at::Tensor tensor = at::empty(shape, at::kDouble);
  for (std::int64_t i = 0; i < tensor.numel(); ++i) tensor.data_ptr<double>()[i] = random.normal(i);
  return tensor;
}

/// A tiny network in float64 with a picture and a unit direction.
struct Case {
  explicit Case(const NetworkOptions& options) : network(random_network(options, 5)) {
    for (auto& [name, tensor] : network.weights) tensor = tensor.to(at::kDouble);
    v = v / at::linalg_vector_norm(v);
  }
  double norm() const {
    const at::Tensor image = evaluate(network.graph, network.weights, x, sigma);
    return reflection_norm(network.graph, network.weights, x, image, sigma, v).item<double>();
  }

  Network network;
  at::Tensor x = normal({1, 1, 8, 8}, 0) * 0.2 + 0.5, v = normal({1, 1, 8, 8}, 1);
  at::Tensor sigma = at::full({1}, 0.05, at::kDouble);
};

TEST(ReflectionNorm, of_a_linear_map_is_that_of_twice_the_map_less_one) {
  // DnCNN of two layers, its ReLU kept open by a bias: D(x) = x + w1 w2 x + constant with 1 x 1 gains in the
  // middle of the kernels.
  Case c({.name = "dncnn", .channels = 1, .widths = {1}, .depth = 2});
  for (auto& [name, tensor] : c.network.weights) tensor.zero_();
  c.network.weights.at("in_conv.weight").select(2, 1).select(2, 1).fill_(0.5);
  c.network.weights.at("in_conv.bias").fill_(10);
  c.network.weights.at("out_conv.weight").select(2, 1).select(2, 1).fill_(-0.6);
  EXPECT_NEAR(c.norm(), 2 * (1 - 0.3) - 1, 1e-9);
}

TEST(ReflectionNorm, gradient_equals_finite_differences_in_every_weight) {
  Case c({.name = "drunet", .channels = 1, .widths = {2, 3}, .blocks = 1});
  for (auto& [name, tensor] : c.network.weights) tensor.requires_grad_(true);
  {
    const at::AutoGradMode on(true);
    const at::Tensor image = evaluate(c.network.graph, c.network.weights, c.x, c.sigma);
    reflection_norm(c.network.graph, c.network.weights, c.x, image, c.sigma, c.v).sum().backward();
  }
  const at::NoGradGuard off;
  double largest = 0;
  for (auto& [name, tensor] : c.network.weights) {
    const at::Tensor gradient = tensor.grad().contiguous();
    double* values = tensor.data_ptr<double>();
    for (std::int64_t i = 0; i < tensor.numel(); i += 7) {
      const double was = values[i], h = 1e-7;
      values[i] = was + h;
      const double above = c.norm();
      values[i] = was - h;
      const double below = c.norm();
      values[i] = was;
      const double expected = (above - below) / (2 * h), got = gradient.data_ptr<double>()[i];
      EXPECT_NEAR(got, expected, 1e-5 * (1 + std::abs(expected))) << name << " " << i;
      largest = std::max(largest, std::abs(expected));
    }
  }
  EXPECT_GT(largest, 0.1);  // there was a slope to compare
}

}  // namespace
}  // namespace tessera
