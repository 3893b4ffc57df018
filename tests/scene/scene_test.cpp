// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/scene/scene.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <vector>

#include "tessera/core/error.hpp"

namespace tessera {
namespace {

struct Picture {
  Box box;
  std::int64_t channels;
  std::vector<float> values;
  float at(std::int64_t c, std::int64_t i, std::int64_t k) const {
    return values[(c * box.extent(1) + i - box.lo()[1]) * box.extent(2) + k - box.lo()[2]];
  }
};

Picture picture(std::uint64_t seed, std::int64_t row, std::int64_t column, std::int64_t rows,
                std::int64_t columns, std::int64_t channels = 3) {
  Picture p{Box({0, row, column}, {1, row + rows, column + columns}), channels, {}};
  p.values.assign(static_cast<std::size_t>(channels * rows * columns), -1);
  Scene(seed).render(p.box, channels, p.values.data(), rows * columns, columns);
  return p;
}

// FNV-1a over the bits.
std::uint64_t digest(const Picture& p) {
  std::uint64_t h = 0xcbf29ce484222325;
  for (const float v : p.values)
    for (int byte = 0; byte < 4; ++byte)
      h = (h ^ ((std::bit_cast<std::uint32_t>(v) >> (8 * byte)) & 255U)) * 0x100000001b3;
  return h;
}

TEST(Scene, AnyPartOfItHasTheSameBits) {
  const Picture whole = picture(3, 1000, 70000, 200, 300);
  std::int64_t compared = 0;
  for (const std::int64_t rows : {1, 7, 64, 65, 131})
    for (const std::int64_t columns : {1, 5, 63, 64, 129})
      for (const std::int64_t row : {1000, 1024, 1063})
        for (const std::int64_t column : {70000, 70015, 70080}) {
          const Picture part = picture(3, row, column, rows, columns);
          for (std::int64_t c = 0; c < 3; ++c)
            for (std::int64_t i = row; i < row + rows; ++i)
              for (std::int64_t k = column; k < column + columns; ++k, ++compared)
                ASSERT_EQ(part.at(c, i, k), whole.at(c, i, k)) << c << ' ' << i << ' ' << k;
        }
  EXPECT_GT(compared, 100000);
}

TEST(Scene, StaysInRangeFarOutToo) {
  for (const std::int64_t row : {std::int64_t{0}, std::int64_t{65000}, (std::int64_t{1} << 31) - 70}) {
    const Picture p = picture(1, row, row, 66, 66);
    for (const float v : p.values) ASSERT_TRUE(v >= 0 && v <= 1) << v << " near " << row;
  }
  EXPECT_THROW(picture(1, (std::int64_t{1} << 31) - 10, 0, 20, 20), InputError);
  EXPECT_THROW(picture(1, -1, 0, 20, 20), InputError);
}

TEST(Scene, ChannelsComeFromRedGreenBlue) {
  const Picture rgb = picture(5, 300, 300, 80, 80), gray = picture(5, 300, 300, 80, 80, 1);
  const Picture five = picture(5, 300, 300, 80, 80, 5);
  for (std::int64_t i = 300; i < 380; ++i)
    for (std::int64_t k = 300; k < 380; ++k) {
      const float r = rgb.at(0, i, k), g = rgb.at(1, i, k), b = rgb.at(2, i, k);
      ASSERT_NEAR(gray.at(0, i, k), 0.299 * r + 0.587 * g + 0.114 * b, 1e-6);
      ASSERT_NEAR(five.at(0, i, k), r, 1e-6);
      ASSERT_NEAR(five.at(1, i, k), 0.5 * (r + g), 1e-6);
      ASSERT_NEAR(five.at(4, i, k), b, 1e-6);
    }
}

TEST(Scene, HasDetailAtEveryScale) {
  const Picture p = picture(1, 0, 0, 1024, 1024, 1);
  std::vector<double> level(p.values.begin(), p.values.end());
  for (std::int64_t n = 1024; n > 4; n /= 2) {  // differences of neighbors in the picture shrunk by 2, 4, ...
    double sum = 0;
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t k = 0; k + 1 < n; ++k) sum += std::pow(level[i * n + k + 1] - level[i * n + k], 2);
    EXPECT_GT(std::sqrt(sum / static_cast<double>(n * n)), 0.03) << "at " << 1024 / n << " pixels";
    std::vector<double> half(n * n / 4);
    for (std::int64_t i = 0; i < n / 2; ++i)
      for (std::int64_t k = 0; k < n / 2; ++k)
        half[i * (n / 2) + k] = (level[2 * i * n + 2 * k] + level[2 * i * n + 2 * k + 1] +
                                 level[(2 * i + 1) * n + 2 * k] + level[(2 * i + 1) * n + 2 * k + 1]) /
                                4;
    level = half;
  }
}

TEST(Scene, SeedsGiveOtherPictures) {
  const Picture a = picture(1, 0, 0, 256, 256), b = picture(2, 0, 0, 256, 256);
  std::int64_t equal = 0;
  for (std::size_t i = 0; i < a.values.size(); ++i) equal += a.values[i] == b.values[i];
  EXPECT_LT(equal, static_cast<std::int64_t>(a.values.size() / 20));
}

// The definition of the scene: runs of other years and machines are compared on it.
TEST(Scene, HasTheBitsThatItAlwaysHad) {
  EXPECT_EQ(digest(picture(1, 0, 0, 512, 512)), 17037924788054665962u);
  EXPECT_EQ(digest(picture(1, 12345, 54321, 300, 200)), 651985445655347264u);
  EXPECT_EQ(digest(picture(0, 1000000, 2000000, 100, 200, 1)), 9005437862250002002u);
}

}  // namespace
}  // namespace tessera
