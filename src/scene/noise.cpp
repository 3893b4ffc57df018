// SPDX-License-Identifier: BSD-3-Clause
#include "noise.hpp"

#include "simd.hpp"

namespace tessera::scene {
namespace {

constexpr std::int64_t kLattice = kTile / 2 + 6;  // points that a tile needs at the finest step, and slack

float smooth(float t) { return t * t * (3 - 2 * t); }

// One row of the tile from the lattice's two rows above and below it: pixel i lies in the cell at[i].
TESSERA_ROW_LOOP
void interpolate(const float* above, const float* below, float wy, std::int64_t points,
                 const std::int32_t* __restrict at, const float* __restrict wx, std::int64_t columns,
                 float amplitude, float* __restrict out) {
  float row[kLattice];
  for (std::int64_t j = 0; j < points; ++j) row[j] = above[j] + (below[j] - above[j]) * wy;
  if (at[columns - 1] - at[0] > 8) {
    for (std::int64_t i = 0; i < columns; ++i) {
      const float left = row[at[i]], right = row[at[i] + 1];
      out[i] += amplitude * (left + (right - left) * wx[i]);
    }
    return;
  }
  for (std::int64_t i = 0; i < columns;) {  // few cells: nothing to look up inside of one
    const float left = row[at[i]], right = row[at[i] + 1];
    std::int64_t end = i;
    while (end < columns && at[end] == at[i]) ++end;
    for (; i < end; ++i) out[i] += amplitude * (left + (right - left) * wx[i]);
  }
}

}  // namespace

void add_noise_octave(const Random& random, int k, float amplitude, std::int64_t row, std::int64_t column,
                      std::int64_t rows, std::int64_t columns, Field& field) {
  const std::int64_t step = std::int64_t{1} << k;
  const float scale = 1.0F / static_cast<float>(step);
  // Four lattice points share the words of one counter: start on a multiple of four.
  const std::int64_t top = row >> k, left = (column >> k) & ~std::int64_t{3};
  const std::int64_t high = ((row + rows - 1) >> k) - top + 2;
  const std::int64_t wide = ((column + columns - 1) >> k) - left + 2;
  std::array<std::array<float, kLattice + 4>, kLattice> lattice;
  for (std::int64_t i = 0; i < high; ++i)
    for (std::int64_t j = 0; j < wide; j += 4) {
      const auto words = words_at(random, top + i, (left + j) >> 2);
      for (std::size_t n = 0; n < 4; ++n)
        lattice[i][j + n] = static_cast<float>(static_cast<std::int32_t>(words[n])) * 0x1p-31F;
    }
  std::array<std::int32_t, kPitch> at;
  std::array<float, kPitch> wx;
  for (std::int64_t i = 0; i < columns; ++i) {
    at[i] = static_cast<std::int32_t>(((column + i) >> k) - left);
    wx[i] = smooth((static_cast<float>((column + i) & (step - 1)) + 0.5F) * scale);
  }
  for (std::int64_t i = 0; i < rows; ++i) {
    const std::int64_t j = ((row + i) >> k) - top;
    const float wy = smooth((static_cast<float>((row + i) & (step - 1)) + 0.5F) * scale);
    interpolate(lattice[j].data(), lattice[j + 1].data(), wy, wide, at.data(), wx.data(), columns, amplitude,
                &field[i * kPitch]);
  }
}

}  // namespace tessera::scene
