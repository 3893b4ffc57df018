// SPDX-License-Identifier: BSD-3-Clause
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <vector>

#include "physics/reference.hpp"
#include "tessera/core/error.hpp"

namespace tessera {
namespace {

LocalOperator::Placement placed_at(const Box& image, const Box& block, std::int64_t channels) {
  return {ImageSpace(image, channels), block, {block}, at::TensorOptions(at::kDouble)};
}

TEST(Mask, MultipliesEveryChannel) {
  const Box image = Box::image2d(4, 6), block({0, 1, 2}, {1, 4, 5});
  at::Tensor m = at::zeros({1, 4, 6}, at::kDouble);
  m[0][2][3] = 1.0;
  const auto op = make_mask(m, image);
  const LocalOperator* self = op.get();
  const auto placed = op->place({&self, 1}, placed_at(image, block, 2));
  const at::Tensor x = test::random_tensor({2, 3, 3}, 1);
  at::Tensor y = at::empty({2, 3, 3}, at::kDouble), back = at::zeros({2, 3, 3}, at::kDouble);
  placed->apply(x, {&y, 1});
  for (std::int64_t c = 0; c < 2; ++c) EXPECT_EQ(y[c][1][1].item<double>(), x[c][1][1].item<double>());
  EXPECT_EQ(y.ne(0).sum().item<std::int64_t>(), 2);
  placed->adjoint({&x, 1}, back);
  EXPECT_EQ(test::difference(back, y), 0);
  EXPECT_EQ(placed->diagonal({}).sum().item<double>(), 1);
}

TEST(Mask, DrawnMaskDoesNotDependOnTheBlocks) {
  const Box image = Box::image2d(50, 40);
  const auto op = make_random_mask(0.3, 5);
  const LocalOperator* self = op.get();
  const at::Tensor whole = op->place({&self, 1}, placed_at(image, image, 1))->diagonal({});
  const Box block({0, 13, 7}, {1, 41, 40});
  const at::Tensor part = op->place({&self, 1}, placed_at(image, block, 1))->diagonal({});
  EXPECT_TRUE(part.equal(whole.slice(1, 13, 41).slice(2, 7, 40)));
  // 2000 draws of probability 0.3: within 5 standard deviations (0.0102 each) of the mean.
  EXPECT_NEAR(whole.mean().item<double>(), 0.3, 0.052);
  EXPECT_FALSE(
      make_random_mask(0.3, 6)->place({&self, 1}, placed_at(image, image, 1))->diagonal({}).equal(whole));
}

TEST(Mask, RefusesSharesAndValuesOutsideTheirRange) {
  EXPECT_THROW(make_random_mask(0, 1), InputError);
  EXPECT_THROW(make_random_mask(1.5, 1), InputError);
  EXPECT_THROW(make_mask(at::ones({1, 2, 2}, at::kDouble) * 2, Box::image2d(2, 2)), InputError);
}

TEST(Identity, CopiesAndAdds) {
  const Box image = Box::image2d(5, 7);
  const auto op = make_identity();
  const LocalOperator* self = op.get();
  const auto placed = op->place({&self, 1}, placed_at(image, image, 3));
  const at::Tensor x = test::random_tensor({3, 5, 7}, 1);
  at::Tensor y = at::empty({3, 5, 7}, at::kDouble);
  placed->apply(x, {&y, 1});
  EXPECT_TRUE(y.equal(x));
  placed->adjoint({&x, 1}, y);
  EXPECT_TRUE(y.equal(x * 2));
}

}  // namespace
}  // namespace tessera
