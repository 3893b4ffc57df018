// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/denoise/layer_schedule.hpp"

#include <gtest/gtest.h>

#include "tessera/denoise/network.hpp"

namespace tessera {
namespace {

bool holds(const Box& box, std::int64_t i, std::int64_t j) {
  return box.contains(Box({0, i, j}, {1, i + 1, j + 1}));
}

// Each wanted pixel is computed once: in a strip, or inside, and then all that it reads of the padded image
// lies in the block.
TEST(LayerStrips, cover_what_a_block_cannot_compute_alone) {
  const Box padded = Box::image2d(23, 19);
  std::int64_t strips_seen = 0, wholes = 0;
  for (const Box& block :
       {Box({0, 0, 0}, {1, 23, 19}), Box({0, 0, 0}, {1, 12, 19}), Box({0, 5, 6}, {1, 17, 19}),
        Box({0, 4, 3}, {1, 20, 16}), Box({0, 9, 0}, {1, 10, 19}), Box({0, 22, 18}, {1, 23, 19})})
    for (const std::int64_t reach : {1, 2, 3})
      for (const auto& [margin, tile] :
           {std::pair<std::int64_t, std::int64_t>{0, 1}, {1, 1}, {2, 1}, {5, 1}, {0, 4}, {2, 4}}) {
        const BlockCut cut =
            cut_block(block, padded, {.reach = reach, .margin = margin, .rim = {.tile = tile}});
        const std::array<Strip, 6>& strips = cut.strips;
        const Box region = block.grow({{0, margin, margin}, {0, margin, margin}}).intersect(padded);
        for (std::int64_t i = region.lo()[1]; i < region.hi()[1]; ++i)
          for (std::int64_t j = region.lo()[2]; j < region.hi()[2]; ++j) {
            const Box reads = Box({0, i - reach, j - reach}, {1, i + reach + 1, j + reach + 1});
            const bool inside = holds(cut.inside, i, j);
            int times = inside;
            for (const Strip& strip : strips) times += holds(strip.out, i, j) && strip.in.contains(reads);
            ASSERT_EQ(times, 1) << block << ", reach " << reach << ", margin " << margin << ", tile " << tile
                                << ": " << i << ", " << j;
            ASSERT_TRUE(!inside || block.contains(reads.intersect(padded)));
          }
        EXPECT_EQ(cut.all, region);
        for (const Strip& strip : strips) {
          EXPECT_TRUE(region.contains(strip.out));
          strips_seen += !strip.out.empty();
        }
        wholes += strips[0].out == region;
      }
  EXPECT_GT(strips_seen, 50);
  EXPECT_GT(wholes, 5);
  const LayerExchange one{.reach = 1, .margin = 3, .rim = {}};
  for (const Strip& strip : cut_block(padded, padded, one).strips) EXPECT_TRUE(strip.out.empty());
  for (const Strip& strip : cut_block(Box(), padded, one).strips) EXPECT_TRUE(strip.in.empty());
}

TEST(LayerSchedule, is_the_same_with_and_without_batch_norms_and_fusion) {
  NetworkOptions plain;
  plain.name = "unet";
  plain.batch_norm = false;
  NetworkOptions normed = plain;
  normed.batch_norm = true;
  for (const int depth : {1, 2, 3}) {
    const auto of = [&](const Graph& graph, bool fuse) {
      std::vector<std::int64_t> numbers;
      for (const LayerExchange& e :
           make_layer_schedule(make_pass_plan(without_batch_norms(graph), fuse), depth, at::kFloat, false)
               .exchanges)
        numbers.insert(numbers.end(), {e.level, e.channels, e.reach, e.margin});
      return numbers;
    };
    const auto want = of(make_graph(plain), true);
    EXPECT_GT(want.size(), 20U);
    EXPECT_EQ(of(make_graph(normed), true), want);
    EXPECT_EQ(of(make_graph(plain), false), want);
  }
}

// DnCNN: every k-th convolution exchanges, just as much as is read until the next one.
TEST(LayerSchedule, a_chain_exchanges_every_kth_convolution) {
  NetworkOptions chain;
  chain.name = "dncnn";
  chain.depth = 20;
  const PassPlan plan = make_pass_plan(make_graph(chain), true);
  for (const int depth : {1, 2, 3, 4, 7, 20, 50}) {
    const LayerSchedule schedule = make_layer_schedule(plan, depth, at::kDouble, false);
    EXPECT_EQ(schedule.exchanges.size(), static_cast<std::size_t>((20 + depth - 1) / depth)) << depth;
    std::int64_t sum = 0;  // of the pixels exchanged: each convolution reads one
    for (const LayerExchange& e : schedule.exchanges) sum += e.margin + e.reach;
    EXPECT_EQ(sum, 20) << depth;
    EXPECT_EQ(schedule.margin, std::vector<std::int64_t>{std::min(depth, 20) - 1});
  }
}

}  // namespace
}  // namespace tessera
