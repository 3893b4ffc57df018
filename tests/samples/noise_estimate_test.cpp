// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/samples/noise_estimate.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/ones_like.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <vector>

#include "support/groups.hpp"
#include "tessera/core/error.hpp"
#include "tessera/core/random.hpp"
#include "tessera/domain/tensor.hpp"
#include "tessera/physics/noise.hpp"

namespace tessera {
namespace {

// One part over the image, blocks of rows and columns, each channel with its own noise.
struct Case {
  Box image = Box::image2d(203, 181);
  std::int64_t channels = 1;
  std::function<double(std::int64_t row, std::int64_t column)> clean = [](auto, auto) { return 0.5; };
  std::vector<NoiseModel> noise = {{.gaussian = 0.02}};  // one for all channels, or one each
  std::function<bool(std::int64_t index)> counts = [](auto) { return true; };
  double most = 10;  // where the detector clips
};

NoiseEstimate estimate(const Case& c, const Communicator& comm, double step = 0) {
  const Decomposition blocks =
      Decomposition::choose(c.image, {1, 4, 4}, comm.size(), [](const Box& b) { return b.pixels(); });
  const ProductSpace layout({{"identity", ImageSpace(c.image, c.channels), blocks.layout()}});
  const Box block = layout.block(0, comm.rank());
  at::Tensor y = empty_block(c.channels, block, at::kDouble),
             marks = empty_block(c.channels, block, at::kFloat);
  for (std::int64_t k = 0; k < c.channels; ++k) {
    for (std::int64_t r = block.lo()[1]; r < block.hi()[1]; ++r)
      for (std::int64_t w = block.lo()[2]; w < block.hi()[2]; ++w) {
        const std::int64_t i = r - block.lo()[1], j = w - block.lo()[2];
        y[k].data_ptr<double>()[i * block.extent(2) + j] = c.clean(r, w);
        marks[k].data_ptr<float>()[i * block.extent(2) + j] =
            c.counts((k * c.image.extent(1) + r) * c.image.extent(2) + w);
      }
    const NoiseModel& noise = c.noise[std::min<std::size_t>(static_cast<std::size_t>(k), c.noise.size() - 1)];
    add_noise(y.narrow(0, k, 1), noise, 5, static_cast<std::uint32_t>(k), c.image, block);
  }
  return estimate_noise({y.clamp_max(c.most).to(at::kFloat)}, {marks}, layout, comm, step);
}

double waves(std::int64_t r, std::int64_t w) {
  return 0.4 + 0.3 * std::sin(0.21 * static_cast<double>(r)) * std::cos(0.17 * static_cast<double>(w)) +
         (r > 90 ? 0.2 : 0);
}

TEST(NoiseEstimate, HasTheSameBitsOnAnyRanks) {
  Case c{.channels = 2, .clean = waves, .noise = {{.gaussian = 0.01}, {.gaussian = 0.03}}};
  Case poisson{.clean = waves, .noise = {{.gaussian = 0.005, .poisson = 0.002}}};
  NoiseEstimate first, first_poisson;
  test::on_groups([&](const Communicator& comm) {
    const NoiseEstimate e = estimate(c, comm), p = estimate(poisson, comm);
    if (comm.size() == 1) first = e, first_poisson = p;
    if (comm.rank() == 0) {  // the one that was alone
      EXPECT_EQ(e.sigma, first.sigma);
      EXPECT_EQ(e.each, first.each);
      EXPECT_EQ(p.gain, first_poisson.gain);
      EXPECT_EQ(p.sigma, first_poisson.sigma);
    }
    ASSERT_EQ(e.each.size(), 1U);
    EXPECT_NEAR(e.each[0][0], 0.01, 0.0005);
    EXPECT_NEAR(e.each[0][1], 0.03, 0.0015);
    EXPECT_GT(p.gain, 0);
  });
}

// More samples than are looked at at once, where one rank has them all; a third of them are clipped, in areas.
TEST(NoiseEstimate, IsTheSameOfLargePicturesInParts) {
  const Case c{
      .image = Box::image2d(2205, 1991), .clean = waves, .noise = {{.gaussian = 0.01}}, .most = 0.55};
  NoiseEstimate first;
  test::on_groups({1, 2, 3}, [&](const Communicator& comm) {
    const NoiseEstimate e = estimate(c, comm);
    if (comm.size() == 1) first = e;
    if (comm.rank() == 0) {
      EXPECT_EQ(e.sigma, first.sigma);
    }
    EXPECT_NEAR(e.sigma, 0.01, 0.0003);
  });
}

TEST(NoiseEstimate, StateItsErrorRightly) {
  if (test::other_rank()) return;
  const Communicator self;
  for (const double sigma : {0.002, 0.02, 0.1}) {
    const NoiseEstimate e = estimate({.clean = waves, .noise = {{.gaussian = sigma}}}, self);
    EXPECT_EQ(e.gain, 0);
    EXPECT_TRUE(e.each.empty());
    EXPECT_NEAR(e.sigma, sigma, 4 * e.sigma_error);
    EXPECT_LT(e.sigma_error, 0.02 * sigma);
  }
}

TEST(NoiseEstimate, FindsFlatRegionsBesideTexture) {
  if (test::other_rank()) return;
  // Strong texture in all but the upper fifth.
  const Random random(1, RandomStream::scene);
  const auto texture = [&](std::int64_t r, std::int64_t w) {
    return 0.5 + (r < 80 ? 0 : 0.2 * random.normal(r * 1000 + w));
  };
  const NoiseEstimate e = estimate({.image = Box::image2d(400, 181), .clean = texture}, Communicator());
  EXPECT_NEAR(e.sigma, 0.02, 0.003) << "the lowest 20th of all tiles is the lowest quarter of the flat ones";
}

TEST(NoiseEstimate, SeparatesCountsFromReadNoise) {
  if (test::other_rank()) return;
  // Levels from 0.05 to 0.95, so that the line is long.
  const auto ramp = [](std::int64_t r, std::int64_t) { return 0.05 + 0.9 * static_cast<double>(r) / 400; };
  const NoiseEstimate e = estimate(
      {.image = Box::image2d(400, 300), .clean = ramp, .noise = {{.gaussian = 0.02, .poisson = 0.002}}},
      Communicator());
  EXPECT_NEAR(e.gain, 0.002, 0.0003);
  EXPECT_NEAR(e.sigma, 0.02, 0.004);
  EXPECT_NEAR(e.gain, 0.002, 5 * e.gain_error);
}

// What compression leaves: noise without its finest details. Rows and columns of a mean over 3 x 3 samples.
TEST(NoiseEstimate, LooksAtTwiceTheSizeWhereTheFinestDetailsWereRoundedAway) {
  const Random random(4, RandomStream::scene);
  const auto soft = [&](std::int64_t r, std::int64_t w) {
    double sum = 0;
    for (int i = 0; i < 3; ++i)
      for (int j = 0; j < 3; ++j) sum += random.normal((r + i) * 1000 + w + j);
    return 0.5 + 0.03 * sum / 9;
  };
  const Case c{.clean = soft, .noise = {{.gaussian = 1e-4}}};
  NoiseEstimate first;
  test::on_groups([&](const Communicator& comm) {
    const NoiseEstimate fine = estimate(c, comm), coarse = estimate(c, comm, 0.05);
    EXPECT_FALSE(fine.coarse);
    EXPECT_LT(fine.sigma, 0.004);
    EXPECT_TRUE(coarse.coarse);
    EXPECT_GT(coarse.sigma, 2 * fine.sigma);
    EXPECT_LT(coarse.sigma, 0.03);
    EXPECT_FALSE(estimate(c, comm, 1e-3).coarse) << "noise that survives its rounding is believed";
    if (comm.size() == 1) first = coarse;
    if (comm.rank() == 0) {
      EXPECT_EQ(coarse.sigma, first.sigma);
    }
  });
}

// Without rounding both sizes say the same.
TEST(NoiseEstimate, FindsWhiteNoiseAtTwiceTheSizeToo) {
  if (test::other_rank()) return;
  for (const double sigma : {0.002, 0.02})
    EXPECT_NEAR(estimate({.image = Box::image2d(400, 300), .clean = waves, .noise = {{.gaussian = sigma}}},
                         Communicator(), 10 * sigma)
                    .sigma,
                sigma, 0.1 * sigma);
}

TEST(NoiseEstimate, LeavesOutWhatIsClippedOrDoesNotCount) {
  if (test::other_rank()) return;
  const auto bright = [](std::int64_t r, std::int64_t) { return r < 100 ? 0.5 : 1.0; };
  EXPECT_NEAR(estimate({.clean = bright, .most = 1.0}, Communicator()).sigma, 0.02, 0.001)
      << "half is clipped";
  for (const double keep : {0.9, 0.5, 0.2, 0.05}) {
    const Random random(9, RandomStream::mask);
    Case c{.image = Box::image2d(400, 400),
           .counts = [&](std::int64_t i) { return random.uniform(i) < keep; }};
    EXPECT_NEAR(estimate(c, Communicator()).sigma, 0.02, 0.002) << keep;
  }
  Case lone{.counts = [](std::int64_t i) { return i % 7 == 0; }};
  EXPECT_THROW(estimate(lone, Communicator()), InputError);
  EXPECT_THROW(estimate({.noise = {{}}}, Communicator()), InputError) << "no noise at all";
}

}  // namespace
}  // namespace tessera
