// SPDX-License-Identifier: BSD-3-Clause
#include "symmetries.hpp"

#include <utility>

#include "tessera/core/error.hpp"

namespace tessera {

at::Tensor turn(const at::Tensor& x, int symmetry) {
  at::Tensor y = symmetry & 4 ? x.transpose(-2, -1) : x;
  std::vector<std::int64_t> axes;
  if (symmetry & 2) axes.push_back(-2);
  if (symmetry & 1) axes.push_back(-1);
  return axes.empty() ? y : y.flip(axes);
}

at::Tensor turn_back(const at::Tensor& y, int symmetry) {
  std::vector<std::int64_t> axes;
  if (symmetry & 2) axes.push_back(-2);
  if (symmetry & 1) axes.push_back(-1);
  const at::Tensor x = axes.empty() ? y : y.flip(axes);
  return symmetry & 4 ? x.transpose(-2, -1) : x;
}

Box turn(const Box& part, const Box& whole, int symmetry) {
  Index3 lo = part.lo(), hi = part.hi(), end = whole.hi();
  if (symmetry & 4)
    for (Index3* p : {&lo, &hi, &end}) std::swap((*p)[1], (*p)[2]);
  for (const std::size_t axis : {std::size_t{1}, std::size_t{2}})
    if (symmetry & (axis == 1 ? 2 : 1)) {
      const std::int64_t first = end[axis] - hi[axis];
      hi[axis] = end[axis] - lo[axis];
      lo[axis] = first;
    }
  return {lo, hi};
}

std::vector<int> Symmetries::next() {
  switch (averaging_) {
    case Averaging::none:
      return {0};
    case Averaging::cycle:
      return {static_cast<int>(calls_++ % 8)};
    case Averaging::flips4:
      return {0, 1, 2, 3};
    case Averaging::all8:
      return {0, 1, 2, 3, 4, 5, 6, 7};
  }
  return {0};
}

std::vector<StateField> Symmetries::state() {
  if (averaging_ != Averaging::cycle) return {};
  return {{.name = "calls", .count = &calls_}};
}

std::string gray_notice(std::int64_t image_channels, std::int64_t network_channels) {
  if (image_channels == network_channels) return {};
  return concat("the image is gray and the network's weights are for ", network_channels,
                " channels: the image is replicated and the results are averaged");
}

}  // namespace tessera
