// SPDX-License-Identifier: BSD-3-Clause
#include "leaves.hpp"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "noise.hpp"
#include "simd.hpp"

namespace tessera::scene {
namespace {

// Level l has cells of 2^l pixels with at most one leaf each, of half-width up to half a cell. One leaf per
// cell and octave is the density r^-3 under which a picture looks alike at every scale.
constexpr int kFinest = 4, kCoarsest = 14;
constexpr std::uint32_t kLeafPart = 64, kCrowdPart = 96, kPalettePart = 128;  // streams; noise takes 0 .. 63

constexpr int kPalettes = 6, kColors = 5;
constexpr std::uint32_t kPalette[kPalettes][kColors] = {
    {0x264653, 0x2a9d8f, 0xe9c46a, 0xf4a261, 0xe76f51}, {0x0b2545, 0x13689b, 0x48a9c5, 0xa5d8e2, 0xf3f6e8},
    {0x355070, 0x6d597a, 0xb56576, 0xe56b6f, 0xeaac8b}, {0x283618, 0x606c38, 0xdda15e, 0xbc6c25, 0xfefae0},
    {0x22223b, 0x4a4e69, 0x9a8c98, 0xc9ada7, 0xf2e9e4}, {0x1d3557, 0x457b9d, 0xa8dadc, 0xe63946, 0xf1faee}};

Color unpack(std::uint32_t rgb) {
  Color c{};
  for (int i = 0; i < 3; ++i) c[i] = static_cast<float>((rgb >> (16 - 8 * i)) & 255U) / 255.0F;
  return c;
}

/// Uniform numbers in [0, 1) of one cell, in turn.
class Draws {
 public:
  Draws(std::uint64_t seed, std::uint32_t part, std::int64_t row, std::int64_t column)
      : seed_(seed), part_(part), row_(row), column_(column) {}
  std::uint32_t word() {
    if (next_ == 4) {
      words_ = words_at(Random(seed_, RandomStream::scene, part_, turn_++), row_, column_);
      next_ = 0;
    }
    return words_[next_++];
  }
  float uniform() { return static_cast<float>(word() >> 8) * 0x1p-24F; }
  float between(float low, float high) { return low + (high - low) * uniform(); }

