// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/physics/noise.hpp"

#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <cmath>

#include "physics/reference.hpp"
#include "tessera/core/error.hpp"

namespace tessera {
namespace {

const Box kAll = Box::image2d(200, 100);
constexpr double kSamples = 3 * 200 * 100;

TEST(Noise, GaussianHasTheStatedMomentsAndRepeats) {
  at::Tensor y = at::full({3, 200, 100}, 0.5, at::kDouble), again = y.clone(), other = y.clone();
  add_noise(y, {0.1, 0}, 7, 0, kAll, kAll);
  add_noise(again, {0.1, 0}, 7, 0, kAll, kAll);
  add_noise(other, {0.1, 0}, 7, 1, kAll, kAll);
  EXPECT_TRUE(y.equal(again));
  EXPECT_FALSE(y.equal(other));
  EXPECT_NEAR(y.mean().item<double>(), 0.5, 5 * 0.1 / std::sqrt(kSamples));
  EXPECT_NEAR((y - 0.5).square().mean().item<double>(), 0.01, 5 * 0.01 * std::sqrt(2 / kSamples));
}

TEST(Noise, PoissonHasMeanAndVarianceOfItsGainOnBothSidesOfTheSamplersSwitch) {
  for (const double level : {0.3, 1.0, 4.0}) {  // counts of mean 3, 10, 40
    at::Tensor y = at::full({3, 200, 100}, level, at::kDouble);
    add_noise(y, {0, 0.1}, 7, 0, kAll, kAll);
    const double variance = 0.1 * level;
    EXPECT_NEAR(y.mean().item<double>(), level, 5 * std::sqrt(variance / kSamples));
    EXPECT_NEAR((y - level).square().mean().item<double>(), variance,
                5 * variance * std::sqrt((2 + 0.1 / level) / kSamples));
    EXPECT_LT(((y / 0.1) - (y / 0.1).round()).abs().max().item<double>(), 1e-9);
  }
}

TEST(Noise, BlocksDrawWhatTheWholeDraws) {
  const at::Tensor clean = test::random_tensor({2, 200, 100}, 3) + 0.5;
  for (const NoiseModel model : {NoiseModel{0.1, 0}, NoiseModel{0, 0.02}, NoiseModel{0.1, 0.02}}) {
    at::Tensor whole = clean.clone();
    add_noise(whole, model, 1, 2, kAll, kAll);
    const Box block({0, 31, 17}, {1, 150, 99});
    at::Tensor part = clean.slice(1, 31, 150).slice(2, 17, 99).clone();
    add_noise(part, model, 1, 2, kAll, block);
    EXPECT_TRUE(part.equal(whole.slice(1, 31, 150).slice(2, 17, 99)));
  }
}

TEST(Noise, CountsSurviveRoundingOfTheMean) {
  // Means of exactly 10, where the sampler changes its method, and as another order of sums gives them.
  const at::Tensor exact = at::full({1, 200, 100}, 1.0, at::kDouble);
  at::Tensor above = exact * (1 + 4e-16), below = exact * (1 - 4e-16), at_ten = exact.clone();
  for (at::Tensor* t : {&above, &below, &at_ten}) add_noise(*t, {0, 0.1}, 1, 0, kAll, kAll);
  EXPECT_TRUE(above.equal(at_ten));
  EXPECT_TRUE(below.equal(at_ten));
}

TEST(Noise, RefusesPoissonMeansBelowZero) {
  at::Tensor y = at::full({1, 200, 100}, -0.1, at::kDouble);
  EXPECT_THROW(add_noise(y, {0, 0.1}, 1, 0, kAll, kAll), InputError);
}

}  // namespace
}  // namespace tessera
