// SPDX-License-Identifier: BSD-3-Clause
// Plans of many pretended ranks as tables, without MPI.
#include "tessera/comm/exchange_plan.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "border.hpp"
#include "border_reference.hpp"
#include "support/block.hpp"
#include "tessera/core/phase.hpp"

namespace tessera::test {
namespace {

bool same(const Piece& a, const Piece& b) { return a.to == b.to && a.from == b.from && a.step == b.step; }

const Message* from_to(const std::vector<Message>& list, int peer) {
  const auto it = std::find_if(list.begin(), list.end(), [peer](const Message& m) { return m.peer == peer; });
  return it == list.end() ? nullptr : &*it;
}

TEST(Layout, OverlappingFindsWhatAScanFinds) {
  const Layout layout = grid_layout(Box::image2d(101, 67), {1, 9, 7});
  for (std::int64_t y = -3; y < 104; y += 5)
    for (std::int64_t x = -3; x < 70; x += 4) {
      const Box wanted{{0, y, x}, {1, y + 13, x + 2}};
      std::vector<int> scan;
      for (int r = 0; r < layout.ranks(); ++r)
        if (!layout.box(r).intersect(wanted).empty()) scan.push_back(r);
      EXPECT_EQ(layout.overlapping(wanted), scan);
    }
  EXPECT_TRUE(layout.overlapping(Box{}).empty());
  EXPECT_EQ(layout.hull(), Box::image2d(101, 67));
}

TEST(Border, SegmentsAreTheWalk) {
  for (const Border border : kBorders)
    for (std::int64_t n = 1; n < 6; ++n)
      for (std::int64_t lo = -13; lo < 13; ++lo)
        for (std::int64_t hi = lo; hi < 20; hi += 3) {
          std::map<std::int64_t, std::int64_t> found;
          for (const auto& s : border::segments(lo, hi, 2, 2 + n, border))
            for (std::int64_t i = s.lo; i < s.hi; ++i)
              EXPECT_TRUE(found.emplace(i, s.from + s.step * (i - s.lo)).second);
          for (std::int64_t i = lo; i < hi; ++i) {
            const auto expected = walk(i, 2, 2 + n, border);
            ASSERT_EQ(found.count(i), expected ? 1U : 0U) << i << " of " << n;
            if (expected) {
              EXPECT_EQ(found[i], *expected) << i << " of " << n;
            }
          }
        }
}

TEST(ExchangePlan, WhatOneSendsTheOtherReceives) {
  struct Case {
    Box image;
    Index3 grid;
    Reach reach;
  };
  const Case cases[] = {
      {Box::image2d(203, 97), {1, 6, 5}, {{0, 3, 1}, {0, 2, 4}}},
      {Box::image2d(20, 30), {1, 8, 8}, {{0, 9, 9}, {0, 9, 9}}},  // halo over several blocks, empty ones
      {Box::image2d(3, 4), {1, 2, 3}, {{0, 11, 7}, {0, 5, 13}}},  // wider than the image
      {Box{{0, 0, 0}, {9, 8, 7}}, {3, 2, 2}, {{1, 2, 0}, {2, 1, 3}}},
  };
  std::int64_t messages = 0;
  for (const Case& c : cases)
    for (const Border border : kBorders) {
      const Layout own = grid_layout(c.image, c.grid), need = own.grow(c.reach);
      std::vector<ExchangePlan> plans;
      for (int r = 0; r < own.ranks(); ++r) plans.emplace_back(own, need, c.image, border, r);
      for (int a = 0; a < own.ranks(); ++a) {
        std::int64_t to_pixels = 0;
        for (const Message& m : plans[static_cast<std::size_t>(a)].sends()) {
          ++messages;
          const Message* arriving = from_to(plans[static_cast<std::size_t>(m.peer)].receives(), a);
          ASSERT_NE(arriving, nullptr) << a << " sends to " << m.peer << ", which does not expect it";
          EXPECT_EQ(m.pixels, arriving->pixels);
          EXPECT_GT(m.pixels, 0);
          ASSERT_EQ(m.pieces.size(), arriving->pieces.size());
          for (std::size_t i = 0; i < m.pieces.size(); ++i) {
            EXPECT_TRUE(same(m.pieces[i], arriving->pieces[i]));
            EXPECT_TRUE(own.box(a).contains(m.pieces[i].source()));
          }
        }
        const ExchangePlan& plan = plans[static_cast<std::size_t>(a)];
        for (const Message& m : plan.receives()) {
          EXPECT_NE(from_to(plans[static_cast<std::size_t>(m.peer)].sends(), a), nullptr);
          EXPECT_NE(m.peer, a);
          for (const Piece& p : m.pieces) to_pixels += p.to.pixels();
        }
        for (const Piece& p : plan.local()) to_pixels += p.to.pixels();
        for (const Piece& p : plan.zeros()) to_pixels += p.to.pixels();
        const Box reached = border == Border::none ? plan.need().intersect(c.image) : plan.need();
        EXPECT_EQ(to_pixels, reached.pixels()) << "rank " << a;  // every needed pixel once
      }
    }
  EXPECT_GT(messages, 500);
}

TEST(ExchangePlan, ReplicateSendsAnEdgePixelOnce) {
  const Box image = Box::image2d(4, 8);
  const Layout own = grid_layout(image, {1, 1, 2});
  // Rank 1 alone needs 100 columns left of the image; they are 4 pixels of rank 0.
  const Layout need(std::vector<Box>{Box{}, Box{{0, 0, -100}, {1, 4, 0}}});
  const ExchangePlan plan(own, need, image, Border::replicate, 1);
  EXPECT_EQ(plan.pixels_received(), 4);
  EXPECT_EQ(ExchangePlan(own, need, image, Border::replicate, 0).pixels_sent(), 4);
}

TEST(ExchangePlan, HaloOfABlockHasItsClosedForm) {
  const Layout own = grid_layout(Box::image2d(64, 64), {1, 4, 4});
  const ExchangePlan plan(own, own.grow({{0, 2, 3}, {0, 1, 1}}), Box::image2d(64, 64), Border::circular, 5);
  EXPECT_EQ(plan.pixels_received(), (16 + 3) * (16 + 4) - 16 * 16);
  EXPECT_EQ(plan.pixels_sent(), plan.pixels_received());
  EXPECT_EQ(plan.receives().size(), 8U);
}

TEST(ExchangePlan, OneOfThousandsOfRanksIsPlannedFast) {
  const Box image = Box::image2d(1 << 16, 1 << 16);
  const Layout own = grid_layout(image, {1, 64, 64}), need = own.grow({{0, 20, 20}, {0, 20, 20}});
  const double start = now();
  for (const int rank : {0, 63, 2000, 4095}) {
    const ExchangePlan plan(own, need, image, Border::circular, rank);
    EXPECT_EQ(plan.receives().size(), 8U);
    EXPECT_EQ(plan.pixels_received(), 1064 * 1064 - 1024 * 1024);
  }
  const double each = (now() - start) / 4;
  RecordProperty("microseconds", static_cast<int>(each * 1e6));
  EXPECT_LT(each, 0.05) << "seconds for one rank's plan among 4096";
}

TEST(ExchangePlan, GatherToOneOfThousands) {
  const Box image = Box::image2d(640, 640);
  const Layout own = grid_layout(image, {1, 64, 64});
  std::vector<Box> boxes(4096);
  boxes[17] = image;
  const ExchangePlan plan(own, Layout(boxes), image, Border::zero, 17);
  EXPECT_EQ(plan.receives().size(), 4095U);
  EXPECT_EQ(plan.pixels_received(), 640 * 640 - 100);
  EXPECT_TRUE(plan.zeros().empty());
}

TEST(ExchangePlan, EmptyOwnersAndOverlappingOnesAreTold) {
  const Box image = Box::image2d(4, 4);
  const Layout twice(std::vector<Box>{image, image}), none(std::vector<Box>(2));
  EXPECT_TRUE(ExchangePlan(none, none, image, Border::circular, 0).receives().empty());
#ifdef TESSERA_CHECKED
  EXPECT_THROW(ExchangePlan(twice, twice, image, Border::none, 0), ContractError);
  EXPECT_THROW(ExchangePlan(twice, Layout(std::vector<Box>{image}), image, Border::none, 0), ContractError);
#endif
}

}  // namespace
}  // namespace tessera::test
