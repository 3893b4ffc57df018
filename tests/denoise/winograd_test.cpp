// SPDX-License-Identifier: BSD-3-Clause
#include "winograd/winograd.hpp"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/conv3d.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tessera/core/error.hpp"
#include "tessera/core/memory.hpp"

namespace tessera {
namespace {

using Instructions = Winograd::Instructions;

using Products = Winograd::Products;

struct Kind {
  const char* name;
  Instructions instructions;
  at::ScalarType type = at::kFloat;
  Products products = Products::floats;
};
Kind kind;  // of the running test

// Every set of kernels that runs here; without any there is nothing to test.
class WinogradKernelsTest : public testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    kind = GetParam();
#ifdef TESSERA_AVX512_AS_LOOPS
    if (kind.instructions == Instructions::avx2) GTEST_SKIP() << "no loops";
    if (kind.instructions == Instructions::avx512 && kind.products == Products::pairs)
      GTEST_SKIP() << "a loop for a loop, which takes minutes";
#else
    if (static_cast<int>(kind.instructions) > static_cast<int>(Winograd::available()))
      GTEST_SKIP() << "this CPU lacks the instructions";
#endif
  }
};
INSTANTIATE_TEST_SUITE_P(
    On, WinogradKernelsTest,
    testing::Values(Kind{"avx2", Instructions::avx2}, Kind{"avx512", Instructions::avx512},
                    Kind{"avx512_bf16", Instructions::avx512_bf16},
                    Kind{"bfloat16_avx2", Instructions::avx2, at::kBFloat16},
                    Kind{"bfloat16_avx512", Instructions::avx512, at::kBFloat16},
                    Kind{"bfloat16_avx512_bf16", Instructions::avx512_bf16, at::kBFloat16},
                    Kind{"float16_avx2", Instructions::avx2, at::kHalf},
                    Kind{"float16_avx512", Instructions::avx512, at::kHalf},
                    Kind{"pairs_avx2", Instructions::avx2, at::kBFloat16, Products::pairs},
                    Kind{"pairs_avx512", Instructions::avx512, at::kBFloat16, Products::pairs},
                    Kind{"pairs_avx512_bf16", Instructions::avx512_bf16, at::kBFloat16, Products::pairs}),
    [](const auto& i) { return i.param.name; });

at::Tensor typed(const at::Tensor& x) { return x.to(kind.type); }
at::Tensor last(const at::Tensor& x) { return typed(x).contiguous(at::MemoryFormat::ChannelsLast); }
Winograd make(const at::Tensor& weight, const std::optional<at::Tensor>& bias) {
  return {weight, bias, kind.instructions, kind.products};
}
// Of results: the arithmetic's error in float32, the rounding of a result in 16 bits, and of all that is transformed.
double error(double float32 = 5e-6) {
  return kind.products == Products::pairs ? 4e-2
         : kind.type == at::kBFloat16     ? 8e-3
         : kind.type == at::kHalf         ? 1e-3
                                          : float32;
}

at::Tensor output_like(const at::Tensor& x, std::int64_t outputs, const Winograd::Padding& p) {
  return last(at::full({x.size(0), outputs, x.size(2) + 2 * p[0] - 2, x.size(3) + 2 * p[1] - 2},
                       std::numeric_limits<float>::quiet_NaN(), x.options()));
}

at::Tensor direct(const at::Tensor& x, const at::Tensor& w, const std::optional<at::Tensor>& b,
                  const Winograd::Padding& p) {
  std::optional<at::Tensor> bias;
  if (b) bias = b->to(at::kDouble);
  return at::conv2d(x.to(at::kDouble), w.to(at::kDouble), bias, 1, p);
}

// The largest error as a share of the scale of what was to come.
double relative(const at::Tensor& error, const at::Tensor& scale) {
  return (error.abs().max() / scale.abs().max()).item<double>();
}

at::Tensor weights(std::int64_t outputs, std::int64_t inputs) {
  return typed(at::randn({outputs, inputs, 3, 3}) / std::sqrt(9.0 * static_cast<double>(inputs)));
}

