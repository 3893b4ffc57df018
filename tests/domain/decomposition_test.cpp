// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/domain/decomposition.hpp"

#include <gtest/gtest.h>

#include <numeric>

namespace tessera {
namespace {

double area(const Box& block) { return static_cast<double>(block.pixels()); }

struct Case {
  std::int64_t height, width, alignment;
  int ranks;
};

TEST(Decomposition, BlocksPartitionTheImageOnAlignedEdgesForThousandsOfRanks) {
  int nonempty = 0;
  for (const Case c :
       {Case{512, 512, 8, 1}, Case{481, 321, 8, 2}, Case{203, 97, 8, 7}, Case{1411, 1411, 1, 4},
        Case{5, 5, 8, 4}, Case{16, 16, 8, 64}, Case{65536, 65536, 8, 4096}, Case{7, 3000, 1, 1024},
        Case{1, 1, 1, 5}, Case{20000, 19999, 64, 1000}}) {
    const Box image = Box::image2d(c.height, c.width);
    const Decomposition d = Decomposition::choose(image, {1, c.alignment, c.alignment}, c.ranks, area);
    ASSERT_EQ(d.ranks(), c.ranks);
    std::int64_t pixels = 0, padded = 0;
    const Layout layout = d.layout();
    for (int r = 0; r < c.ranks; ++r) {
      const Box block = d.block(r), whole = d.padded_block(r);
      pixels += block.pixels();
      padded += whole.pixels();
      nonempty += !block.empty();
      ASSERT_EQ(block.empty(), whole.empty()) << "a block of padding alone, rank " << r;
      for (std::size_t axis : {1, 2}) {
        ASSERT_EQ(whole.lo()[axis] % c.alignment, 0);
        ASSERT_EQ(whole.hi()[axis] % c.alignment, 0);
      }
      if (!block.empty()) {
        ASSERT_EQ(layout.overlapping(block), std::vector<int>{r});
      }
    }
    EXPECT_EQ(pixels, image.pixels());
    EXPECT_EQ(padded, d.padded().pixels());
    EXPECT_LT(d.padded().extent(1) - c.height, c.alignment);
  }
  EXPECT_GT(nonempty, 5000);
}

TEST(Decomposition, PadsOnlyAtTheEndAndOnlyTheAxesThatAreAligned) {
  const Decomposition d(Box::image2d(203, 97), {1, 8, 8}, {1, 2, 1});
  EXPECT_EQ(d.padded(), Box({0, 0, 0}, {1, 208, 104}));
  EXPECT_EQ(d.padded_block(1), Box({0, 104, 0}, {1, 208, 104}));
  EXPECT_EQ(d.block(1), Box({0, 104, 0}, {1, 203, 97}));
}

TEST(Decomposition, TheGridMakesTheSlowestRankCheapest) {
  // Area alone: equal blocks; of those the shortest cuts.
  EXPECT_EQ(Decomposition::choose(Box::image2d(1024, 1024), {1, 8, 8}, 4, area).grid(), (Grid3{1, 2, 2}));
  EXPECT_EQ(Decomposition::choose(Box::image2d(100, 4000), {1, 1, 1}, 4, area).grid(), (Grid3{1, 1, 4}));
  // A cost of its own decides: rows are cheap here.
  const auto tall_is_dear = [](const Box& b) { return static_cast<double>(b.extent(1)); };
  EXPECT_EQ(Decomposition::choose(Box::image2d(64, 64), {1, 1, 1}, 4, tall_is_dear).grid(), (Grid3{1, 4, 1}));
}

TEST(Decomposition, VolumesAreCutAlongDepthToo) {
  const Box volume({0, 0, 0}, {64, 8, 8});
  EXPECT_EQ(Decomposition::choose(volume, {1, 1, 1}, 4, area).grid(), (Grid3{4, 1, 1}));
  EXPECT_EQ(grids(4, Box::image2d(9, 9)).size(), 3u);
  EXPECT_EQ(grids(4, volume).size(), 6u);
}

}  // namespace
}  // namespace tessera
