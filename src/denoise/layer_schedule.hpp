// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "run_plan.hpp"
#include "tessera/comm/exchange_plan.hpp"
#include "tessera/domain/decomposition.hpp"

namespace tessera {

/// A convolution that reads its neighbors' pixels: they are exchanged while its inside is computed.
struct LayerExchange {
  std::size_t step = 0;       // of the run plan
  int level = 0;              // image side is divided by 2^level
  std::int64_t channels = 0;  // of its input
  std::int64_t reach = 0;     // half of its kernel's width
  std::int64_t margin = 0;    // pixels around the block on which its output is computed too
  std::int64_t fill = 0;      // pixels around the block of its input that layers behind it read
};

/// When a network that runs on blocks exchanges what. Features of a level have the pixels of the block and of
/// `margin` around it, clipped to the padded image; how many of them hold true values changes from layer to
/// layer.
struct LayerSchedule {
  std::vector<LayerExchange> exchanges;  // in order of their steps
  std::vector<std::int64_t> margin;      // per level
};

/// With depth k, k convolutions in a row share one exchange of k times their reach where nothing between them
/// (a change of level, a sum with a feature whose margin is shorter) stops it; no more pixels are exchanged
/// than are read. Pure.
LayerSchedule make_layer_schedule(const RunPlan& plan, int depth);

/// A part of the output that reads remote pixels, and the pixels that it reads: these may leave the padded
/// image, where they are 0.
struct Strip {
  Box out, in;
  bool column = false;  // along the columns: stored and computed with rows and columns exchanged
};
/// Above, below, left and right of what a block computes without its neighbors; empty where the block ends
/// with the padded image. Where little would remain inside, the first strip is all of it. Boxes in pixels of
/// the level.
std::array<Strip, 4> cut_strips(const Box& block, const Box& padded, std::int64_t reach, std::int64_t margin);

/// `box` of the padded image in the pixels of a level.
Box at_level(const Box& box, int level);

/// Who owns and who needs what for one exchange; needs are the strips' inputs, in their order.
struct LayerLayouts {
  LayerLayouts(const Decomposition& decomposition, int level, std::int64_t reach, std::int64_t margin);
  ExchangePlan plan(int rank) const { return {own, needs, padded, Border::zero, rank}; }

  Box padded;
  Layout own;
  std::vector<Layout> needs;
};

/// The graph without its batch norms, which the runner folds away: what schedules are made of where there are
/// no weights.
Graph without_batch_norms(const Graph& graph);

}  // namespace tessera