TEST_P(WinogradKernelsTest, equals_the_direct_sum_on_any_size) {
  at::manual_seed(1);
  struct Case {
    std::int64_t images, inputs, outputs, height, width;
  };
  for (const Case& c : {Case{1, 16, 16, 1, 1},
                        {1, 16, 16, 2, 3},
                        {1, 17, 33, 5, 4},
                        {2, 3, 5, 7, 9},
                        {3, 40, 24, 8, 8},
                        {1, 64, 64, 21, 35},
                        {1, 1, 1, 6, 6},
                        {1, 24, 24, 19, 13},
                        {1, 24, 1, 33, 41},
                        {2, 64, 3, 9, 8},
                        {1, 19, 4, 2, 17},
                        {1, 130, 100, 13, 6},
                        {1, 48, 96, 17, 29},
                        {1, 260, 72, 4, 10},
                        {5, 24, 31, 3, 2}})
    for (const Winograd::Padding& p : {Winograd::Padding{1, 1}, {0, 1}, {1, 0}, {0, 0}}) {
      if (c.height + 2 * p[0] < 3 || c.width + 2 * p[1] < 3) continue;
      SCOPED_TRACE(testing::Message() << c.images << " of " << c.inputs << " -> " << c.outputs << ", "
                                      << c.height << " x " << c.width << ", zeros " << p[0] << ' ' << p[1]);
      const at::Tensor w = weights(c.outputs, c.inputs), b = typed(at::randn({c.outputs}));
      const at::Tensor x = last(at::randn({c.images, c.inputs, c.height, c.width}));
      const at::Tensor y = output_like(x, c.outputs, p), z = output_like(x, c.outputs, p);
      make(w, std::nullopt).run(x, p, nullptr, false, y);
      at::Tensor plain = direct(x, w, std::nullopt, p);
      EXPECT_LT(relative(y - plain, plain), error());

      plain = direct(x, w, b, p);
      const Winograd layer = make(w, b);
      layer.run(x, p, nullptr, true, y);
      EXPECT_LT(relative(y - plain.relu(), plain), error());
      const at::Tensor other = last(at::randn(y.sizes())), sum = plain + other;
      layer.run(x, p, &other, false, z);
      EXPECT_LT(relative(z - sum, sum), error());
      layer.run(x, p, &other, true, z);
      EXPECT_LT(relative(z - sum.relu(), sum), error());
      layer.run(x, p, &other, false, other);  // in place
      EXPECT_LT(relative(other - sum, sum), error());
    }
}

// Of 16 bits only what is read and written is rounded: the bits are those of float32, rounded once.
TEST_P(WinogradKernelsTest, rounds_once) {
  if (kind.type == at::kFloat || kind.products == Products::pairs) GTEST_SKIP() << "nothing is, or more is";
  at::manual_seed(3);
  for (const std::int64_t outputs : {1, 3, 16, 24, 33, 96}) {
    const at::Tensor w = weights(outputs, 40), b = typed(at::randn({outputs})),
                     x = last(at::randn({2, 40, 22, 35})), y = output_like(x, outputs, {1, 1}),
                     other = last(at::randn(y.sizes()));
    make(w, b).run(x, {1, 1}, &other, true, y);
    const at::Tensor wide = other.to(at::kFloat);
    Winograd(w.to(at::kFloat), b.to(at::kFloat), kind.instructions)
        .run(x.to(at::kFloat), {1, 1}, &wide, true, wide);
    EXPECT_TRUE(y.equal(wide.to(kind.type))) << outputs;
  }
}

// What pairs lose is spread like noise, not in one place.
TEST_P(WinogradKernelsTest, pairs_lose_a_percent) {
  if (kind.products != Products::pairs) GTEST_SKIP() << "products of floats";
  at::manual_seed(4);
  const at::Tensor w = weights(64, 65), x = last(at::randn({1, 65, 61, 54})), y = output_like(x, 64, {1, 1});
  make(w, std::nullopt).run(x, {1, 1}, nullptr, false, y);
  const at::Tensor plain = direct(x, w, std::nullopt, {1, 1});
  const double lost = ((y - plain).std() / plain.std()).item<double>();
  EXPECT_LT(lost, 1.5e-2);
  EXPECT_GT(lost, 1e-3);
}

