// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/samples/local_noise.hpp"

#include <ATen/ops/ones_like.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>

#include "support/groups.hpp"
#include "tessera/core/error.hpp"
#include "tessera/core/random.hpp"
#include "tessera/domain/tensor.hpp"
#include "tessera/samples/noise_estimate.hpp"

namespace tessera {
namespace {

using Value = std::function<double(std::int64_t row, std::int64_t column)>;

struct Field {
  ProductSpace layout;
  Measurement y, all;
};

double noise(std::int64_t row, std::int64_t column) {
  static const Random random(5, RandomStream::noise);
  return random.normal(row * 1000 + column);
}

double drawing(std::int64_t row, std::int64_t column) {
  return 0.5 + 0.2 * std::sin(0.05 * static_cast<double>(row)) * std::cos(0.04 * static_cast<double>(column));
}

Field field(const Value& value, const Communicator& comm) {
  const Box image = Box::image2d(203, 181);
  const Decomposition blocks =
      Decomposition::choose(image, {1, 4, 4}, comm.size(), [](const Box& b) { return b.pixels(); });
  Field out{
      .layout = ProductSpace({{"identity", ImageSpace(image, 1), blocks.layout()}}), .y = {}, .all = {}};
  const Box block = out.layout.block(0, comm.rank());
  at::Tensor y = empty_block(1, block, at::kFloat);
  for (std::int64_t i = 0; i < block.extent(1); ++i)
    for (std::int64_t j = 0; j < block.extent(2); ++j)
      y.data_ptr<float>()[i * block.extent(2) + j] =
          static_cast<float>(value(block.lo()[1] + i, block.lo()[2] + j));
  out.y = {y};
  out.all = {at::ones_like(y)};
  return out;
}

TEST(LocalNoise, SaysWhereItIsStronger) {
  std::optional<StrongerPlaces> first;
  test::on_groups([&](const Communicator& comm) {
    const Field halves =
        field([](auto r, auto c) { return drawing(r, c) + (c < 96 ? 0.02 : 0.08) * noise(r, c); }, comm);
    const auto found = stronger_places(halves.y, halves.all, 0.02, halves.layout, comm);
    ASSERT_TRUE(found);
    EXPECT_GT(found->share, 0.3);
    EXPECT_GT(found->white, 0.7);
    EXPECT_NEAR(found->level, 0.08, 0.005);
    EXPECT_EQ(found->columns[0], 96);
    if (!first) first = found;
    EXPECT_EQ(found->level, first->level);
    EXPECT_EQ(found->rows, first->rows);

    // Texture is no noise: it has more of the coarser details.
    const Field texture = field(
        [](auto r, auto c) {
          return drawing(r, c) + 0.02 * noise(r, c) + (c < 96 ? 0 : 0.3 * noise(r / 3, c / 3));
        },
        comm);
    const auto none = stronger_places(texture.y, texture.all, 0.02, texture.layout, comm);
    EXPECT_TRUE(!none || none->white < 0.3);
  });
}

TEST(LocalNoise, TellsMosaicsFromPictures) {
  test::on_groups([&](const Communicator& comm) {
    const Field mosaic = field(
        [](auto r, auto c) { return drawing(r, c) * (r % 2 + c % 2 == 1 ? 1 : 0.4) + 0.01 * noise(r, c); },
        comm);
    const Alternation of_mosaic = alternation(mosaic.y, mosaic.all, mosaic.layout, comm);
    EXPECT_GT(of_mosaic.neighbors, 0.1);
    EXPECT_NEAR(of_mosaic.every_second, 0.01, 0.003);
    const Field picture = field([](auto r, auto c) { return drawing(r, c) + 0.01 * noise(r, c); }, comm);
    const Alternation of_picture = alternation(picture.y, picture.all, picture.layout, comm);
    EXPECT_NEAR(of_picture.every_second, of_picture.neighbors, 0.002);
  });
}

TEST(LocalNoise, TellsTheSenseOfWeights) {
  test::on_groups([&](const Communicator& comm) {
    const Value sigma = [](auto, auto c) { return 0.01 * (1 + static_cast<double>(c) / 40); };
    const Field y = field([&](auto r, auto c) { return drawing(r, c) + sigma(r, c) * noise(r, c); }, comm);
    for (const double power : {-2.0, 1.0, 2.0, -1.0}) {
      const Field weights = field([&](auto r, auto c) { return std::pow(sigma(r, c), power); }, comm);
      const auto sense = weight_sense(y.y, y.all, weights.y, y.layout, comm);
      ASSERT_TRUE(sense);
      EXPECT_NEAR(sense->slope, 2 / power, 0.3);
      EXPECT_NEAR(sense->texture, 1, 0.15);
      EXPECT_GT(sense->range, 2);
    }
  });
}

TEST(LocalNoise, OfPicturesEnlargedByAnyFactorIsNotEstimated) {
  test::on_groups([&](const Communicator& comm) {
    for (const double factor : {1.1, 1.5, 2.5}) {
      const auto of = [&](std::int64_t k) {
        return static_cast<std::int64_t>(static_cast<double>(k) / factor);
      };
      const Field y =
          field([&](auto r, auto c) { return drawing(of(r), of(c)) + 0.02 * noise(of(r), of(c)); }, comm);
      try {
        estimate_noise(y.y, y.all, y.layout, comm);
        ADD_FAILURE() << "nothing was said of a factor of " << factor;
      } catch (const InputError& error) {
        EXPECT_NE(std::string(error.what()).find("nearest pixels"), std::string::npos) << error.what();
      }
    }
  });
}

}  // namespace
}  // namespace tessera
