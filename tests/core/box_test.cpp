// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/core/box.hpp"

#include <gtest/gtest.h>

namespace tessera {
namespace {

TEST(Box, EmptyHasOneForm) {
  EXPECT_EQ(Box({0, 5, 7}, {1, 5, 9}), Box());
  EXPECT_TRUE(Box({0, 5, 7}, {1, 5, 9}).empty());
  EXPECT_EQ(Box().pixels(), 0);
}

TEST(Box, CornersOutOfOrderAreOurBug) {
#ifdef TESSERA_CHECKED
  EXPECT_THROW(Box({0, 5, 0}, {1, 3, 1}), ContractError);
#else
  GTEST_SKIP() << "contract checks are off in this build";
#endif
}

TEST(Box, TouchingBoxesShareNothing) {
  EXPECT_TRUE(Box::image2d(4, 4).intersect(Box({0, 4, 0}, {1, 8, 4})).empty());
  EXPECT_EQ(Box::image2d(4, 4).intersect(Box({0, 3, -2}, {1, 8, 2})), Box({0, 3, 0}, {1, 4, 2}));
}

TEST(Box, GrowShiftHull) {
  const Box b({0, 2, 3}, {1, 4, 6});
  EXPECT_EQ(b.grow({{0, 1, 2}, {0, 3, 4}}), Box({0, 1, 1}, {1, 7, 10}));
  EXPECT_TRUE(Box().grow({{1, 1, 1}, {1, 1, 1}}).empty());
  EXPECT_EQ(b.shift({0, -2, 1}), Box({0, 0, 4}, {1, 2, 7}));
  EXPECT_EQ(b.hull(Box()), b);
  EXPECT_EQ(b.hull(Box({0, 0, 0}, {1, 1, 1})), Box({0, 0, 0}, {1, 4, 6}));
  EXPECT_EQ(b.pixels(), 6);
  EXPECT_TRUE(b.contains(Box({0, 2, 3}, {1, 3, 4})));
  EXPECT_FALSE(b.contains(Box({0, 1, 3}, {1, 3, 4})));
}

}  // namespace
}  // namespace tessera