TEST_P(WinogradKernelsTest, reads_and_writes_parts_of_larger_images) {
  const at::Tensor w = weights(20, 36), big = last(at::randn({2, 36, 30, 40})), before = big.clone();
  const at::Tensor x = big.narrow(2, 3, 20).narrow(3, 5, 22);
  const at::Tensor frame = last(at::full({2, 20, 26, 27}, 7.0F)), kept = frame.clone();
  const at::Tensor y = frame.narrow(2, 4, 18).narrow(3, 2, 22);
  make(w, std::nullopt).run(x, {0, 1}, nullptr, false, y);
  const at::Tensor plain = direct(x, w, std::nullopt, {0, 1});
  EXPECT_LT(relative(y - plain, plain), error());
  EXPECT_TRUE(big.equal(before));
  EXPECT_TRUE(frame.narrow(2, 0, 4).equal(kept.narrow(2, 0, 4)));
  EXPECT_TRUE(frame.narrow(2, 22, 4).equal(kept.narrow(2, 22, 4)));
  EXPECT_TRUE(frame.narrow(3, 0, 2).equal(kept.narrow(3, 0, 2)));
  EXPECT_TRUE(frame.narrow(3, 24, 3).equal(kept.narrow(3, 24, 3)));
}

TEST_P(WinogradKernelsTest, writes_large_images_past_the_cache) {
  struct Case {
    std::int64_t outputs, height,
        width;  // whole lines of 64 bytes: pixels, rows of tiles, parts of pixels, none
  };
  for (const Case& c : {Case{64, 183, 181}, {24, 301, 303}, {24, 302, 304}, {80, 166, 165}, {72, 181, 166}}) {
    SCOPED_TRACE(c.outputs);
    const at::Tensor w = weights(c.outputs, 16), x = last(at::randn({1, 16, c.height, c.width})),
                     y = output_like(x, c.outputs, {1, 1});
    if (kind.type == at::kFloat) {
      ASSERT_GE(y.numel() * 4, 8 << 20);  // from here on it does
    }
    const at::Tensor plain = direct(x, w, std::nullopt, {1, 1}), other = last(at::randn(y.sizes()));
    const Winograd layer = make(w, std::nullopt);
    layer.run(x, {1, 1}, nullptr, false, y);
    EXPECT_LT(relative(y - plain, plain), error());
    layer.run(x, {1, 1}, &other, false, y);
    EXPECT_LT(relative(y - plain - other, plain), error());
    const at::Tensor frame =
        last(at::full({1, c.outputs, c.height + 2, c.width + 3}, 7.0F));  // a part of a feature
    const at::Tensor part = frame.narrow(2, 1, c.height).narrow(3, 2, c.width);
    layer.run(x, {1, 1}, nullptr, false, part);
    EXPECT_LT(relative(part - plain, plain), error());
    EXPECT_EQ((frame == 7).sum().item<std::int64_t>(), frame.numel() - part.numel());
  }
}

TEST_P(WinogradKernelsTest, gives_the_same_bits_on_any_number_of_threads) {
  const int threads = at::get_num_threads();
  for (const std::int64_t channels : {32, 144}) {
    const at::Tensor w = weights(channels, channels), x = last(at::randn({1, channels, 61, 83}));
    std::vector<at::Tensor> results;
    for (const int n : {1, 2, 3}) {
      at::set_num_threads(n);
      results.push_back(output_like(x, channels, {1, 1}));
      make(w, std::nullopt).run(x, {1, 1}, nullptr, false, results.back());
    }
    at::set_num_threads(threads);
    EXPECT_TRUE(results[0].equal(results[1]));
    EXPECT_TRUE(results[0].equal(results[2]));
  }
}

at::Tensor last3d(const at::Tensor& x) { return typed(x).contiguous(at::MemoryFormat::ChannelsLast3d); }

