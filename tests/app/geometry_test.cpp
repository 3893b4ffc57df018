// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/app/geometry.hpp"

#include <gtest/gtest.h>

#include "tessera/app/job_denoiser.hpp"

namespace tessera {
namespace {

// Without a GPU the memory of a pretended one is the host's: what is tested is among whom it is shared.
TEST(Geometry, AGpusMemoryIsSharedByTheRanksOnItAndNotByThoseOfTheHost) {
  Geometry g;
  g.device = {0};
  const auto alone = static_cast<double>(execution_options(g, 1).memory_bytes);
  ASSERT_GT(alone, 0);
  EXPECT_GT(static_cast<double>(execution_options(g, 8).memory_bytes), 0.7 * alone);
  g.sharers = 4;
  EXPECT_LT(static_cast<double>(execution_options(g, 1).memory_bytes), 0.35 * alone);
  g.device = {};
  EXPECT_LT(static_cast<double>(execution_options(g, 8).memory_bytes), 0.2 * alone);
}

}  // namespace
}  // namespace tessera
