// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/denoise/graph.hpp"

namespace tessera {

/// One thing to compute: a layer, with the relu or the add that follows it done in the same pass.
struct Step {
  Node node;                  // the layer; `inputs` are slots
  int out = 0;                // slot of the result
  int other = -1;             // slot that is added to the result; -1: none
  bool relu = false;          // clamp the result at 0
  bool into_other = false;    // the result may overwrite `other` (conv) or the first input
  std::vector<int> released;  // slots that nobody reads after this step
};

/// A graph as a list of fused steps with the lifetimes of its features. Slots are node indices of the graph.
struct PassPlan {
  std::vector<Step> steps;
  int output = 0;
  std::vector<std::int64_t> channels;  // per slot
  Axes axes = Axes::picture;           // of the image
  bool converts = false;  // the image must be in the runner's type and layout: not only a concat reads it
};

/// `fuse_add`: whether a convolution can add in the same pass. The graph must be free of batch norms.
PassPlan make_pass_plan(const Graph& graph, bool fuse_add);

/// What a pass over a window computes of each slot, in the pixels of its level, where only `core` of its
/// result is wanted; both in pixels of the window, which begins at the origin. A network reaches far in its first layers and hardly at all in its last ones.
/// `in_parts`, by step: whether it computes what is asked for alone; else it makes all of the window.
std::vector<Box> computed_parts(const PassPlan& plan, const Box& window, const Box& core,
                                const std::vector<bool>& in_parts);

}  // namespace tessera
