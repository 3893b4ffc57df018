// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "tessera/core/box.hpp"

namespace tessera::scene {

using Color = std::array<float, 3>;

enum class Outline { box, lens };  // rounded box (also discs, capsules, rings); two circles' common part
enum class Texture { plain, stripes, wood, rings, dots, checks, windows, letters, chirp, star, zones };

/// One opaque thing of the picture. Lengths in pixels; its own axes (u, v) are turned by (cosine, sine).
struct Leaf {
  std::int64_t row = 0, column = 0;     // center, whole pixels ...
  float row_rest = 0, column_rest = 0;  // ... and the rest
  float cosine = 1, sine = 0;
  Outline outline = Outline::box;
  float half_u = 0, half_v = 0, round = 0, hole = 0;  // round: corner radius; hole > 0: a ring so thick
  float reach = 0;   // nothing of it, shadow included, is farther from the center
  float shadow = 0;  // length of its shadow
  Texture texture = Texture::plain;
  float period = 8, contrast = 0.5F, grain = 0, slope_u = 0, slope_v = 0;
  Color color{}, ink{};    // texture goes from one to the other
  std::uint32_t bits = 0;  // for choices inside
  float depth = 0;         // the larger one is in front
};

/// The leaves that touch `tile`, from back to front. The order is the same for every tile.
std::vector<Leaf> leaves_of(std::uint64_t seed, const Box& tile);

/// A color of the palette of the region around a pixel; pick in [0, 1).
Color palette_color(std::uint64_t seed, std::int64_t row, std::int64_t column, float pick);

}  // namespace tessera::scene
