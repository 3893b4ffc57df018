// SPDX-License-Identifier: BSD-3-Clause
#include "paint.hpp"

#include <algorithm>
#include <cmath>

#include "simd.hpp"
#include "texture.hpp"

namespace tessera::scene {
namespace {

// Colors of the relief from deep water to snow, and the height at which each is pure.
constexpr int kZones = 7;
constexpr float kHeights[kZones] = {-0.75F, -0.10F, -0.04F, 0.06F, 0.35F, 0.62F, 0.85F};
constexpr float kGround[kZones][3] = {{0.05F, 0.13F, 0.28F}, {0.17F, 0.47F, 0.60F}, {0.87F, 0.79F, 0.58F},
                                      {0.45F, 0.57F, 0.27F}, {0.17F, 0.33F, 0.18F}, {0.47F, 0.42F, 0.38F},
                                      {0.95F, 0.96F, 0.98F}};

// The row below is `pitch` floats on.
TESSERA_ROW_LOOP
void relief_row(const float* coarse, const float* fine, std::int64_t pitch, std::int64_t n,
                float* __restrict red, float* __restrict green, float* __restrict blue) {
  for (std::int64_t p = 0; p < n; ++p) {
    const float height = coarse[p] + 0.02F * fine[p];
    const float slope = (coarse[p + pitch + 1] - coarse[p]) * 9.0F + (fine[p + pitch + 1] - fine[p]) * 0.22F;
    const float land = height > kHeights[2] ? 1.0F : 0.25F;  // water is flat
    const float light = 0.92F + land * slope + 0.10F * land * fine[p];
    float r = kGround[0][0], g = kGround[0][1], b = kGround[0][2];
    for (int z = 0; z + 1 < kZones; ++z) {
      const float share = clamp01((height - kHeights[z]) * (1 / (kHeights[z + 1] - kHeights[z])));
      r += share * (kGround[z + 1][0] - kGround[z][0]);
      g += share * (kGround[z + 1][1] - kGround[z][1]);
      b += share * (kGround[z + 1][2] - kGround[z][2]);
    }
    red[p] = clamp01(r * light);
    green[p] = clamp01(g * light);
    blue[p] = clamp01(b * light);
  }
}

// Distance to a lens (the common part of two circles) in pixels, negative inside.
TESSERA_INLINE float to_lens(float u, float v, float radius, float off) {
  const float w = std::abs(v) + off;
  return std::sqrt(u * u + w * w) - radius;
}

// The same for a box with round corners, or the line along its edge that is 2 hole thick.
TESSERA_INLINE float to_box(float u, float v, float inner_u, float inner_v, float round, float hole) {
  const float x = std::abs(u) - inner_u, y = std::abs(v) - inner_v;
  const float outer_x = x > 0 ? x : 0, outer_y = y > 0 ? y : 0;
  const float inner = x > y ? x : y;
  const float d = std::sqrt(outer_x * outer_x + outer_y * outer_y) + (inner < 0 ? inner : 0) - round;
  const float ring = std::abs(d) - hole;
  return hole > 0 ? ring : d;
}

float lens_radius(const Leaf& leaf) {
  return (leaf.half_u * leaf.half_u + leaf.half_v * leaf.half_v) / (2 * leaf.half_v);
}

// Own coordinates of a row of pixels: `dx`, `dy` from the center of the leaf.
TESSERA_ROW_LOOP
void place_row(const Leaf& leaf, float dx, float dy, std::int64_t n, float* u, float* v) {
  for (std::int64_t p = 0; p < n; ++p) {
    const float x = (dx + static_cast<float>(static_cast<std::int32_t>(p))) - leaf.column_rest;
    u[p] = x * leaf.cosine + dy * leaf.sine;
    v[p] = dy * leaf.cosine - x * leaf.sine;
  }
}

// Distances of a row of pixels to the outline, moved by (shift_u, shift_v).
TESSERA_ROW_LOOP
void outline_row(const Leaf& leaf, const float* __restrict u, const float* __restrict v, float shift_u,
                 float shift_v, std::int64_t n, float* __restrict distance) {
  if (leaf.outline == Outline::lens) {
    const float radius = lens_radius(leaf), off = radius - leaf.half_v;
    for (std::int64_t p = 0; p < n; ++p) distance[p] = to_lens(u[p] - shift_u, v[p] - shift_v, radius, off);
    return;
  }
  const float round = leaf.round, hole = leaf.hole;
  const float inner_u = leaf.half_u - round, inner_v = leaf.half_v - round;
  for (std::int64_t p = 0; p < n; ++p)
    distance[p] = to_box(u[p] - shift_u, v[p] - shift_v, inner_u, inner_v, round, hole);
}

struct Over {
  const float *u, *v, *distance, *shadowed, *ink, *fine;
};

TESSERA_ROW_LOOP
void blend_row(const Leaf& leaf, const Over& over, std::int64_t n, float* __restrict red,
               float* __restrict green, float* __restrict blue) {
  const float *u = over.u, *v = over.v, *distance = over.distance, *shadowed = over.shadowed;
  const float *share_of_ink = over.ink, *fine = over.fine;
  const float soft = 1 / (leaf.shadow + 0.5F);
  const float rim = 1 / (1.5F + 0.05F * leaf.half_v);
  const float contrast = leaf.contrast, grain = leaf.grain, slope_u = leaf.slope_u, slope_v = leaf.slope_v;
  const Color color = leaf.color, ink = leaf.ink;
  for (std::int64_t p = 0; p < n; ++p) {
    const float cover = clamp01(0.5F - distance[p]);
    const float dark = clamp01(0.7F - shadowed[p] * soft);
    const float under = (1 - cover) * (1 - 0.5F * dark * dark);
    // Lit edges: the outline's distance grows towards the light where the side faces it.
    const float edge = clamp01(1 + distance[p] * rim);
    const float facing = (shadowed[p] - distance[p]) * soft;
    const float light = 1 + slope_u * u[p] + slope_v * v[p] + grain * fine[p] + 0.22F * edge * facing;
    const float share = contrast * share_of_ink[p];
    red[p] = cover * clamp01((color[0] + share * (ink[0] - color[0])) * light) + under * red[p];
    green[p] = cover * clamp01((color[1] + share * (ink[1] - color[1])) * light) + under * green[p];
    blue[p] = cover * clamp01((color[2] + share * (ink[2] - color[2])) * light) + under * blue[p];
  }
}

}  // namespace

void paint_relief(Tile& tile) {
  for (std::int64_t i = 0; i < tile.rows; ++i)
    relief_row(&tile.coarse[i * kPitch], &tile.fine[i * kPitch], kPitch, tile.columns,
               &tile.color[0][i * kTile], &tile.color[1][i * kTile], &tile.color[2][i * kTile]);
}

void paint_leaf(const Leaf& leaf, Tile& tile) {
  const auto reach = static_cast<std::int64_t>(leaf.reach) + 2;
  const std::int64_t top = std::max<std::int64_t>(0, leaf.row - reach - tile.row);
  const std::int64_t bottom = std::min(tile.rows, leaf.row + reach + 1 - tile.row);
  const float shift = 0.7F * leaf.shadow;  // down and to the right
  const float shift_u = shift * (leaf.cosine + leaf.sine), shift_v = shift * (leaf.cosine - leaf.sine);
  Row u, v, distance, shadowed, ink;
  for (std::int64_t i = top; i < bottom; ++i) {
    const float dy = static_cast<float>(tile.row + i - leaf.row) - leaf.row_rest;
    const float square = leaf.reach * leaf.reach - dy * dy;
    if (square <= 0) continue;
    const auto half = static_cast<std::int64_t>(std::sqrt(square)) + 2;
    const std::int64_t left = std::max<std::int64_t>(0, leaf.column - half - tile.column);
    const std::int64_t right = std::min(tile.columns, leaf.column + half + 1 - tile.column);
    const std::int64_t n = right - left;
    if (n <= 0) continue;
    place_row(leaf, static_cast<float>(tile.column + left - leaf.column), dy, n, u.data(), v.data());
    outline_row(leaf, u.data(), v.data(), 0, 0, n, distance.data());
    outline_row(leaf, u.data(), v.data(), shift_u, shift_v, n, shadowed.data());
    texture_row(leaf, u, v, &tile.coarse[i * kPitch + left], n, ink);
    const std::int64_t at = i * kTile + left;
    blend_row(
        leaf,
        {u.data(), v.data(), distance.data(), shadowed.data(), ink.data(), &tile.fine[i * kPitch + left]}, n,
        &tile.color[0][at], &tile.color[1][at], &tile.color[2][at]);
  }
}

bool hides_all(const Leaf& leaf, const Tile& tile) {
  const float dy = static_cast<float>(tile.row + tile.rows / 2 - leaf.row);
  const float dx = static_cast<float>(tile.column + tile.columns / 2 - leaf.column);
  const float u = dx * leaf.cosine + dy * leaf.sine, v = dy * leaf.cosine - dx * leaf.sine;
  // The distance changes by one per pixel at most; the corners are below 0.75 tiles away.
  const float radius = lens_radius(leaf), round = leaf.round;
  const float distance = leaf.outline == Outline::lens
                             ? to_lens(u, v, radius, radius - leaf.half_v)
                             : to_box(u, v, leaf.half_u - round, leaf.half_v - round, round, leaf.hole);
  return distance < -0.75F * static_cast<float>(kTile) - 2;
}

}  // namespace tessera::scene
