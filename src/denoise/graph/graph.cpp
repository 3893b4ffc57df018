// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/denoise/graph.hpp"

#include <algorithm>
#include <utility>

#include "tessera/core/error.hpp"

namespace tessera {
namespace {

std::int64_t floor_to(std::int64_t i, std::int64_t unit) {
  return (i >= 0 ? i / unit : -((unit - 1 - i) / unit)) * unit;
}
std::int64_t floor_half(std::int64_t i) { return i >= 0 ? i / 2 : -((1 - i) / 2); }

}  // namespace

Interval Interval::hull(const Interval& other) const {
  if (empty()) return other;
  if (other.empty()) return *this;
  return {std::min(lo, other.lo), std::max(hi, other.hi)};
}
Interval Interval::intersect(const Interval& other) const {
  return {std::max(lo, other.lo), std::min(hi, other.hi)};
}

Interval Node::reads(const Interval& out) const {
  switch (op) {
    case Op::conv:
      return {out.lo - kernel / 2, out.hi + kernel / 2};
    case Op::conv_down:
    case Op::max_pool:
      return {2 * out.lo, 2 * out.hi};
    case Op::conv_up:
    case Op::upsample:
      return {floor_half(out.lo), floor_half(out.hi - 1) + 1};
    case Op::window_attention:
      return {floor_to(out.lo + shift, window) - shift,
              floor_to(out.hi - 1 + shift, window) + window - shift};
    default:
      return out;
  }
}

Box Node::reads(const Box& out) const {
  if (out.empty()) return {};
  Index3 lo = out.lo(), hi = out.hi();
  for (std::size_t axis = 1; axis < 3; ++axis) {
    const Interval in = reads(Interval{lo[axis], hi[axis]});
    lo[axis] = in.lo;
    hi[axis] = in.hi;
  }
  return {lo, hi};
}

bool is_convolution(Op op) { return op == Op::conv || op == Op::conv_down || op == Op::conv_up; }

int level_change(Op op) {
  switch (op) {
    case Op::conv_down:
    case Op::max_pool:
      return 1;
    case Op::conv_up:
    case Op::upsample:
      return -1;
    default:
      return 0;
  }
}

std::string Graph::complete(Node& node) const {
  const int index = static_cast<int>(nodes_.size());
  for (const int i : node.inputs)
    if (i < 0 || i >= index)
      return concat("node ", index, " reads node ", i,
                    " (layers are listed in order of evaluation) add its inputs first");
  const bool source = node.op == Op::input || node.op == Op::sigma_map;
  if (source != node.inputs.empty())
    return concat(word(node.op), " has ", node.inputs.size(),
                  " inputs (sources have none, layers at least one) name its inputs");
  if (node.op == Op::sigma_map) node.channels = 1;
  if (!source) {
    const Node& first = nodes_[node.inputs[0]];
    node.level = first.level + level_change(node.op);
    if (node.level < 0)
      return concat(word(node.op), " is finer than the image (level ", node.level, ") go down first");
    if (node.op == Op::concat) {
      node.channels = 0;
      for (const int i : node.inputs) node.channels += nodes_[i].channels;
    } else if (node.op == Op::gelu_gate) {
      node.channels = first.channels / 2;
      if (first.channels % 2 != 0)
        return concat("a gate of ", first.channels,
                      " channels (one half opens the other) use an even number");
    } else if (node.op == Op::window_attention || node.op == Op::channel_attention) {
      node.channels = first.channels / 3;
      if (node.heads <= 0 || first.channels != 3 * node.channels || node.channels % node.heads != 0)
        return concat("attention of ", node.heads, " heads on ", first.channels,
                      " channels (queries, keys and values of all heads lie side by side) use a multiple");
      if (node.window <= 0 || (node.shift != 0 && 2 * node.shift != node.window))
        return concat("windows of ", node.window, " pixels shifted by ", node.shift,
                      " (flips of the image keep none or half of the side) use either");
    } else if (!is_convolution(node.op)) {
      node.channels = first.channels;
    }
    for (const int i : node.inputs)
      if (nodes_[i].level != first.level)
        return concat("inputs of ", word(node.op), " at levels ", first.level, " and ", nodes_[i].level,
                      " (their sizes differ) bring them to one level");
    const bool two = node.op == Op::subtract || node.op == Op::elu_gradient;
    if (two && node.inputs.size() != 2)
      return concat(word(node.op), " has ", node.inputs.size(), " inputs (it takes two) name both");
    if (node.op == Op::add && node.inputs.size() < 2)
      return "add has 1 input (a sum has two or more) name them";
    if (!two && node.op != Op::add && node.op != Op::concat && node.inputs.size() != 1)
      return concat(word(node.op), " has ", node.inputs.size(), " inputs (it takes one) name that one");
    if (two || node.op == Op::add)
      for (const int i : node.inputs)
        if (nodes_[i].channels != node.channels)
          return concat("inputs of ", word(node.op), " with ", node.channels, " and ", nodes_[i].channels,
                        " channels (they must be equal) use a convolution between");
    if (node.depthwise && (node.op != Op::conv || node.channels != first.channels || node.adjoint))
      return concat("a ", word(node.op), " of each channel by itself, from ", first.channels, " to ",
                    node.channels, " channels (only a conv of as many is one) use a full one");
    if (node.adjoint && node.op != Op::conv)
      return concat("the adjoint of a ", word(node.op),
                    " (only conv has this mark) name the layer that is its transpose");
    if (node.op == Op::conv && node.kernel % 2 != 1)
      return concat("a convolution of width ", node.kernel,
                    " (padding k/2 keeps the size for odd k only) use an odd kernel");
  }
  if (node.channels <= 0) return concat(word(node.op), " has no channels (nothing to compute) set channels");
  return {};
}

int Graph::add(Node node) {
  const std::string fault = complete(node);
  TESSERA_EXPECT(fault.empty(), fault);
  nodes_.push_back(std::move(node));
  return static_cast<int>(nodes_.size()) - 1;
}

std::int64_t Graph::alignment() const {
  std::int64_t alignment = 1;
  for (const Node& node : nodes_) alignment = std::max(alignment, std::int64_t{node.window} << node.level);
  return alignment;
}

bool Graph::global() const {
  return std::any_of(nodes_.begin(), nodes_.end(),
                     [](const Node& node) { return node.op == Op::channel_attention; });
}

std::int64_t Graph::reach() const {
  constexpr std::int64_t kEverywhere = std::int64_t{1} << 30;
  if (global()) return kEverywhere;
  // What one aligned unit [0, a) needs; a core is a union of such units, its need the hull of theirs.
  const std::int64_t unit = alignment();
  std::vector<Interval> need(nodes_.size());
  need.back() = {0, unit >> nodes_.back().level};
  std::int64_t reach = 0;
  for (std::size_t i = nodes_.size(); i-- > 0;) {
    if (need[i].empty()) continue;  // nothing on the way to the output reads it
    if (nodes_[i].op == Op::input) reach = std::max({reach, -need[i].lo, need[i].hi - unit});
    for (const int from : nodes_[i].inputs) need[from] = need[from].hull(nodes_[i].reads(need[i]));
  }
  return reach;
}

std::int64_t Graph::halo() const {
  const std::int64_t unit = alignment();
  return (reach() + unit - 1) / unit * unit;
}

double Graph::macs_per_pixel() const {
  double macs = 0;
  for (const Node& node : nodes_) {
    double taps = 0;  // products per input channel and output sample
    if (node.op == Op::conv) taps = static_cast<double>(node.kernel) * node.kernel;
    if (node.op == Op::conv_down) taps = 4;
    if (node.op == Op::conv_up) taps = 1;  // a sample lies under one of the four taps
    if (taps == 0) continue;
    const double samples = 1.0 / static_cast<double>(std::int64_t{1} << (2 * node.level));
    macs += taps * samples * static_cast<double>(node.reads(nodes_[node.inputs[0]].channels) * node.channels);
  }
  return macs;
}

}  // namespace tessera
