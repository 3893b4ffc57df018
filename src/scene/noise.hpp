// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstdint>

#include "tessera/core/random.hpp"

namespace tessera::scene {

constexpr std::int64_t kTile = 64;          // pixels that are rendered together, per axis
constexpr std::int64_t kPitch = kTile + 1;  // fields have one row and column more, for their slopes

/// A noise field on a tile; row pitch kPitch.
using Field = std::array<float, kPitch * kPitch>;

/// Four words of a lattice's point, 0 <= row, column < 2^32.
inline std::array<std::uint32_t, 4> words_at(const Random& random, std::int64_t row, std::int64_t column) {
  // A counter has 40 bits of index and 24 of draw.
  return random.words(column | (row >> 24) << 32, static_cast<std::uint32_t>(row & 0xffffff));
}

/// Adds `amplitude` times value noise whose lattice has the step 2^k pixels, 1 <= k <= 20, on the pixels
/// [row, row + rows) x [column, column + columns). Lattice values are uniform in [-1, 1).
void add_noise_octave(const Random& random, int k, float amplitude, std::int64_t row, std::int64_t column,
                      std::int64_t rows, std::int64_t columns, Field& field);

}  // namespace tessera::scene
