// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <c10/core/ScalarType.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tessera/comm/exchange_plan.hpp"
#include "tessera/denoise/layer.hpp"
#include "tessera/denoise/pass_plan.hpp"
#include "tessera/domain/decomposition.hpp"

namespace tessera {

/// What a rank's features of one level hold, in pixels of that level.
struct LevelBoxes {
  Box block, region;  // region: with the margin, clipped to the padded image
  Box image;          // the padded image
};

/// A convolution or attention that reads its neighbors' pixels: they are exchanged while its inside is
/// computed.
struct LayerExchange {
  std::size_t step = 0;       // of the run plan
  int level = 0;              // image side is divided by 2^level
  std::int64_t channels = 0;  // of its input
  std::int64_t reach = 0;     // half of its kernel's or window's width
  std::int64_t margin = 0;    // pixels around the block on which its output is computed too
  std::int64_t fill = 0;      // pixels around the block of its input that layers behind it read
  RimForm rim;
  Axes axes = Axes::picture;  // of the image
};

/// A step that adds up all ranks' pixels.
struct LayerSum {
  std::size_t step = 0;
  std::int64_t numbers = 0;
};

/// When a network that runs on blocks exchanges what. Features of a level have the pixels of the block and of
/// `margin` around it, clipped to the padded image; how many of them hold true values changes from layer to
/// layer.
struct LayerSchedule {
  std::vector<LayerExchange> exchanges;  // in order of their steps
  std::vector<std::int64_t> margin;      // per level
  std::vector<LayerSum> sums;            // in order of their steps
  Axes axes = Axes::picture;
};

/// With depth k, k convolutions in a row share one exchange of k times their reach where nothing between them
/// (a change of level, attention, which wants whole windows, a sum with a feature whose margin is shorter)
/// stops it; no more pixels are exchanged than are read. Features of `type` on a device or not; the same on
/// all ranks, whatever their processors. Pure.
LayerSchedule make_layer_schedule(const PassPlan& plan, int depth, at::ScalarType type, bool on_device);

std::vector<LevelBoxes> level_boxes(const LayerSchedule& schedule, const Decomposition& decomposition,
                                    int rank);

/// A part of the output that reads remote pixels, and the pixels that it reads: these may leave the padded
/// image, where they are 0.
struct Strip {
  Box out, in;
};
/// What a convolution computes on a block and its margin, cut in two.
struct BlockCut {
  // Above, below, left, right, of a volume before and behind first; empty where the block ends with the padded
  // image.
  std::array<Strip, 6> strips;
  Box inside;  // what needs no neighbor
  Box all;     // both: the block and the exchange's margin
};
/// Where little would remain inside, the first strip is all of it. Boxes in pixels of the level.
BlockCut cut_block(const Box& block, const Box& padded, const LayerExchange& exchange);

/// Whether both move the same pixels: only the layers that they serve differ.
bool same_pixels(const LayerExchange& a, const LayerExchange& b);

/// Who owns and who needs what for one exchange; needs are the strips' inputs, in their order.
struct LayerLayouts {
  LayerLayouts(const Decomposition& decomposition, const LayerExchange& exchange);
  ExchangePlan plan(int rank) const { return {own, needs, padded, Border::zero, rank}; }

  Box padded;
  Layout own;
  std::vector<Layout> needs;
};

/// The graph without its batch norms, which the runner folds away: what schedules are made of where there are
/// no weights.
Graph without_batch_norms(const Graph& graph);

}  // namespace tessera
