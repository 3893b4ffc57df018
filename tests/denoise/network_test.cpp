// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/denoise/network.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tessera/core/error.hpp"
#include "tessera/core/random.hpp"
#include "tessera/denoise/denoiser_table.hpp"

namespace tessera {
namespace {

at::Tensor random_image(at::IntArrayRef shape, std::uint64_t seed) {
  at::Tensor x = at::empty(shape, at::kDouble);
  const Random random(seed, RandomStream::scene);
  for (std::int64_t i = 0; i < x.numel(); ++i) x.data_ptr<double>()[i] = random.uniform(i);
  return x;
}

double largest(const at::Tensor& a) { return a.abs().max().item<double>(); }

std::vector<NetworkOptions> small_networks() {
  return {{.name = "drunet", .channels = 3, .widths = {4, 6}, .blocks = 1},
          {.name = "drunet", .channels = 1, .widths = {3, 4, 5}, .blocks = 1},
          {.name = "dncnn", .channels = 1, .widths = {6}, .depth = 6},
          {.name = "unet", .channels = 3, .widths = {4, 5}},
          {.name = "gsdrunet", .channels = 3, .widths = {4, 6}, .blocks = 1},
          {.name = "ffdnet", .channels = 3, .widths = {6}, .depth = 5},
          {.name = "scunet", .channels = 1, .widths = {4, 8}, .blocks = 2, .head = 2},
          {.name = "restormer", .channels = 1, .widths = {4, 8, 16, 32}, .blocks = 1, .head = 4}};
}

/// A window: the core grown by `halo`, clipped at the image, so that the zero padding falls on its border.
at::Tensor by_window(const Network& network, const at::Tensor& x, const at::Tensor& sigma, std::int64_t row,
                     std::int64_t column, std::int64_t side, std::int64_t halo) {
  const std::int64_t r0 = std::max<std::int64_t>(0, row - halo), r1 = std::min(x.size(2), row + side + halo);
  const std::int64_t c0 = std::max<std::int64_t>(0, column - halo),
                     c1 = std::min(x.size(3), column + side + halo);
  const at::Tensor y =
      evaluate(network.graph, network.weights, x.narrow(2, r0, r1 - r0).narrow(3, c0, c1 - c0), sigma);
  return y.narrow(2, row - r0, side).narrow(3, column - c0, side);
}

TEST(Network, windows_with_the_halo_equal_the_whole_image_and_with_one_unit_less_they_do_not) {
  for (const NetworkOptions& options : small_networks()) {
    const Network network = random_network(options, 5);
    if (network.graph.global()) continue;  // its windows are the whole image
    const std::int64_t unit = network.alignment()[1], halo = network.halo()[1];
    SCOPED_TRACE(::testing::Message() << options.name << ", halo " << halo);
    const std::int64_t side = 2 * unit, size = 2 * halo + 2 * side;
    const at::Tensor x = random_image({1, options.channels, size, size}, 1);
    const at::Tensor sigma = at::full({1}, 0.1, at::kDouble);
    const at::Tensor whole = evaluate(network.graph, network.weights, x, sigma);
    ASSERT_GT(largest(whole), 0.01);
    const double scale =
        std::max(1.0, largest(whole));  // of scunet 1e4: its last bits depend on the processor
    bool less_differs = false;
    for (const std::int64_t row : {std::int64_t{0}, halo, size - side})
      for (const std::int64_t column : {halo, size - side}) {
        const at::Tensor expected = whole.narrow(2, row, side).narrow(3, column, side);
        EXPECT_LT(largest(by_window(network, x, sigma, row, column, side, halo) - expected), 1e-12 * scale);
        const double error = largest(by_window(network, x, sigma, row, column, side, halo - unit) - expected);
        less_differs = less_differs || error > 1e-10 * scale;
      }
    EXPECT_TRUE(less_differs);
  }
}

TEST(Network, sigma_is_one_value_per_item_and_matters_to_those_that_take_it) {
  for (const NetworkOptions& options : small_networks()) {
    const Network network = random_network(options, 2);
    SCOPED_TRACE(options.name);
    EXPECT_EQ(network.takes_sigma(), find_denoiser(options.name).takes_sigma);
    const at::Tensor one = random_image({1, options.channels, 32, 48}, 3);
    at::Tensor sigma = at::empty({2}, at::kDouble);
    sigma.data_ptr<double>()[0] = 0.02;
    sigma.data_ptr<double>()[1] = 0.2;
    const at::Tensor both =
        evaluate(network.graph, network.weights, one.expand({2, -1, -1, -1}).contiguous(), sigma);
    for (int i = 0; i < 2; ++i) {
      const at::Tensor alone = evaluate(network.graph, network.weights, one, sigma.narrow(0, i, 1));
      EXPECT_LT(largest(both.narrow(0, i, 1) - alone), 1e-12 * std::max(1.0, largest(alone)));
    }
    const double change = largest(both.select(0, 0) - both.select(0, 1));
    EXPECT_EQ(change > 1e-6, network.takes_sigma());
  }
}

TEST(Network, random_weights_depend_on_the_seed_alone) {
  const NetworkOptions options = small_networks()[0];
  const Network a = random_network(options, 1), b = random_network(options, 1),
                c = random_network(options, 2);
  for (const auto& [name, tensor] : a.weights) {
    EXPECT_TRUE(tensor.equal(b.weights.at(name)));
    EXPECT_FALSE(tensor.equal(c.weights.at(name)));
  }
}

TEST(Network, folded_batch_norms_give_the_same_image) {
  const Network network = random_network({.name = "unet", .channels = 3, .widths = {4, 5, 6}}, 4);
  const Network folded = fold_batch_norm(network);
  EXPECT_FALSE(folded.options.batch_norm);
  for (const Node& node : folded.graph.nodes()) EXPECT_NE(node.op, Op::batch_norm);
  const at::Tensor x = random_image({1, 3, 16, 20}, 6);
  const at::Tensor sigma = at::full({1}, 0.1, at::kDouble);
  const at::Tensor y = evaluate(network.graph, network.weights, x, sigma);
  const at::Tensor z = evaluate(folded.graph, folded.weights, x, sigma);
  EXPECT_LT(largest(y - z), 1e-5 * largest(y));  // weights are rounded to float32 once
  for (const auto& [name, shape] : weight_shapes(folded.graph))
    EXPECT_EQ(folded.weights.at(name).sizes(), at::IntArrayRef(shape)) << name;
}

}  // namespace
}  // namespace tessera
