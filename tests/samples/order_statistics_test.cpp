// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/samples/order_statistics.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "support/groups.hpp"
#include "tessera/core/random.hpp"

namespace tessera {
namespace {

// Values of many magnitudes and both signs, with ties.
std::vector<float> all_values() {
  const Random random(3, RandomStream::noise);
  std::vector<float> out;
  for (std::int64_t i = 0; i < 997; ++i) {
    const auto v = static_cast<float>(random.normal(i) * std::exp(8 * random.normal(i, 1)));
    out.push_back(v);
    if (i % 3 == 0) out.push_back(v);
  }
  return out;
}

// Uneven shares, the last rank has none.
std::vector<float> share(const std::vector<float>& all, const Communicator& comm) {
  std::vector<float> mine;
  const int holders = std::max(1, comm.size() - 1);
  for (std::size_t i = 0; i < all.size(); ++i)
    if (static_cast<int>(i * i) % holders == comm.rank()) mine.push_back(all[i]);
  return mine;
}

TEST(OrderStatistics, AreThoseOfTheSortedValuesOnAnyRanks) {
  const std::vector<float> all = all_values();
  std::vector<float> sorted = all;
  std::sort(sorted.begin(), sorted.end());
  test::on_groups([&](const Communicator& comm) {
    const std::vector<float> mine = share(all, comm);
    ASSERT_EQ(count_values(mine, comm), static_cast<std::int64_t>(all.size()));
    for (const std::size_t place : {std::size_t{0}, std::size_t{1}, all.size() / 3, all.size() - 1})
      EXPECT_EQ(order_statistic(mine, static_cast<std::int64_t>(place), comm), sorted[place]) << place;
    EXPECT_EQ(median(mine, comm), sorted[sorted.size() / 2]);
    EXPECT_EQ(median({}, comm), 0);
  });
}

TEST(OrderStatistics, SumsHaveTheSameBitsOnAnyRanksAndWithAPowerOfTwo) {
  std::vector<float> all = all_values();
  long double exact = 0;
  for (float& v : all) exact += v = std::abs(v);
  double first = 0;
  test::on_groups([&](const Communicator& comm) {
    std::vector<float> mine = share(all, comm);
    const double sum = ordered_sum(mine, comm);
    if (comm.size() == 1) first = sum;
    if (comm.rank() == 0) {  // the one that was alone
      EXPECT_EQ(sum, first);
    }
    EXPECT_NEAR(sum, static_cast<double>(exact), 1e-14 * sum);
    for (float& v : mine) v *= 256;
    EXPECT_EQ(ordered_sum(mine, comm), 256 * sum);
    EXPECT_EQ(ordered_sum(std::vector<float>(3, 0.0F), comm), 0);
  });
}

}  // namespace
}  // namespace tessera
