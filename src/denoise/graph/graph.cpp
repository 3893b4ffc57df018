// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/denoise/graph.hpp"

#include <algorithm>
#include <utility>

#include "tessera/core/error.hpp"
#include "tessera/denoise/layer.hpp"

namespace tessera {
Interval Interval::hull(const Interval& other) const {
  if (empty()) return other;
  if (other.empty()) return *this;
  return {std::min(lo, other.lo), std::max(hi, other.hi)};
}
Interval Interval::intersect(const Interval& other) const {
  return {std::max(lo, other.lo), std::min(hi, other.hi)};
}

Box at_level(const Box& box, int level, Axes axes) {
  Index3 lo = box.lo(), hi = box.hi();
  for (std::size_t axis = first_axis(axes); axis < 3; ++axis) {
    lo[axis] >>= level;
    hi[axis] >>= level;
  }
  return {lo, hi};
}

Box Node::reads(const Box& out) const {
  if (out.empty()) return {};
  Index3 lo = out.lo(), hi = out.hi();
  for (std::size_t axis = first_axis(axes); axis < 3; ++axis) {
    const Interval in = layer_of(op).reads(*this, {lo[axis], hi[axis]}, axis);
    lo[axis] = in.lo;
    hi[axis] = in.hi;
  }
  return {lo, hi};
}

std::string Graph::complete(Node& node) const {
  const int index = static_cast<int>(nodes_.size());
  Layer::Inputs in;
  for (const int i : node.inputs) {
    if (i < 0 || i >= index)
      return concat("node ", index, " reads node ", i,
                    " (layers are listed in order of evaluation) add its inputs first");
    in.push_back(&nodes_[static_cast<std::size_t>(i)]);
  }
  const Layer& layer = layer_of(node.op);
  const bool source = layer.most_inputs() == 0;
  if (source != in.empty())
    return concat(layer.name(), " has ", in.size(),
                  " inputs (sources have none, layers at least one) name its inputs");
  if (source && node.op != Op::input) node.axes = axes();
  if (source && !nodes_.empty() && node.axes != axes())
    return concat(layer.name(),
                  " has an axis of depth where the layers before have none, or the other way round ",
                  "(one image has one kind of axes) give all sources the same");
  if (!source) {
    node.axes = in[0]->axes;
    node.level = in[0]->level + layer.level_change();
    if (node.level < 0)
      return concat(layer.name(), " is finer than the image (level ", node.level, ") go down first");
    for (const Node* input : in)
      if (input->level != in[0]->level)
        return concat("inputs of ", layer.name(), " at levels ", in[0]->level, " and ", input->level,
                      " (their sizes differ) bring them to one level");
    const bool two = layer.least_inputs() == 2 && layer.most_inputs() == 2;
    if (two && in.size() != 2)
      return concat(layer.name(), " has ", in.size(), " inputs (it takes two) name both");
    if (in.size() < layer.least_inputs())
      return concat(layer.name(), " has 1 input (a sum has two or more) name them");
    if (in.size() > layer.most_inputs())
      return concat(layer.name(), " has ", in.size(), " inputs (it takes one) name that one");
    if (node.depthwise && node.op != Op::conv)
      return concat("a ", layer.name(), " of each channel by itself (only a conv is one) leave the mark out");
    if (node.adjoint && node.op != Op::conv)
      return concat("the adjoint of a ", layer.name(),
                    " (only conv has this mark) name the layer that is its transpose");
  }
  if (const std::string fault = layer.complete(node, in); !fault.empty()) return fault;
  if (node.channels <= 0) return concat(layer.name(), " has no channels (nothing to compute) set channels");
  return {};
}

int Graph::add(Node node) {
  const std::string fault = complete(node);
  TESSERA_EXPECT(fault.empty(), fault);
  nodes_.push_back(std::move(node));
  return static_cast<int>(nodes_.size()) - 1;
}

Index3 Graph::alignment() const {
  Index3 alignment{1, 1, 1};
  for (const Node& node : nodes_)
    for (std::size_t axis = first_axis(axes()); axis < 3; ++axis)
      alignment[axis] = std::max(alignment[axis], layer_of(node.op).unit(node) << node.level);
  return alignment;
}

bool Graph::global() const {
  return std::any_of(nodes_.begin(), nodes_.end(),
                     [](const Node& node) { return layer_of(node.op).sums(node) > 0; });
}

Index3 Graph::reach() const {
  constexpr std::int64_t kEverywhere = std::int64_t{1} << 30;
  const std::size_t first = first_axis(axes());
  Index3 reach{};
  if (global()) {
    std::fill(reach.begin() + static_cast<std::ptrdiff_t>(first), reach.end(), kEverywhere);
    return reach;
  }
  // What one aligned unit [0, a) needs; a core is a union of such units, its need the hull of theirs.
  const Box unit({0, 0, 0}, alignment());
  std::vector<Box> need(nodes_.size());
  need.back() = at_level(unit, output().level, axes());
  for (std::size_t i = nodes_.size(); i-- > 0;) {
    if (need[i].empty()) continue;  // nothing on the way to the output reads it
    if (nodes_[i].op == Op::input)
      for (std::size_t axis = first; axis < 3; ++axis)
        reach[axis] = std::max({reach[axis], -need[i].lo()[axis], need[i].hi()[axis] - unit.hi()[axis]});
    for (const int from : nodes_[i].inputs) {
      Box& in = need[static_cast<std::size_t>(from)];
      in = in.hull(nodes_[i].reads(need[i]));
    }
  }
  return reach;
}

Index3 Graph::halo() const {
  const Index3 unit = alignment();
  Index3 halo = reach();
  for (std::size_t axis = 0; axis < 3; ++axis)
    halo[axis] = (halo[axis] + unit[axis] - 1) / unit[axis] * unit[axis];
  return halo;
}

double Graph::macs_per_pixel() const {
  double macs = 0;
  for (const Node& node : nodes_) {
    Layer::Inputs in;
    for (const int from : node.inputs) in.push_back(&nodes_[static_cast<std::size_t>(from)]);
    const int axes = static_cast<int>(3 - first_axis(node.axes));
    macs +=
        layer_of(node.op).products(node, in) / static_cast<double>(std::int64_t{1} << (axes * node.level));
  }
  return macs;
}

}  // namespace tessera
