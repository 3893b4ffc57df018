// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/denoise/windows.hpp"

#include <gtest/gtest.h>

#include <vector>

#include <map>

namespace tessera {
namespace {

TEST(Windows, cores_partition_the_block_and_boxes_hold_their_halo) {
  const Box padded = Box::image2d(96, 80);
  const Box block({0, 16, 8}, {1, 88, 80});
  for (const std::int64_t patch : {8, 24, 40, 200})
    for (const std::int64_t halo : {0, 8, 32}) {
      const auto windows = cut_windows(block, padded, {1, 8, 8}, patch, {0, halo, halo});
      std::int64_t pixels = 0;
      Box hull;
      for (const Window& w : windows) {
        pixels += w.core.pixels();
        hull = hull.hull(w.box);
        EXPECT_TRUE(block.contains(w.core));
        EXPECT_LE(w.core.pixels(), patch * patch);
        for (std::size_t axis = 1; axis < 3; ++axis) {
          EXPECT_EQ(w.core.lo()[axis] % 8, 0);
          EXPECT_EQ(w.box.lo()[axis], std::max<std::int64_t>(0, w.core.lo()[axis] - halo));
          EXPECT_EQ(w.box.hi()[axis], std::min(padded.hi()[axis], w.core.hi()[axis] + halo));
        }
      }
      for (std::size_t i = 0; i < windows.size(); ++i)
        for (std::size_t j = 0; j < i; ++j) EXPECT_TRUE(windows[i].core.intersect(windows[j].core).empty());
      EXPECT_EQ(pixels, block.pixels());
      EXPECT_EQ(hull, window_region(block, padded, {0, halo, halo}));
    }
  EXPECT_TRUE(cut_windows(Box{}, padded, {1, 8, 8}, 8, {0, 8, 8}).empty());
}

TEST(Windows, have_the_shape_that_computes_least_twice) {
  const auto computed = [](const Box& block, const Box& padded, std::int64_t patch) {
    std::int64_t pixels = 0;
    for (const Window& w : cut_windows(block, padded, {1, 8, 8}, patch, {0, 48, 48}))
      pixels += w.box.pixels();
    return pixels;
  };
  // Two halves of an image: one cut, whose halo is all that is computed twice.
  const Box image = Box::image2d(1024, 1024);
  EXPECT_EQ(cut_windows(image, image, {1, 8, 8}, 728, {0, 48, 48}).size(), 2U);
  EXPECT_EQ(computed(image, image, 728), 1024 * (1024 + 2 * 48));
  EXPECT_EQ(computed(image, image, 512), (1024 + 2 * 48) * (1024 + 2 * 48));
  // Inside an image squares are best; a band that ends at the border on two sides is cut across.
  const Box inside({0, 512, 512}, {1, 1024, 1024}), large = Box::image2d(4096, 4096);
  EXPECT_EQ(computed(inside, large, 256), 4 * (256 + 96) * (256 + 96));
  const Box band = Box::image2d(2048, 128);
  EXPECT_EQ(computed(band, band, 256), 128 * (2048 + 3 * 2 * 48));
}

TEST(Windows, patches_cut_into_ever_more_windows) {
  EXPECT_EQ(patches_for(64 * 64, 8), (std::vector<std::int64_t>{64, 48, 32, 24, 16, 8}));
  EXPECT_EQ(patches_for(1024 * 1024, 8)[1], 728);  // two windows
  EXPECT_EQ(patches_for(1, 8), std::vector<std::int64_t>{8});
}

TEST(Windows, of_a_volume_are_cut_along_three_axes) {
  const Box padded({0, 0, 0}, {40, 48, 32}), block({8, 0, 16}, {40, 40, 32});
  for (const Index3& alignment : {Index3{4, 4, 4}, Index3{1, 8, 8}})
    for (const std::int64_t patch : {8, 16, 24, 64})
      for (const Index3& halo : {Index3{0, 0, 0}, Index3{4, 8, 8}, Index3{16, 0, 8}}) {
        const auto windows = cut_windows(block, padded, alignment, patch, halo);
        std::int64_t pixels = 0;
        Box hull;
        for (const Window& w : windows) {
          pixels += w.core.pixels();
          hull = hull.hull(w.box);
          EXPECT_TRUE(block.contains(w.core));
          EXPECT_LE(w.core.pixels(), patch * patch * patch);
          EXPECT_EQ(w.box, w.core.grow({halo, halo}).intersect(padded));
          for (std::size_t axis = 0; axis < 3; ++axis) EXPECT_EQ(w.core.lo()[axis] % alignment[axis], 0);
        }
        for (std::size_t i = 0; i < windows.size(); ++i)
          for (std::size_t j = 0; j < i; ++j) EXPECT_TRUE(windows[i].core.intersect(windows[j].core).empty());
        EXPECT_EQ(pixels, block.pixels());
        EXPECT_EQ(hull, window_region(block, padded, halo));
      }
  EXPECT_EQ(cut_windows(padded, padded, {4, 4, 4}, 40, {8, 8, 8}).size(), 1U);
  EXPECT_EQ(patches_for(64 * 64 * 64, 8, Axes::volume),
            (std::vector<std::int64_t>{64, 56, 48, 32, 24, 16, 8}));
}

TEST(Windows, fitting_patch_takes_the_largest_that_fits) {
  const Box padded = Box::image2d(64, 64);
  const auto fitting_patch_of = [&](std::int64_t pixels) {
    return fitting_patch({padded}, padded, {1, 8, 8}, {0, 16, 16},
                         [&](const Box& window) { return window.pixels() <= pixels; });
  };
  EXPECT_EQ(fitting_patch_of(64 * 64), 64);
  EXPECT_EQ(fitting_patch_of(64 * 64 - 1), 48);  // two strips of 32 rows, 48 with the halo
  EXPECT_EQ(fitting_patch_of(48 * 64 - 1), 32);  // 48 x 48 with the halo
  EXPECT_EQ(fitting_patch_of(48 * 48 - 1), 8);   // 24 and 16 still need 48 x 48 and more
  EXPECT_EQ(fitting_patch_of(32 * 32), 0);
}

TEST(Windows, smaller_cuts_come_to_an_end_at_one_alignment_unit) {
  CutSize cut{1000, 5};
  std::vector<CutSize> seen;
  for (CutSize next = smaller_cut(cut, 8); !(next == cut); next = smaller_cut(cut, 8)) {
    EXPECT_LE(next.patch * next.patch * next.batch, cut.patch * cut.patch * cut.batch * 6 / 10 + 64);
    EXPECT_EQ(next.patch % 8, 0) << next.patch;
    seen.push_back(cut = next);
    ASSERT_LT(seen.size(), 30u);
  }
  EXPECT_EQ(seen.front(), (CutSize{1000, 2}));
  EXPECT_EQ(cut, (CutSize{8, 1}));
}

}  // namespace
}  // namespace tessera
