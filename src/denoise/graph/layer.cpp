// SPDX-License-Identifier: BSD-3-Clause
// What is right for a layer that says nothing else.
#include "tessera/denoise/layer.hpp"

#include <algorithm>

#include "tessera/core/error.hpp"

namespace tessera {

std::int64_t StepSizes::pixels(int below) const {
  std::int64_t pixels = 1;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    const int by = axis < first_axis(axes) ? 0 : below;
    pixels *= by >= 0 ? block[axis] >> by : block[axis] << -by;
  }
  return pixels;
}

std::string Layer::complete(Node& node, const Inputs& in) const {
  if (!in.empty()) node.channels = in[0]->channels;
  return {};
}

void Layer::transpose(const Transposing&) const {
  throw ContractError(concat("the transpose of a ", name(), " (there is none) write it first"));
}

bool Layer::in_parts(const Node&, std::int64_t, at::ScalarType, ConvolutionLibrary) const { return false; }

StepWork Layer::work(const Node& node, const Inputs& in, at::ScalarType, bool) const {
  StepWork work;
  for (const Node* input : in) work.in += input->channels;
  work.passed = static_cast<double>(work.in) + static_cast<double>(node.channels);
  return work;
}

std::int64_t Layer::reach(const Node& node) const {
  if (level_change() != 0) return 0;
  std::int64_t reach = 0;
  const std::int64_t side = unit(node);
  for (std::size_t axis = first_axis(node.axes); axis < 3; ++axis) {
    const Interval in = reads(node, {0, side}, axis);
    reach = std::max({reach, -in.lo, in.hi - side});
  }
  return reach;
}

}  // namespace tessera
