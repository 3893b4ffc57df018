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

class PatchesTest : public testing::TestWithParam<Instructions> {
 protected:
  void SetUp() override {
    if (static_cast<int>(GetParam()) > static_cast<int>(Winograd::available()))
      GTEST_SKIP() << "this CPU lacks the instructions";
  }
};
INSTANTIATE_TEST_SUITE_P(On, PatchesTest, testing::Values(Instructions::avx2, Instructions::avx512),
                         [](const auto& i) { return i.param == Instructions::avx2 ? "avx2" : "avx512"; });

at::Tensor last(const at::Tensor& x) { return x.contiguous(at::MemoryFormat::ChannelsLast); }

struct Case {
  std::int64_t images, inputs, outputs, height, width;  // of the coarser grid
};

at::Tensor weights(const Case& c, bool up) {
  const double scale = std::sqrt(static_cast<double>(up ? c.inputs : 4 * c.inputs));
  return (up ? at::randn({c.inputs, c.outputs, 2, 2}) : at::randn({c.outputs, c.inputs, 2, 2})) / scale;
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
                        {1, 64, 64, 130, 130}})
    for (const bool up : {false, true}) {
      if (!Patches::suits(at::kFloat, c.outputs, up)) continue;
      SCOPED_TRACE(testing::Message() << c.images << " of " << c.inputs << " -> " << c.outputs << ", "
                                      << c.height << " x " << c.width << (up ? " up" : " down"));
      const at::Tensor w = weights(c, up), b = at::randn({c.outputs}), x = input(c, up);
      const at::Tensor y = result_of(c, up), z = result_of(c, up);
      Patches(w, std::nullopt, up, GetParam()).run(x, false, y);
      const at::Tensor plain = direct(x, w, std::nullopt, up), biased = direct(x, w, b, up).clamp_min(0);
      EXPECT_LT((y - plain).abs().max().item<double>(), 2e-6 * plain.abs().max().item<double>());
      Patches(w, b, up, GetParam()).run(x, true, z);
      EXPECT_LT((z - biased).abs().max().item<double>(), 2e-6 * plain.abs().max().item<double>());
    }
}

TEST_P(PatchesTest, write_large_results_past_the_cache) {
  const Case c{1, 48, 24, 160, 150};
  const at::Tensor w = weights(c, true), x = input(c, true), y = result_of(c, true);
  ASSERT_TRUE(comes_from_memory(y));
  Patches(w, std::nullopt, true, GetParam()).run(x, false, y);
  const at::Tensor plain = direct(x, w, std::nullopt, true);
  EXPECT_LT((y - plain).abs().max().item<double>(), 2e-6 * plain.abs().max().item<double>());
}

// So a result is the same on any number of ranks: a pixel's bits do not depend on where it lies.
TEST_P(PatchesTest, give_the_same_bits_anywhere_and_on_any_number_of_threads) {
  const int threads = at::get_num_threads();
  for (const bool up : {false, true}) {
    const Case c{1, 24, 48, 9, 37};
    const at::Tensor w = weights(c, up), x = input(c, up), y = result_of(c, up), z = result_of(c, up);
    const Patches layer(w, std::nullopt, up, GetParam());
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
  Patches(weights(c, false), std::nullopt, false, GetParam()).run(x, true, y);
  EXPECT_TRUE(y[0].select(1, 1).select(1, 1).isnan().all().item<bool>());
  EXPECT_EQ(y.isnan().sum().item<std::int64_t>(), 16);
}

}  // namespace
}  // namespace tessera
