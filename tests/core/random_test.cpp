// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/core/random.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace tessera {
namespace {

TEST(Random, DependsOnEverySpecifiedCoordinate) {
  std::set<double> seen;
  for (std::uint64_t seed : {0ull, 1ull, 1ull << 40})
    for (auto stream : {RandomStream::noise, RandomStream::mask})
      for (std::uint32_t part : {0u, 1u, 7u})
        for (std::uint32_t iteration : {0u, 1u})
          for (std::int64_t index :
               {std::int64_t{0}, std::int64_t{1}, std::int64_t{1} << 33, std::int64_t{1} << 41})
            seen.insert(Random(seed, stream, part, iteration).uniform(index));
  EXPECT_EQ(seen.size(), 3u * 2 * 3 * 2 * 4);
}

TEST(Random, NormalHasMeanZeroAndVarianceOne) {
  const Random random(3, RandomStream::noise);
  double sum = 0, squares = 0;
  const int n = 200000;
  for (int i = 0; i < n; ++i) {
    const double x = random.normal(i);
    sum += x;
    squares += x * x;
  }
  EXPECT_NEAR(sum / n, 0, 4.0 / std::sqrt(n));
  EXPECT_NEAR(squares / n, 1, 4.0 * std::sqrt(2.0 / n));
}

TEST(Random, PoissonHasItsMeanAndVarianceOnBothMethods) {
  const Random random(5, RandomStream::noise);
  EXPECT_EQ(random.poisson(0, 0.0), 0);
  for (const double mean : {0.1, 3.0, 9.99, 10.0, 40.0, 1e4}) {
    double sum = 0, squares = 0;
    const int n = 100000;
    for (int i = 0; i < n; ++i) {
      const double k = random.poisson(i, mean);
      ASSERT_EQ(k, std::floor(k));
      ASSERT_GE(k, 0);
      sum += k;
      squares += (k - mean) * (k - mean);
    }
    EXPECT_NEAR(sum / n, mean, 4.5 * std::sqrt(mean / n)) << mean;
    EXPECT_NEAR(squares / n / mean, 1, 4.5 * std::sqrt((2 + 1 / mean) / n)) << mean;
  }
}

}  // namespace
}  // namespace tessera
