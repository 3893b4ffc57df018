// SPDX-License-Identifier: BSD-3-Clause
#include "symmetries.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "tessera/core/error.hpp"

namespace tessera {

namespace {

constexpr int kAll = 48;

// The axes (0 depth, 1 rows, 2 columns) of x that lie where depth, rows and columns of turn(x, symmetry) are.
std::array<int, 3> origin(int symmetry) {
  const int r = symmetry / 16;
  std::array<int, 3> axes{r, (r + 1) % 3, (r + 2) % 3};
  if (symmetry & 4) std::swap(axes[1], axes[2]);
  return axes;
}

std::vector<std::int64_t> flipped(int symmetry) {
  std::vector<std::int64_t> axes;
  if (symmetry & 8) axes.push_back(-3);
  if (symmetry & 2) axes.push_back(-2);
  if (symmetry & 1) axes.push_back(-1);
  return axes;
}

at::Tensor flip(const at::Tensor& x, int symmetry) {
  const std::vector<std::int64_t> axes = flipped(symmetry);
  return axes.empty() ? x : x.flip(axes);
}

// x with its last axes in this order; those of pictures, whose depth stays, are two.
at::Tensor in_order(const at::Tensor& x, const std::array<int, 3>& axes) {
  if (axes == std::array{0, 1, 2}) return x;
  if (axes[0] == 0) return x.transpose(-2, -1);
  std::vector<std::int64_t> all;
  const std::int64_t first = x.dim() - 3;
  for (std::int64_t d = 0; d < first; ++d) all.push_back(d);
  for (const int axis : axes) all.push_back(first + axis);
  return x.permute(all);
}

}  // namespace

at::Tensor turn(const at::Tensor& x, int symmetry) { return flip(in_order(x, origin(symmetry)), symmetry); }

at::Tensor turn_back(const at::Tensor& y, int symmetry) {
  const std::array<int, 3> from = origin(symmetry);
  std::array<int, 3> back{};
  for (std::size_t d = 0; d < 3; ++d) back[static_cast<std::size_t>(from[d])] = static_cast<int>(d);
  return in_order(flip(y, symmetry), back);
}

Box turn(const Box& part, const Box& whole, int symmetry) {
  const std::array<int, 3> from = origin(symmetry);
  const std::array<bool, 3> flips{(symmetry & 8) != 0, (symmetry & 2) != 0, (symmetry & 1) != 0};
  Index3 lo{}, hi{};
  for (std::size_t d = 0; d < 3; ++d) {
    const auto axis = static_cast<std::size_t>(from[d]);
    lo[d] = flips[d] ? whole.hi()[axis] - part.hi()[axis] : part.lo()[axis];
    hi[d] = flips[d] ? whole.hi()[axis] - part.lo()[axis] : part.hi()[axis];
  }
  return {lo, hi};
}

std::vector<int> symmetries_of(const Turns& turns) {
  std::vector<int> list;
  for (int s = 0; s < kAll; ++s) {
    bool fits = turns.kind[0] != 0 || (s & 8) == 0;
    for (std::size_t d = 0; d < 3; ++d)
      fits = fits && turns.kind[d] == turns.kind[static_cast<std::size_t>(origin(s)[d])];
    if (fits) list.push_back(s);
  }
  return list;
}

Symmetries::Symmetries(Averaging averaging, const Turns& turns)
    : cycle_(averaging == Averaging::cycle), list_(symmetries_of(turns)) {
  if (averaging == Averaging::none) list_ = {0};
  if (averaging == Averaging::flips)  // without turns
    list_.erase(std::remove_if(list_.begin(), list_.end(), [](int s) { return s >= 16 || (s & 4) != 0; }),
                list_.end());
}

std::vector<int> Symmetries::next() {
  if (!cycle_) return list_;
  return {list_[static_cast<std::size_t>(calls_++) % list_.size()]};
}

std::vector<StateField> Symmetries::state() {
  if (!cycle_) return {};
  return {{.name = "calls", .count = &calls_}};
}

std::string gray_notice(std::int64_t image_channels, std::int64_t network_channels) {
  if (image_channels == network_channels) return {};
  return concat("the image is gray and the network's weights are for ", network_channels,
                " channels: the image is replicated and the results are averaged");
}

}  // namespace tessera
