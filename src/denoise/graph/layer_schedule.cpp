// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/denoise/layer_schedule.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "tessera/core/error.hpp"
#include "tessera/core/image_space.hpp"
#include "tessera/denoise/layer.hpp"

namespace tessera {
namespace {

std::int64_t reach_of(const Step& step) { return layer_of(step.node.op).reach(step.node); }
Reach reach_around(std::int64_t pixels, Axes axes) {
  return axes == Axes::volume ? Reach{{pixels, pixels, pixels}, {pixels, pixels, pixels}}
                              : ImageSpace::in_plane(pixels);
}
bool on_blocks(const Step& step) { return layer_of(step.node.op).on_blocks(step.node); }

}  // namespace

LayerSchedule make_layer_schedule(const PassPlan& plan, int depth, at::ScalarType type, bool on_device) {
  TESSERA_EXPECT(depth >= 1, "a halo depth of ", depth,
                 " (an exchange serves one convolution at least) use 1");
  const auto slots = static_cast<std::size_t>(plan.output) + 1;

  // Forward, with exchanges as wide as allowed: which convolutions find too short a margin and exchange.
  std::vector<std::int64_t> valid(slots, 0);  // pixels around the block with true values
  std::vector<bool> exchanges(plan.steps.size(), false);
  for (std::size_t s = 0; s < plan.steps.size(); ++s) {
    const Step& step = plan.steps[s];
    std::int64_t v = std::numeric_limits<std::int64_t>::max();  // a constant is true everywhere
    if (step.node.op == Op::input || on_blocks(step)) v = 0;
    if (!on_blocks(step))
      for (const int i : step.node.inputs) v = std::min(v, valid[i]);
    const std::int64_t reach = reach_of(step);
    if (on_blocks(step)) {
      exchanges[s] = reach > 0;
    } else if (reach > 0) {
      if (v < reach) {
        exchanges[s] = true;
        v = valid[step.node.inputs[0]] = depth * reach;
      }
      v -= reach;
    }
    if (step.other >= 0) v = std::min(v, valid[step.other]);
    valid[step.out] = v;
  }

  // Backward: how much of those margins is read.
  LayerSchedule schedule;
  schedule.axes = plan.axes;
  std::vector<std::int64_t> need(slots, 0);  // by the steps behind this one
  const auto want = [&](int slot, int level, std::int64_t pixels) {
    need[slot] = std::max(need[slot], pixels);
    if (schedule.margin.size() <= static_cast<std::size_t>(level))
      schedule.margin.resize(static_cast<std::size_t>(level) + 1, 0);
    schedule.margin[level] = std::max(schedule.margin[level], pixels);
  };
  for (std::size_t s = plan.steps.size(); s-- > 0;) {
    const Step& step = plan.steps[s];
    const int level = step.node.level;
    const std::int64_t out = need[step.out], reach = reach_of(step);
    want(step.out, level, out);
    if (step.other >= 0) want(step.other, level, out);
    const auto rim = [&](int in) {
      return layer_of(step.node.op).rim(step.node, step.node.reads(plan.channels[in]), type, on_device);
    };
    if (on_blocks(step)) {
      if (!exchanges[s]) continue;
      const int in = step.node.inputs[0];
      schedule.exchanges.push_back({s, level, plan.channels[in], reach, 0, 0, rim(in), plan.axes});
    } else if (exchanges[s]) {
      const int in = step.node.inputs[0];
      const std::int64_t margin = std::max(out, need[in] - reach);
      schedule.exchanges.push_back(
          {s, level, plan.channels[in], reach, margin, need[in], rim(in), plan.axes});
      want(step.out, level, margin);
      need[in] = 0;  // what the steps behind read has come with this exchange
    } else {
      for (const int i : step.node.inputs) want(i, level, out + reach);
    }
  }
  std::reverse(schedule.exchanges.begin(), schedule.exchanges.end());
  for (std::size_t s = 0; s < plan.steps.size(); ++s)
    if (const Node& node = plan.steps[s].node; layer_of(node.op).sums(node) > 0)
      schedule.sums.push_back({s, layer_of(node.op).sums(node)});
  return schedule;
}

std::vector<LevelBoxes> level_boxes(const LayerSchedule& schedule, const Decomposition& decomposition,
                                    int rank) {
  std::vector<LevelBoxes> boxes;
  for (std::size_t l = 0; l < schedule.margin.size(); ++l) {
    const int level = static_cast<int>(l);
    const std::int64_t m = schedule.margin[l];
    const Box block = at_level(decomposition.padded_block(rank), level, schedule.axes);
    const Box image = at_level(decomposition.padded(), level, schedule.axes);
    const Reach around = reach_around(m, schedule.axes);
    boxes.push_back({block, block.grow(around).intersect(image), image});
  }
  return boxes;
}

BlockCut cut_block(const Box& block, const Box& padded, const LayerExchange& e) {
  BlockCut cut;
  if (block.empty()) return cut;
  const Box region = block.grow(reach_around(e.margin, e.axes)).intersect(padded);
  Index3 lo = region.lo(), hi = region.hi();  // what is left of it
  std::int64_t taken = 0;
  const std::size_t first = first_axis(e.axes);
  for (std::size_t axis = first; axis < 3; ++axis)
    for (const bool low : {true, false}) {
      if (low ? block.lo()[axis] == padded.lo()[axis] : block.hi()[axis] == padded.hi()[axis]) continue;
      const std::int64_t least =  // pixels that read beyond the block
          e.reach + (low ? block.lo()[axis] - region.lo()[axis] : region.hi()[axis] - block.hi()[axis]);
      const std::int64_t thick =
          std::min((least + e.rim.tile - 1) / e.rim.tile * e.rim.tile, hi[axis] - lo[axis]);
      Index3 from = lo, to = hi;
      if (low)
        lo[axis] = to[axis] = lo[axis] + thick;
      else
        hi[axis] = from[axis] = hi[axis] - thick;
      Strip& strip = cut.strips[(axis - first) * 2 + (low ? 0 : 1)];
      strip.out = Box(from, to);
      taken += strip.out.pixels();
    }
  cut.inside = Box(lo, hi);
  if (2 * taken >= region.pixels()) {
    cut = {};
    cut.strips[0].out = region;
  }
  cut.all = region;
  for (Strip& strip : cut.strips) strip.in = strip.out.grow(reach_around(e.reach, e.axes));
  return cut;
}

bool same_pixels(const LayerExchange& a, const LayerExchange& b) {
  return a.level == b.level && a.channels == b.channels && a.reach == b.reach && a.margin == b.margin &&
         a.rim.tile == b.rim.tile && a.rim.turned == b.rim.turned && a.axes == b.axes;
}

LayerLayouts::LayerLayouts(const Decomposition& decomposition, const LayerExchange& exchange)
    : padded(at_level(decomposition.padded(), exchange.level, exchange.axes)) {
  std::vector<Box> blocks;
  std::array<std::vector<Box>, 6> inputs;
  for (int r = 0; r < decomposition.ranks(); ++r) {
    blocks.push_back(at_level(decomposition.padded_block(r), exchange.level, exchange.axes));
    const BlockCut cut = cut_block(blocks.back(), padded, exchange);
    for (std::size_t i = 0; i < inputs.size(); ++i) inputs[i].push_back(cut.strips[i].in);
  }
  own = Layout(std::move(blocks));
  for (auto& boxes : inputs) needs.emplace_back(std::move(boxes));
}

Graph without_batch_norms(const Graph& graph) {
  Graph bare;
  std::vector<int> index;  // of a node in the bare graph
  for (Node node : graph.nodes()) {
    for (int& i : node.inputs) i = index[static_cast<std::size_t>(i)];
    index.push_back(node.op == Op::batch_norm ? node.inputs[0] : bare.add(std::move(node)));
  }
  return bare;
}

}  // namespace tessera
