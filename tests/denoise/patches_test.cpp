// SPDX-License-Identifier: BSD-3-Clause
#include "winograd/patches.hpp"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/conv_transpose2d.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tessera/core/error.hpp"

namespace tessera {
namespace {

using Instructions = Patches::Instructions;

struct Kind {
  const char* name;
  Instructions instructions;
  at::ScalarType type = at::kFloat;
  Patches::Products products = Patches::Products::floats;
};
Kind kind;  // of the running test

class PatchesTest : public testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    kind = GetParam();
#ifdef TESSERA_AVX512_AS_LOOPS
    if (kind.instructions == Instructions::avx2) GTEST_SKIP() << "no loops";
    if (kind.instructions == Instructions::avx512 && kind.products == Patches::Products::pairs)
      GTEST_SKIP() << "a loop for a loop, which takes minutes";
#else
    if (static_cast<int>(kind.instructions) > static_cast<int>(Winograd::available()))
      GTEST_SKIP() << "this CPU lacks the instructions";
#endif
  }
};
INSTANTIATE_TEST_SUITE_P(
    On, PatchesTest,
    testing::Values(Kind{"avx2", Instructions::avx2}, Kind{"avx512", Instructions::avx512},
                    Kind{"bfloat16_avx2", Instructions::avx2, at::kBFloat16},
                    Kind{"bfloat16_avx512", Instructions::avx512, at::kBFloat16},
                    Kind{"bfloat16_avx512_bf16", Instructions::avx512_bf16, at::kBFloat16},
                    Kind{"float16_avx2", Instructions::avx2, at::kHalf},
                    Kind{"float16_avx512", Instructions::avx512, at::kHalf},
                    Kind{"pairs_avx2", Instructions::avx2, at::kBFloat16, Patches::Products::pairs},
                    Kind{"pairs_avx512", Instructions::avx512, at::kBFloat16, Patches::Products::pairs},
                    Kind{"pairs_avx512_bf16", Instructions::avx512_bf16, at::kBFloat16,
                         Patches::Products::pairs}),
    [](const auto& i) { return i.param.name; });

at::Tensor typed(const at::Tensor& x) { return x.to(kind.type); }
at::Tensor last(const at::Tensor& x) { return typed(x).contiguous(at::MemoryFormat::ChannelsLast); }
Patches make(const at::Tensor& weight, const std::optional<at::Tensor>& bias, bool up) {
  return {weight, bias, up, kind.instructions, kind.products};
}
// Of results: of the sums, and of rounding them to 16 bits; inputs are of 16 bits already.
double error() { return kind.type == at::kBFloat16 ? 8e-3 : kind.type == at::kHalf ? 1e-3 : 2e-6; }

struct Case {
  std::int64_t images, inputs, outputs, height, width;  // of the coarser grid
};

at::Tensor weights(const Case& c, bool up) {
  const double scale = std::sqrt(static_cast<double>(up ? c.inputs : 4 * c.inputs));
  return typed((up ? at::randn({c.inputs, c.outputs, 2, 2}) : at::randn({c.outputs, c.inputs, 2, 2})) /
               scale);
}

at::Tensor direct(const at::Tensor& x, const at::Tensor& w, const std::optional<at::Tensor>& b, bool up) {
  std::optional<at::Tensor> bias;
  if (b) bias = b->to(at::kDouble);
  return up ? at::conv_transpose2d(x.to(at::kDouble), w.to(at::kDouble), bias, 2)
            : at::conv2d(x.to(at::kDouble), w.to(at::kDouble), bias, 2);
}

at::Tensor input(const Case& c, bool up) {
  return last(at::randn({c.images, c.inputs, c.height * (up ? 1 : 2), c.width * (up ? 1 : 2)}));
}
at::Tensor result_of(const Case& c, bool up) {
  return last(at::full({c.images, c.outputs, c.height * (up ? 2 : 1), c.width * (up ? 2 : 1)},
                       std::numeric_limits<float>::quiet_NaN()));
}

TEST_P(PatchesTest, equal_the_direct_sum_on_any_size) {
  at::manual_seed(1);
  for (const Case& c : {Case{1, 24, 48, 5, 7},
                        {2, 48, 24, 3, 17},
                        {1, 3, 16, 1, 1},
                        {3, 40, 80, 2, 29},
                        {1, 96, 192, 4, 13},
                        {1, 17, 8, 6, 15},
                        {2, 35, 5, 6, 43},
                        {1, 1, 1, 2, 3},
                        {1, 64, 64, 130, 130}})
    for (const bool up : {false, true}) {
      if (!Patches::suits(kind.type, c.outputs, up)) continue;
      SCOPED_TRACE(testing::Message() << c.images << " of " << c.inputs << " -> " << c.outputs << ", "
                                      << c.height << " x " << c.width << (up ? " up" : " down"));
      const at::Tensor w = weights(c, up), b = typed(at::randn({c.outputs})), x = input(c, up);
      const at::Tensor y = result_of(c, up), z = result_of(c, up);
      make(w, std::nullopt, up).run(x, false, y);
      const at::Tensor plain = direct(x, w, std::nullopt, up), biased = direct(x, w, b, up).clamp_min(0);
      EXPECT_LT((y - plain).abs().max().item<double>(), error() * plain.abs().max().item<double>());
      make(w, b, up).run(x, true, z);
      EXPECT_LT((z - biased).abs().max().item<double>(), error() * plain.abs().max().item<double>());
    }
}