// Against the direct sum in double: all of a volume, and pieces of it whose neighbors are there on some sides.
TEST_P(WinogradKernelsTest, equals_the_direct_sum_on_volumes) {
  at::manual_seed(2);
  struct Case {
    std::int64_t images, inputs, outputs;
    std::vector<std::int64_t> size;
  };
  double largest = 0;
  for (const Case& c : {Case{1, 16, 16, {1, 1, 1}},
                        {1, 16, 32, {2, 3, 5}},
                        {2, 17, 9, {4, 9, 6}},
                        {1, 24, 1, {5, 7, 33}},
                        {1, 64, 64, {3, 13, 21}},
                        {1, 40, 72, {17, 6, 5}},
                        {3, 16, 3, {3, 2, 19}},
                        {1, 130, 20, {4, 5, 9}}}) {
    const at::Tensor w = typed(at::randn({c.outputs, c.inputs, 3, 3, 3}) / std::sqrt(27.0 * c.inputs)),
                     b = typed(at::randn({c.outputs})),
                     x = last3d(at::randn({c.images, c.inputs, c.size[0], c.size[1], c.size[2]}));
    const at::Tensor plain = at::conv3d(x.to(at::kDouble), w.to(at::kDouble), b.to(at::kDouble), 1, 1);
    const Winograd layer = make(w, b);
    const at::Tensor y = last3d(at::full(plain.sizes(), std::numeric_limits<float>::quiet_NaN()));
    layer.run(x, {1, 1}, nullptr, true, y, 1);
    EXPECT_LT(relative(y - plain.clamp_min(0), plain), error(1e-5)) << c.inputs << " to " << c.outputs;
    largest = std::max(largest, relative(y - plain.clamp_min(0), plain));
    for (std::size_t axis = 0; axis < 3; ++axis) {
      // All but the first slice (row, column), which is seen; then all but the last.
      const std::int64_t n = c.size[axis], at = static_cast<std::int64_t>(axis) + 2;
      if (n < 2) continue;
      std::array<std::int64_t, 3> before{1, 1, 1};
      before[axis] = 0;
      const at::Tensor part = last3d(at::full(plain.sizes(), 7.0F)), other = last3d(at::randn(plain.sizes()));
      layer.run(x, {before[1], before[2]}, nullptr, false, part.narrow(at, 1, n - 1), before[0]);
      EXPECT_LT(relative(part.narrow(at, 1, n - 1) - plain.narrow(at, 1, n - 1), plain), error(1e-5)) << axis;
      EXPECT_TRUE(part.narrow(at, 0, 1).eq(7).all().item<bool>());
      const at::Tensor sum = other.narrow(at, 0, n - 1);
      layer.run(x, {1, 1}, &sum, false, part.narrow(at, 0, n - 1), 1);
      EXPECT_LT(relative(part.narrow(at, 0, n - 1) - plain.narrow(at, 0, n - 1) - sum, plain), error(1e-5))
          << axis;
    }
  }
  EXPECT_GT(largest, 1e-8);  // something was computed
}

TEST_P(WinogradKernelsTest, volumes_have_the_same_bits_on_any_number_of_threads) {
  const int threads = at::get_num_threads();
  const at::Tensor w = typed(at::randn({32, 32, 3, 3, 3}) / 30), x = last3d(at::randn({1, 32, 35, 10, 11}));
  std::vector<at::Tensor> results;
  for (const int n : {1, 2, 3, 5}) {  // few tiles a slice: the depth is cut too
    at::set_num_threads(n);
    results.push_back(last3d(at::zeros({1, 32, 35, 10, 11})));
    make(w, std::nullopt).run(x, {1, 1}, nullptr, false, results.back(), 1);
    EXPECT_TRUE(results[0].equal(results.back())) << n;
  }
  at::set_num_threads(threads);
  EXPECT_GT(results[0].std().item<double>(), 0.1);
}

TEST_P(WinogradKernelsTest, passes_nan_on) {
  const at::Tensor w = weights(16, 16), x = last(at::randn({1, 16, 12, 12}));
  x[0][3][9][9].fill_(std::numeric_limits<float>::quiet_NaN());
  const at::Tensor y = output_like(x, 16, {1, 1});
  make(w, std::nullopt).run(x, {1, 1}, nullptr, true, y);
  EXPECT_TRUE(std::isnan(y[0][0][9][9].item<float>()));
}

TEST_P(WinogradKernelsTest, shares_scratch_memory_that_it_counts) {
  const int threads = at::get_num_threads();
  at::set_num_threads(2);
  const auto used = [] { return memory_now(MemoryUse::activations); };
  const std::int64_t before = used();
  {
    const Winograd small = make(weights(16, 16), std::nullopt);
    EXPECT_EQ(used() - before, 2 * Winograd::scratch_bytes(16, 1, kind.instructions));
    const Winograd large = make(weights(16, 512), std::nullopt);
    EXPECT_EQ(used() - before, 2 * Winograd::scratch_bytes(512, 1, kind.instructions));
    const Winograd again = make(weights(16, 512), std::nullopt);
    EXPECT_EQ(used() - before, 2 * Winograd::scratch_bytes(512, 1, kind.instructions));
  }
  EXPECT_EQ(used(), before);
  at::set_num_threads(threads);
}

}  // namespace
}  // namespace tessera
