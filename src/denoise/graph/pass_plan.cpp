// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/denoise/pass_plan.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "tessera/core/error.hpp"
#include "tessera/denoise/layer.hpp"

namespace tessera {
namespace {

// Which layers disappear into the convolution before them: absorbed[i] is the layer that layer i became.
std::vector<int> absorb(const std::vector<Node>& nodes, bool fuse_add) {
  std::vector<std::vector<int>> readers(nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i)
    for (const int from : nodes[i].inputs) readers[from].push_back(static_cast<int>(i));
  std::vector<int> into(nodes.size(), -1);
  std::vector<bool> taken(nodes.size(), false);   // an add takes one convolution only
  for (std::size_t i = nodes.size(); i-- > 0;) {  // the later convolution first: its operand exists by then
    if (!layer_of(nodes[i].op).absorbs() || readers[i].size() != 1) continue;
    const int reader = readers[i][0];
    const Node& next = nodes[reader];
    const bool add = fuse_add && next.op == Op::add && next.inputs.size() == 2 && !taken[reader];
    if (next.op != Op::relu && !add) continue;
    into[i] = reader;
    taken[reader] = true;
  }
  return into;
}

}  // namespace

PassPlan make_pass_plan(const Graph& graph, bool fuse_add) {
  const std::vector<Node>& nodes = graph.nodes();
  const std::vector<int> into = absorb(nodes, fuse_add);
  std::vector<int> absorbed(nodes.size(), -1);  // the convolution that computes this layer
  for (std::size_t i = 0; i < nodes.size(); ++i)
    if (into[i] >= 0) absorbed[into[i]] = static_cast<int>(i);

  PassPlan plan;
  plan.output = static_cast<int>(nodes.size()) - 1;
  plan.axes = graph.axes();
  for (const Node& node : nodes) plan.channels.push_back(node.channels);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    TESSERA_EXPECT(nodes[i].op != Op::batch_norm,
                   "a batch norm reached the runner (it computes none) fold it");
    if (into[i] >= 0) continue;  // computed where it is read
    Step step;
    step.out = static_cast<int>(i);
    step.node = nodes[i];
    if (const int conv = absorbed[i]; conv >= 0) {
      step.node = nodes[conv];
      step.relu = nodes[i].op == Op::relu;
      if (!step.relu) step.other = nodes[i].inputs[nodes[i].inputs[0] == conv ? 1 : 0];
    }
    plan.steps.push_back(std::move(step));
  }

  std::vector<int> last(nodes.size(), -1);
  const auto reads = [](const Step& step) {
    std::vector<int> slots = step.node.inputs;
    if (step.other >= 0) slots.push_back(step.other);
    return slots;
  };
  for (std::size_t s = 0; s < plan.steps.size(); ++s)
    for (const int slot : reads(plan.steps[s])) last[slot] = static_cast<int>(s);
  last[plan.output] = static_cast<int>(plan.steps.size());
  for (const Step& step : plan.steps)
    for (const int slot : reads(step))
      if (!layer_of(step.node.op).converts() && nodes[slot].op == Op::input) plan.converts = true;
  for (std::size_t s = 0; s < plan.steps.size(); ++s) {
    Step& step = plan.steps[s];
    for (const int slot : reads(step))
      if (last[slot] == static_cast<int>(s) &&
          std::find(step.released.begin(), step.released.end(), slot) == step.released.end())
        step.released.push_back(slot);
    // The image itself may be the caller's tensor, the noise level is one number: never overwritten.
    const bool adds = step.other >= 0;
    const int target = adds ? step.other : step.node.inputs.empty() ? -1 : step.node.inputs[0];
    const bool in_place = adds || layer_of(step.node.op).overwrites();
    step.into_other = in_place && target >= 0 && last[target] == static_cast<int>(s) &&
                      !nodes[target].inputs.empty() && (!adds || target != step.node.inputs[0]);
  }
  return plan;
}

std::vector<Box> computed_parts(const PassPlan& plan, const Box& window, const Box& core,
                                const std::vector<bool>& in_parts) {
  std::vector<Box> parts(plan.channels.size());
  parts[static_cast<std::size_t>(plan.output)] = core;
  for (std::size_t s = plan.steps.size(); s-- > 0;) {
    const Step& step = plan.steps[s];
    const Node& node = step.node;
    Box& out = parts[static_cast<std::size_t>(step.out)];
    if (!in_parts[s]) out = at_level(window, node.level, plan.axes);
    if (level_change(node.op) < 0) {  // makes both pixels of a pair
      Index3 lo = out.lo(), hi = out.hi();
      for (std::size_t axis = first_axis(plan.axes); axis < 3; ++axis) {
        lo[axis] = lo[axis] / 2 * 2;
        hi[axis] = (hi[axis] + 1) / 2 * 2;
      }
      out = {lo, hi};
    }
    const Box there = at_level(window, node.level - level_change(node.op), plan.axes);
    for (const int slot : node.inputs) {
      Box& in = parts[static_cast<std::size_t>(slot)];
      in = in.hull(node.reads(out).intersect(there));
    }
    if (step.other < 0) continue;
    Box& other = parts[static_cast<std::size_t>(step.other)];
    other = other.hull(out);
  }
  return parts;
}

}  // namespace tessera
