// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "tessera/comm/exchange_plan.hpp"
#include "tessera/core/box.hpp"

namespace tessera {

/// Process grid: ranks along (depth, height, width); rank = (d * grid[1] + h) * grid[2] + w.
using Grid3 = std::array<int, 3>;

/// Cost of one rank that holds this block of the padded image, in any unit; for choosing the grid.
using BlockCost = std::function<double(const Box& block)>;

/// One block of a global image per rank.
///
/// Two global boxes: the image, and the image padded once, at the end of each axis, to a multiple of the
/// network's alignment. The padded box is cut; edges lie on multiples of the alignment; blocks may be uneven
/// or empty. Host arithmetic, equal on all ranks; not collective.
class Decomposition {
 public:
  Decomposition() = default;
  /// Cuts on a given grid, alignment units shared as evenly as they go. Empty blocks are legal.
  Decomposition(const Box& image, const Index3& alignment, const Grid3& grid);
  /// The grid of `ranks` whose slowest rank costs least; of equals the one with the shorter cuts.
  static Decomposition choose(const Box& image, const Index3& alignment, int ranks, const BlockCost& cost);

  /// The same blocks in turned axes, of which the first goes across planes: `axes[d]` is the axis here that is
  /// axis d there. Nothing is padded across planes. For what is done plane by plane; to be turned once only.
  Decomposition planes(const std::array<std::size_t, 3>& axes) const;

  const Box& image() const { return image_; }
  const Box& padded() const { return padded_; }
  const Index3& alignment() const { return alignment_; }
  const Grid3& grid() const { return grid_; }
  int ranks() const { return grid_[0] * grid_[1] * grid_[2]; }

  /// This rank's block of the padded image.
  Box padded_block(int rank) const;
  /// The image pixels that this rank owns: padded_block without the padding.
  Box block(int rank) const;
  /// block() of all ranks.
  Layout layout() const;
  /// padded_block() of all ranks.
  Layout padded_layout() const;

 private:
  Box image_, padded_;
  Index3 alignment_{1, 1, 1};
  Grid3 grid_{1, 1, 1};
  // What is cut and on which multiples, before axes are turned; the others are then in the order of axes_.
  Box cut_;
  Index3 unit_{1, 1, 1};
  std::array<std::size_t, 3> axes_{0, 1, 2};
};

/// All ways to write `ranks` as grid[0] * grid[1] * grid[2], with 1 on axes where the image has one pixel.
std::vector<Grid3> grids(int ranks, const Box& image);

}  // namespace tessera
