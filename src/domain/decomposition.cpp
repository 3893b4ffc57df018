// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/domain/decomposition.hpp"

#include <algorithm>
#include <limits>

namespace tessera {
namespace {

struct Interval {
  std::int64_t lo, hi;
};

// Units [0, extent / alignment) shared by `parts`; the larger shares are spread, not bunched at one end.
Interval share(std::int64_t lo, std::int64_t extent, std::int64_t alignment, int parts, int part) {
  const std::int64_t units = extent / alignment;
  return {lo + alignment * (units * part / parts), lo + alignment * (units * (part + 1) / parts)};
}

std::int64_t cut_length(const Grid3& grid, const Box& box) {
  std::int64_t length = 0;
  for (std::size_t d = 0; d < 3; ++d)
    if (box.extent(d) > 0) length += (grid[d] - 1) * (box.pixels() / box.extent(d));
  return length;
}

}  // namespace

Decomposition::Decomposition(const Box& image, const Index3& alignment, const Grid3& grid)
    : image_(image), alignment_(alignment), grid_(grid), unit_(alignment) {
  TESSERA_EXPECT(grid[0] > 0 && grid[1] > 0 && grid[2] > 0,
                 "a grid axis has no ranks (each needs at least 1)");
  TESSERA_EXPECT(alignment[0] > 0 && alignment[1] > 0 && alignment[2] > 0,
                 "alignment is not positive (1 is none)");
  Index3 hi = image.hi();
  for (std::size_t d = 0; d < 3; ++d)
    hi[d] = image.lo()[d] + (image.extent(d) + alignment[d] - 1) / alignment[d] * alignment[d];
  padded_ = cut_ = Box(image.lo(), hi);
}

Decomposition Decomposition::planes(const std::array<std::size_t, 3>& axes) const {
  TESSERA_EXPECT((axes_ == std::array<std::size_t, 3>{0, 1, 2}),
                 "axes are turned twice (turn the first ones)");
  const auto turned = [&](const auto& in) {
    auto out = in;
    for (std::size_t d = 0; d < 3; ++d) out[d] = in[axes[d]];
    return out;
  };
  Decomposition d = *this;
  d.axes_ = axes;
  d.grid_ = turned(grid_);
  d.alignment_ = turned(alignment_);
  d.alignment_[0] = 1;
  d.image_ = Box(turned(image_.lo()), turned(image_.hi()));
  Index3 end = turned(padded_.hi());
  end[0] = d.image_.hi()[0];
  d.padded_ = Box(d.image_.lo(), end);
  return d;
}

Decomposition Decomposition::choose(const Box& image, const Index3& alignment, int ranks,
                                    const BlockCost& cost) {
  Decomposition best;
  double best_cost = std::numeric_limits<double>::infinity();
  std::int64_t best_cut = 0;
  for (const Grid3& grid : grids(ranks, image)) {
    const Decomposition candidate(image, alignment, grid);
    double slowest = 0;
    for (int r = 0; r < ranks; ++r) {
      const Box block = candidate.padded_block(r);
      if (!block.empty()) slowest = std::max(slowest, cost(block));
    }
    const std::int64_t cut = cut_length(grid, candidate.padded());
    if (slowest < best_cost || (slowest == best_cost && cut < best_cut)) {
      best = candidate;
      best_cost = slowest;
      best_cut = cut;
    }
  }
  return best;
}

Box Decomposition::padded_block(int rank) const {
  TESSERA_EXPECT(0 <= rank && rank < ranks(), "rank ", rank, " of a grid of ", ranks(), " (no such rank)");
  Index3 lo{}, hi{};
  int rest = rank;  // ranks go along the last axis that is cut first
  for (std::size_t axis = 3; axis-- > 0;) {
    const auto d = static_cast<std::size_t>(std::find(axes_.begin(), axes_.end(), axis) - axes_.begin());
    const Interval i = share(cut_.lo()[axis], cut_.extent(axis), unit_[axis], grid_[d], rest % grid_[d]);
    rest /= grid_[d];
    lo[d] = i.lo;
    hi[d] = i.hi;
  }
  return Box(lo, hi).intersect(padded_);
}

Box Decomposition::block(int rank) const { return padded_block(rank).intersect(image_); }

Layout Decomposition::layout() const {
  std::vector<Box> boxes;
  for (int r = 0; r < ranks(); ++r) boxes.push_back(block(r));
  return Layout(std::move(boxes));
}

Layout Decomposition::padded_layout() const {
  std::vector<Box> boxes;
  for (int r = 0; r < ranks(); ++r) boxes.push_back(padded_block(r));
  return Layout(std::move(boxes));
}

std::vector<Grid3> grids(int ranks, const Box& image) {
  std::vector<Grid3> all;
  for (int d = 1; d <= ranks; ++d) {
    if (ranks % d != 0 || (d > 1 && image.extent(0) == 1)) continue;
    for (int h = 1; h <= ranks / d; ++h)
      if (ranks / d % h == 0) all.push_back({d, h, ranks / d / h});
  }
  return all;
}

}  // namespace tessera