TEST_P(PatchesTest, write_large_results_past_the_cache) {
  const Case c{1, 48, 24, 160, kind.type == at::kFloat ? 150 : 300};
  const at::Tensor w = weights(c, true), x = input(c, true), y = result_of(c, true);
  ASSERT_TRUE(comes_from_memory(y));
  make(w, std::nullopt, true).run(x, false, y);
  const at::Tensor plain = direct(x, w, std::nullopt, true);
  EXPECT_LT((y - plain).abs().max().item<double>(), error() * plain.abs().max().item<double>());
}

// A network's first layer.
TEST_P(PatchesTest, of_3x3_pixels_equal_the_direct_sum) {
  if (kind.type == at::kFloat) GTEST_SKIP() << "oneDNN's in float32";
  at::manual_seed(5);
  for (const Case& c : {Case{1, 4, 24, 9, 61},
                        {2, 2, 64, 5, 7},
                        {1, 1, 1, 1, 1},
                        {1, 15, 37, 12, 130},
                        {1, 3, 8, 2, 30},
                        {3, 5, 96, 3, 4}})
    for (const Winograd::Padding& p : {Winograd::Padding{1, 1}, {0, 1}, {1, 0}, {0, 0}}) {
      if (c.height + 2 * p[0] < 3 || c.width + 2 * p[1] < 3) continue;
      SCOPED_TRACE(testing::Message() << c.images << " of " << c.inputs << " -> " << c.outputs << ", "
                                      << c.height << " x " << c.width << ", zeros " << p[0] << ' ' << p[1]);
      ASSERT_TRUE(Patches::suits_first(kind.type, c.inputs));
      const at::Tensor w = typed(at::randn({c.outputs, c.inputs, 3, 3}) / std::sqrt(9.0 * c.inputs)),
                       b = typed(at::randn({c.outputs})),
                       big = last(at::randn({c.images, c.inputs, c.height + 2, c.width + 3}));
      const at::Tensor x = big.narrow(2, 1, c.height).narrow(3, 2, c.width);  // a part of a feature
      const at::Tensor plain =
          at::conv2d(x.to(at::kDouble), w.to(at::kDouble), b.to(at::kDouble), 1, {p[0], p[1]}).clamp_min(0);
      const at::Tensor y = last(at::full(plain.sizes(), std::numeric_limits<float>::quiet_NaN()));
      make(w, b, false).run(x, true, y, p);
      EXPECT_LT((y - plain).abs().max().item<double>(), error() * plain.abs().max().item<double>() + 1e-12);
    }
}

// So a result is the same on any number of ranks: a pixel's bits do not depend on where it lies.
TEST_P(PatchesTest, give_the_same_bits_anywhere_and_on_any_number_of_threads) {
  const int threads = at::get_num_threads();
  for (const bool up : {false, true}) {
    const Case c{1, 24, 48, 9, 37};
    const at::Tensor w = weights(c, up), x = input(c, up), y = result_of(c, up), z = result_of(c, up);
    const Patches layer = make(w, std::nullopt, up);
    at::set_num_threads(1);
    layer.run(x, false, y);
    at::set_num_threads(3);
    layer.run(x, false, z);
    EXPECT_TRUE(y.equal(z));
    const std::int64_t in = up ? 1 : 2, out = up ? 2 : 1;
    const at::Tensor part = last(x.narrow(3, 5 * in, 20 * in)), of_part = result_of({1, 24, 48, 9, 20}, up);
    layer.run(part, false, of_part);
    EXPECT_TRUE(of_part.equal(last(y.narrow(3, 5 * out, 20 * out))));
  }
  at::set_num_threads(threads);
}

TEST_P(PatchesTest, pass_nan_on) {
  const Case c{1, 16, 16, 4, 4};
  const at::Tensor x = input(c, false), y = result_of(c, false).zero_();
  x[0][3][2][2] = std::numeric_limits<float>::quiet_NaN();
  make(weights(c, false), std::nullopt, false).run(x, true, y);
  EXPECT_TRUE(y[0].select(1, 1).select(1, 1).isnan().all().item<bool>());
  EXPECT_EQ(y.isnan().sum().item<std::int64_t>(), 16);
}

}  // namespace
}  // namespace tessera
