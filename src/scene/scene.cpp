// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/scene/scene.hpp"

#include <algorithm>

#include "leaves.hpp"
#include "noise.hpp"
#include "paint.hpp"
#include "tessera/core/error.hpp"

namespace tessera {
namespace {

using namespace scene;

constexpr std::int64_t kEnd = std::int64_t{1} << 31;

// Heights of the relief fall by nearly half per octave, so that slopes stand at every scale.
constexpr int kFirstCoarse = 5, kLastCoarse = 12;
constexpr float kFall = 0.55F;

void fill_noise(std::uint64_t seed, Tile& tile) {
  tile.coarse.fill(0);
  tile.fine.fill(0);
  const auto add = [&](int k, float amplitude, Field& field) {
    add_noise_octave(Random(seed, RandomStream::scene, static_cast<std::uint32_t>(k)), k, amplitude, tile.row,
                     tile.column, tile.rows + 1, tile.columns + 1, field);
  };
  float amplitude = 0.75F;
  for (int k = kLastCoarse; k >= kFirstCoarse; --k, amplitude *= kFall) add(k, amplitude, tile.coarse);
  amplitude = 0.6F;
  for (int k = kFirstCoarse - 1; k >= 1; --k, amplitude *= 0.8F) add(k, amplitude, tile.fine);
}

void render_tile(std::uint64_t seed, Tile& tile) {
  fill_noise(seed, tile);
  const Box box({0, tile.row, tile.column}, {1, tile.row + tile.rows, tile.column + tile.columns});
  const std::vector<Leaf> leaves = leaves_of(seed, box);
  std::size_t first = leaves.size();
  while (first > 0 && !hides_all(leaves[first - 1], tile)) --first;
  if (first == 0)
    paint_relief(tile);
  else
    --first;
  for (std::size_t i = first; i < leaves.size(); ++i) paint_leaf(leaves[i], tile);
}

void copy_out(const Tile& tile, std::int64_t channels, std::int64_t c, float* out, std::int64_t row_stride) {
  constexpr float kLuminance[3] = {0.299F, 0.587F, 0.114F};
  float weight[3] = {0, 0, 0};
  if (channels == 1) {
    std::copy(kLuminance, kLuminance + 3, weight);
  } else {
    const float at = 2 * static_cast<float>(c) / static_cast<float>(channels - 1);
    const int below = at < 1 ? 0 : 1;
    weight[below] = 1 - (at - static_cast<float>(below));
    weight[below + 1] = at - static_cast<float>(below);
  }
  for (std::int64_t i = 0; i < tile.rows; ++i)
    for (std::int64_t k = 0; k < tile.columns; ++k) {
      const std::int64_t p = i * kTile + k;
      out[i * row_stride + k] =
          weight[0] * tile.color[0][p] + weight[1] * tile.color[1][p] + weight[2] * tile.color[2][p];
    }
}

}  // namespace

void Scene::render(const Box& region, std::int64_t channels, float* out, std::int64_t channel_stride,
                   std::int64_t row_stride) const {
  if (region.empty()) return;
  const Index3 lo = region.lo(), hi = region.hi();
  TESSERA_VALIDATE(region.extent(0) == 1 && lo[1] >= 0 && lo[2] >= 0 && hi[1] < kEnd && hi[2] < kEnd,
                   "a scene has no pixels [", lo[1], ", ", hi[1], ") x [", lo[2], ", ", hi[2],
                   ") (rows and columns are below 2^31, depth is 1) ask for a region inside");
  Tile tile;
  // Tiles lie on multiples of their side: leaves are looked up as seldom as can be.
  for (std::int64_t row = lo[1]; row < hi[1]; row += tile.rows) {
    tile.row = row;
    tile.rows = std::min((row / kTile + 1) * kTile, hi[1]) - row;
    for (std::int64_t column = lo[2]; column < hi[2]; column += tile.columns) {
      tile.column = column;
      tile.columns = std::min((column / kTile + 1) * kTile, hi[2]) - column;
      render_tile(seed_, tile);
      for (std::int64_t c = 0; c < channels; ++c)
        copy_out(tile, channels, c, out + c * channel_stride + (row - lo[1]) * row_stride + (column - lo[2]),
                 row_stride);
    }
  }
}

}  // namespace tessera