 private:
  std::uint64_t seed_;
  std::uint32_t part_, turn_ = 0;
  std::int64_t row_, column_;
  std::array<std::uint32_t, 4> words_{};
  std::size_t next_ = 4;
};

// Some regions of eight cells are crowded at a level: smooth areas remain beside busy ones.
float crowding(std::uint64_t seed, int level, std::int64_t i, std::int64_t j) {
  Draws draws(seed, kCrowdPart + static_cast<std::uint32_t>(level), i, j);
  const float draw = draws.uniform();
  if (level < kFinest + 2) return draw < 0.3F ? 0.7F : 0.05F;
  return draw < 0.4F ? 0.8F : 0.16F;
}

void choose_outline(Draws& draws, float size, Leaf& leaf) {
  const float kind = draws.uniform();
  leaf.half_u = leaf.half_v = leaf.round = size;  // a disc
  if (kind < 0.30F) return;
  if (kind < 0.42F) {  // a ring
    leaf.hole = size * draws.between(0.12F, 0.3F);
    leaf.half_u = leaf.half_v = leaf.round = size - leaf.hole;
  } else if (kind < 0.80F) {  // a box, perhaps long, perhaps with round ends
    leaf.half_v = size * draws.between(0.25F, 0.8F);
    leaf.round = leaf.half_v * (draws.uniform() < 0.3F ? 1.0F : draws.between(0.02F, 0.3F));
  } else {
    leaf.outline = Outline::lens;
    leaf.half_v = size * draws.between(0.25F, 0.6F);
  }
}

void choose_texture(Draws& draws, float size, Leaf& leaf) {
  const float kind = draws.uniform();
  const float fineness = draws.uniform();
  leaf.contrast = draws.between(0.35F, 1.0F);
  leaf.grain = 0.02F + 0.10F * draws.uniform() * draws.uniform();
  leaf.bits = draws.word();
  // From coarse to the resolution limit, with equal weight for every octave in between.
  float period = 0.5F * size;
  for (int halvings = static_cast<int>(fineness * 5); halvings > 0 && period > 5; --halvings) period *= 0.5F;
  leaf.period = std::max(period, 2.6F) * draws.between(0.9F, 1.1F);
  if (size < 10 || kind < 0.36F) return;
  leaf.texture = kind < 0.44F   ? Texture::stripes
                 : kind < 0.54F ? Texture::wood
                 : kind < 0.58F ? Texture::rings
                 : kind < 0.64F ? Texture::dots
                 : kind < 0.67F ? Texture::checks
                 : kind < 0.77F ? Texture::windows
                 : kind < 0.93F ? Texture::letters
                 : kind < 0.95F ? Texture::chirp
                 : kind < 0.98F ? Texture::star
                                : Texture::zones;
  if (leaf.texture == Texture::letters || leaf.texture == Texture::windows) {
    const float line = leaf.texture == Texture::letters ? draws.between(10, 26) : draws.between(6, 20);
    leaf.period = std::min(line, 0.6F * size) * (draws.uniform() < 0.25F ? 3.0F : 1.0F);
    if (leaf.outline == Outline::lens) leaf.outline = Outline::box, leaf.round = 0.1F * leaf.half_v;
    leaf.hole = 0;
  }
  if (leaf.texture == Texture::star || leaf.texture == Texture::zones) {  // targets are discs
    leaf.outline = Outline::box;
    leaf.half_u = leaf.half_v = leaf.round = size;
    leaf.hole = 0;
  }
}

void choose_colors(Draws& draws, std::uint64_t seed, Leaf& leaf) {
  // From somewhere near, so that the regions of the palettes have no sharp edges.
  const std::int64_t row = leaf.row + static_cast<std::int64_t>(draws.between(-600, 600));
  const std::int64_t column = leaf.column + static_cast<std::int64_t>(draws.between(-600, 600));
  leaf.color = palette_color(seed, row, column, draws.uniform());
  leaf.ink = palette_color(seed, row, column, draws.uniform());
  const float light = draws.between(-0.10F, 0.10F);
  for (int c = 0; c < 3; ++c) leaf.color[c] = clamp01(leaf.color[c] + light);
  const auto gray = [](const Color& c) { return 0.3F * c[0] + 0.6F * c[1] + 0.1F * c[2]; };
  float apart = gray(leaf.ink) - gray(leaf.color);
  if (leaf.texture == Texture::letters) {  // paper and ink
    for (int c = 0; c < 3; ++c) leaf.color[c] = 0.80F + 0.18F * leaf.color[c];
    for (int c = 0; c < 3; ++c) leaf.ink[c] *= 0.4F;
    leaf.contrast = 0.9F;
  } else if (leaf.texture == Texture::star || leaf.texture == Texture::zones) {
    leaf.color = {0.95F, 0.95F, 0.93F};
    leaf.ink = {0.05F, 0.05F, 0.07F};
    leaf.contrast = 1;
  } else if (apart < 0.2F && apart > -0.2F) {
    const float shift = gray(leaf.color) > 0.5F ? -0.4F : 0.4F;
    for (int c = 0; c < 3; ++c) leaf.ink[c] = clamp01(leaf.color[c] + shift);
  }
}

// The first draws of a cell, enough to tell whether its leaf can be seen.
struct Seat {
  int level;
  std::int64_t i, j;
  float row, column, size;  // center from the cell's corner; half-width
};

Leaf make_leaf(std::uint64_t seed, const Seat& seat, Draws& draws) {
  Leaf leaf;
  leaf.row = (seat.i << seat.level) + static_cast<std::int64_t>(seat.row);
  leaf.column = (seat.j << seat.level) + static_cast<std::int64_t>(seat.column);
  leaf.row_rest = seat.row - whole(seat.row);
  leaf.column_rest = seat.column - whole(seat.column);
  const float t = draws.between(-1, 1);
  if (draws.uniform() < 0.7F) {  // a rational point of the circle needs no library function
    leaf.cosine = (1 - t * t) / (1 + t * t);
    leaf.sine = 2 * t / (1 + t * t);
  }
  leaf.depth = draws.uniform() + 0.09F * static_cast<float>(kCoarsest - seat.level);
  choose_outline(draws, seat.size, leaf);
  choose_texture(draws, seat.size, leaf);
  choose_colors(draws, seed, leaf);
  leaf.slope_u = draws.between(-0.25F, 0.25F) / leaf.half_u;
  leaf.slope_v = draws.between(-0.25F, 0.25F) / leaf.half_u;
  leaf.shadow = std::min(0.18F * seat.size, 40.0F);
  const float u = leaf.half_u + leaf.hole, v = leaf.half_v + leaf.hole;
  const bool disc = leaf.outline == Outline::lens || leaf.round == leaf.half_u;
  leaf.reach = (disc ? u : std::sqrt(u * u + v * v)) + 2 * leaf.shadow + 2;
  return leaf;
}

// A box of proportion 0.8 and its shadow.
float largest_reach(float size) { return 1.3F * size + std::min(0.36F * size, 80.0F) + 2; }

// Squared distance from a point to the nearest pixel of the tile.
double gap(const Box& tile, std::int64_t row, std::int64_t column) {
  const auto along = [](std::int64_t at, std::int64_t lo, std::int64_t hi) {
    return static_cast<double>(at < lo ? lo - at : at >= hi ? at - hi + 1 : 0);
  };
  const double y = along(row, tile.lo()[1], tile.hi()[1]), x = along(column, tile.lo()[2], tile.hi()[2]);
  return y * y + x * x;
}

}  // namespace

Color palette_color(std::uint64_t seed, std::int64_t row, std::int64_t column, float pick) {
  Draws draws(seed, kPalettePart, (row + 65536) >> 11, (column + 65536) >> 11);
  const auto palette = static_cast<int>(draws.uniform() * kPalettes);
  const float at = pick * kColors;
  const auto index = static_cast<int>(at);
  Color color = unpack(kPalette[palette][index]);
  const Color other = unpack(kPalette[palette][(index + 1) % kColors]);
  const float share = 0.5F * (at - static_cast<float>(index));
  for (int c = 0; c < 3; ++c) color[c] += share * (other[c] - color[c]);
  return color;
}

std::vector<Leaf> leaves_of(std::uint64_t seed, const Box& tile) {
  std::vector<std::pair<Seat, Leaf>> found;
  for (int level = kFinest; level <= kCoarsest; ++level) {
    const auto cell = static_cast<float>(std::int64_t{1} << level);
    const std::int64_t far = (std::int64_t{1} << level) + 4;  // farther than any leaf's reach
    const std::uint32_t part = kLeafPart + static_cast<std::uint32_t>(level);
    for (std::int64_t i = (tile.lo()[1] - far) >> level; i <= (tile.hi()[1] - 1 + far) >> level; ++i) {
      float share = 0;
      std::int64_t region = -1;
      for (std::int64_t j = (tile.lo()[2] - far) >> level; j <= (tile.hi()[2] - 1 + far) >> level; ++j) {
        if (region != (j + 2) >> 3) {
          region = (j + 2) >> 3;
          share = crowding(seed, level, (i + 2) >> 3, region);
        }
        Draws draws(seed, part, i + 2, j + 2);
        if (draws.uniform() >= share) continue;
        Seat seat{level, i, j, cell * draws.uniform(), cell * draws.uniform(), 0};
        seat.size = cell * (0.22F + 0.28F * draws.uniform());
        const double reach = largest_reach(seat.size) + 3;
        const std::int64_t row = (i << level) + static_cast<std::int64_t>(seat.row);
        const std::int64_t column = (j << level) + static_cast<std::int64_t>(seat.column);
        if (gap(tile, row, column) < reach * reach) found.emplace_back(seat, make_leaf(seed, seat, draws));
      }
    }
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
    return std::tie(a.second.depth, a.first.level, a.first.i, a.first.j) <
           std::tie(b.second.depth, b.first.level, b.first.i, b.first.j);
  });
  std::vector<Leaf> leaves;
  leaves.reserve(found.size());
  for (const auto& [seat, leaf] : found) leaves.push_back(leaf);
  return leaves;
}

}  // namespace tessera::scene
