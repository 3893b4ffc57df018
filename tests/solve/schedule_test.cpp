// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/solve/schedule.hpp"

#include <gtest/gtest.h>

namespace tessera {
namespace {

TEST(Schedule, AListHoldsItsLastValue) {
  const Schedule s(std::vector<double>{3, 2, 1});
  EXPECT_EQ(s.at(0), 3);
  EXPECT_EQ(s.at(2), 1);
  EXPECT_EQ(s.at(99), 1);
  EXPECT_FALSE(Schedule().set());
}

TEST(Schedule, DpirHasItsPublishedValues) {
  const std::vector<double> fine = {0.19216, 0.12597, 0.08258, 0.05414, 0.03549, 0.02327, 0.01525, 0.01};
  const std::vector<double> coarse = {0.19216, 0.17504, 0.15945, 0.14524, 0.13230, 0.12052, 0.10978, 0.1};
  for (int k = 0; k < 8; ++k) {
    EXPECT_NEAR(dpir_schedule(0.01).sigma.at(k), fine[static_cast<std::size_t>(k)], 1e-5);
    EXPECT_NEAR(dpir_schedule(0.1).sigma.at(k), coarse[static_cast<std::size_t>(k)], 1e-5);
  }
  EXPECT_NEAR(dpir_schedule(0.01).gamma.at(7), 4.348, 1e-3);
  // The scripts of the paper: sigma = max(0.255 / 255, noise), nothing coarser.
  EXPECT_NEAR(dpir_schedule(0.003).gamma.at(7), 1 / 0.23, 1e-9);
  EXPECT_NEAR(dpir_schedule(0.0005).gamma.at(7), 0.25 / 0.23, 1e-9) << "noise below 0.001 counts as 0.001";
}

}  // namespace
}  // namespace tessera
