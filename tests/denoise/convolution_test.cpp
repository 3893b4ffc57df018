// SPDX-License-Identifier: BSD-3-Clause
#include "engines/convolution.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/conv_transpose2d.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

namespace tessera {
namespace {

at::Tensor last(const at::Tensor& x) { return x.contiguous(at::MemoryFormat::ChannelsLast); }

double relative(const at::Tensor& error, const at::Tensor& scale) {
  return (error.abs().max() / scale.abs().max()).item<double>();
}

// Sizes on both sides of every choice between the libraries: few and many pixels, strips, few channels.
TEST(Convolution, equals_the_definition_whichever_library_runs) {
  const ConvolutionLibrary library = probe_convolutions(at::kFloat, false, true);
  for (const auto& [inputs, outputs] : {std::array<std::int64_t, 2>{32, 48}, {4, 16}, {16, 3}, {40, 1}})
    for (const auto& [height, width] :
         {std::array<std::int64_t, 2>{3, 3}, {3, 60}, {60, 4}, {24, 19}, {16, 16}})
      for (const auto& padding : {std::array<std::int64_t, 2>{1, 1}, {0, 1}, {1, 0}}) {
        SCOPED_TRACE(testing::Message() << inputs << " -> " << outputs << ", " << height << " x " << width
                                        << ", zeros " << padding[0] << ' ' << padding[1]);
        const at::Tensor w =
            at::randn({outputs, inputs, 3, 3}) / std::sqrt(9.0 * static_cast<double>(inputs));
        const at::Tensor b = at::randn({outputs}), x = last(at::randn({2, inputs, height, width}));
        const at::Tensor want =
            at::conv2d(x.to(at::kDouble), w.to(at::kDouble), b.to(at::kDouble), 1, padding);
        ConvolutionLayer convolution(library, w, b, {.stride = 1, .padding = 1});
        EXPECT_LT(relative(convolution.apply(x, false, padding) - want, want), 5e-6);
        EXPECT_LT(relative(convolution.apply(x, true, padding) - want.relu(), want), 5e-6);

        if (padding[0] != 1 || padding[1] != 1) continue;
        const at::Tensor other = last(at::randn(want.sizes())), before = other.clone();
        EXPECT_LT(relative(convolution.add(x, other, false) - (want + before), want), 5e-6);
        EXPECT_TRUE(other.equal(before));
        EXPECT_LT(relative(convolution.add(x, other, true) - (want + before), want), 5e-6);
      }
}

// A feature computed in nine parts, each from a part of the input, into a part of the result.
TEST(Convolution, computes_parts_in_place) {
  const at::Tensor w = at::randn({48, 32, 3, 3}) / 17.0, b = at::randn({48});
  ConvolutionLayer convolution(probe_convolutions(at::kFloat, false, true), w, b,
                               {.stride = 1, .padding = 1});
  if (!convolution.in_parts()) GTEST_SKIP() << "this processor has no kernels that can";
  const at::Tensor x = last(at::randn({1, 32, 29, 23})), other = last(at::randn({1, 48, 29, 23}));
  const at::Tensor want = at::conv2d(x.to(at::kDouble), w.to(at::kDouble), b.to(at::kDouble), 1, 1);
  const at::Tensor y = last(at::randn({1, 48, 29, 23})), sum = other.clone();
  const std::array<std::int64_t, 4> rows{0, 4, 22, 29}, columns{0, 5, 6, 23};
  for (std::size_t i = 0; i < 3; ++i)
    for (std::size_t j = 0; j < 3; ++j) {
      const auto cut = [&](const at::Tensor& t, std::int64_t grow) {
        const std::int64_t top = std::max<std::int64_t>(rows[i] - grow, 0),
                           left = std::max<std::int64_t>(columns[j] - grow, 0);
        return t.narrow(2, top, std::min<std::int64_t>(rows[i + 1] + grow, 29) - top)
            .narrow(3, left, std::min<std::int64_t>(columns[j + 1] + grow, 23) - left);
      };
      const std::array<std::int64_t, 2> zeros{i == 0, j == 0};
      convolution.part(cut(x, 1), zeros, nullptr, true, cut(y, 0));
      const at::Tensor place = cut(sum, 0);
      convolution.part(cut(x, 1), zeros, &place, false, place);
    }
  EXPECT_LT(relative(y - want.relu(), want), 5e-6);
  EXPECT_LT(relative(sum - (want + other), want), 5e-6);
}

TEST(Convolution, takes_inputs_of_any_layout) {
  const ConvolutionLibrary library = probe_convolutions(at::kFloat, false, true);
  const at::Tensor w = at::randn({32, 32, 3, 3}) / 17.0, x = at::randn({1, 32, 24, 24});  // channels first
  const at::Tensor want = at::conv2d(x.to(at::kDouble), w.to(at::kDouble), std::nullopt, 1, 1);
  ConvolutionLayer convolution(library, w, std::nullopt, {.stride = 1, .padding = 1});
  EXPECT_LT(relative(convolution.apply(x, false) - want, want), 5e-6);
  const at::Tensor other = at::randn({1, 32, 24, 24});
  EXPECT_LT(relative(convolution.add(last(x), other, false) - (want + other), want), 5e-6);
}

TEST(Convolution, halves_and_doubles_the_image) {
  const ConvolutionLibrary library = probe_convolutions(at::kFloat, false, true);
  const at::Tensor x = last(at::randn({1, 32, 20, 36})), down = at::randn({48, 32, 2, 2}) / 11.0;
  const at::Tensor less = at::conv2d(x.to(at::kDouble), down.to(at::kDouble), std::nullopt, 2);
  EXPECT_LT(
      relative(ConvolutionLayer(library, down, std::nullopt, {.stride = 2}).apply(x, false) - less, less),
      5e-6);
  const at::Tensor up = at::randn({32, 24, 2, 2}) / 6.0;
  const at::Tensor more = at::conv_transpose2d(x.to(at::kDouble), up.to(at::kDouble), std::nullopt, 2);
  ConvolutionLayer convolution(library, up, std::nullopt, {.stride = 2, .transposed = true});
  EXPECT_LT(relative(convolution.apply(x, false) - more, more), 5e-6);
}

}  // namespace
}  // namespace tessera
