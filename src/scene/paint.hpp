// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstdint>

#include "leaves.hpp"
#include "noise.hpp"

namespace tessera::scene {

/// Pixels [row, row + rows) x [column, column + columns), at most kTile a side, and what is known of them.
struct Tile {
  std::int64_t row = 0, column = 0, rows = 0, columns = 0;
  Field coarse, fine;  // noise: of 32 pixels and more, and below
  // RGB, row pitch kTile; finite before the first leaf too, which may be painted over nothing.
  std::array<std::array<float, kTile * kTile>, 3> color{};
};

/// The bottom of the picture: a relief with a light from the upper left, colored by height.
void paint_relief(Tile& tile);

/// One leaf and its shadow over what is there.
void paint_leaf(const Leaf& leaf, Tile& tile);

/// True where nothing that lies behind the leaf can be seen in the tile.
bool hides_all(const Leaf& leaf, const Tile& tile);

}  // namespace tessera::scene
