// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <numeric>
#include <utility>

#include "tessera/comm/exchange_plan.hpp"

namespace tessera {

Layout::Layout(std::vector<Box> boxes) : boxes_(std::move(boxes)) {
  for (int r = 0; r < ranks(); ++r) {
    if (box(r).empty()) continue;
    by_height_.push_back(r);
    hull_ = hull_.hull(box(r));
    tallest_ = std::max(tallest_, box(r).extent(1));
  }
  std::sort(by_height_.begin(), by_height_.end(),
            [this](int a, int b) { return std::pair(box(a).lo()[1], a) < std::pair(box(b).lo()[1], b); });
}

Layout Layout::grow(const Reach& reach) const {
  std::vector<Box> grown;
  grown.reserve(boxes_.size());
  for (const Box& b : boxes_) grown.push_back(b.grow(reach));
  return Layout(std::move(grown));
}

std::vector<int> Layout::overlapping(const Box& wanted) const {
  std::vector<int> found;
  if (wanted.empty()) return found;
  const auto starts_below = [this](int r, std::int64_t row) { return box(r).lo()[1] < row; };
  // A box that reaches into `wanted` starts at most one tallest box above it.
  auto it =
      std::lower_bound(by_height_.begin(), by_height_.end(), wanted.lo()[1] - tallest_ + 1, starts_below);
  for (; it != by_height_.end() && box(*it).lo()[1] < wanted.hi()[1]; ++it)
    if (!box(*it).intersect(wanted).empty()) found.push_back(*it);
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace tessera
