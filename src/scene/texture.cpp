// SPDX-License-Identifier: BSD-3-Clause
#include "texture.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "simd.hpp"

namespace tessera::scene {
namespace {

// Letters of 16 strokes. Strokes end on a grid of 3 x 3 points, (right, down) in half widths and heights.
struct Stroke {
  float x0, y0, x1, y1;
};
enum : std::uint32_t {
  a1 = 1 << 0,
  a2 = 1 << 1,
  b = 1 << 2,
  c = 1 << 3,
  d2 = 1 << 4,
  d1 = 1 << 5,
  e = 1 << 6,
  f = 1 << 7,
  g1 = 1 << 8,
  g2 = 1 << 9,
  h = 1 << 10,
  i = 1 << 11,
  j = 1 << 12,
  k = 1 << 13,
  l = 1 << 14,
  m = 1 << 15
};
constexpr std::array<Stroke, 16> kStrokes = {{{0, 0, 1, 0},
                                              {1, 0, 2, 0},
                                              {2, 0, 2, 1},
                                              {2, 1, 2, 2},
                                              {1, 2, 2, 2},
                                              {0, 2, 1, 2},
                                              {0, 1, 0, 2},
                                              {0, 0, 0, 1},
                                              {0, 1, 1, 1},
                                              {1, 1, 2, 1},
                                              {0, 0, 1, 1},
                                              {1, 0, 1, 1},
                                              {2, 0, 1, 1},
                                              {1, 1, 2, 2},
                                              {1, 1, 1, 2},
                                              {1, 1, 0, 2}}};
constexpr std::uint32_t kTop = a1 | a2, kBottom = d1 | d2, kLeft = e | f, kRight = b | c, kMiddle = g1 | g2;
constexpr std::array<std::uint32_t, 32> kLetters = {
    kTop | kRight | kLeft | kMiddle,            // A
    kTop | kRight | kBottom | g2 | i | l,       // B
    kTop | kBottom | kLeft,                     // C
    kTop | kRight | kBottom | i | l,            // D
    kTop | kBottom | kLeft | g1,                // E
    kTop | kLeft | g1,                          // F
    kTop | c | kBottom | kLeft | g2,            // G
    kRight | kLeft | kMiddle,                   // H
    kTop | kBottom | i | l,                     // I
    kRight | kBottom | e,                       // J
    kLeft | g1 | j | k,                         // K
    kBottom | kLeft,                            // L
    kRight | kLeft | h | j,                     // M
    kRight | kLeft | h | k,                     // N
    kTop | kRight | kBottom | kLeft,            // O
    kTop | b | kLeft | kMiddle,                 // P
    kTop | kRight | kBottom | kLeft | k,        // Q
    kTop | b | kLeft | kMiddle | k,             // R
    kTop | c | kBottom | f | kMiddle,           // S
    kTop | i | l,                               // T
    kRight | kBottom | kLeft,                   // U
    kLeft | j | m,                              // V
    kRight | kLeft | k | m,                     // W
    h | j | k | m,                              // X
    h | j | l,                                  // Y
    kTop | kBottom | j | m,                     // Z
    kTop | b | kBottom | e | kMiddle,           // 2
    kTop | kRight | kBottom | g2,               // 3
    kRight | f | kMiddle,                       // 4
    kTop | c | kBottom | kLeft | kMiddle,       // 6
    kTop | kRight | kBottom | kLeft | kMiddle,  // 8
    kTop | kRight | kBottom | f | kMiddle,      // 9
};

// A wave as sharp as pixels allow: `width` is the number of pixels in a period.
TESSERA_INLINE float sharp(float wave, float width) { return clamp01(0.5F + wave * (width * 0.159F)); }
TESSERA_INLINE float part(float v) { return v - whole(v); }

TESSERA_ROW_LOOP
void letters_row(const Leaf& leaf, const float* u, const float* v, std::int64_t n, float* out) {
  const float line = leaf.period, advance = 0.58F * line;
  const float half_width = 0.19F * line, half_height = 0.30F * line;
  const float stroke = std::max(0.045F * line, 0.5F);  // half of its thickness
  const float left = leaf.half_u - 0.8F * line, top = leaf.half_v - 0.6F * line;
  const auto lines = static_cast<std::int32_t>(2 * top / line);
  const float columns = 2 * left / advance;
  float distance[kTile], x[kTile], y[kTile];
  std::uint32_t strokes[kTile];
  for (std::int64_t p = 0; p < n; ++p) {
    const float at_x = (u[p] + left) / advance, at_y = (v[p] + top) / line;
    const float column = whole(at_x), row = whole(at_y);
    const auto place = static_cast<std::uint32_t>(static_cast<std::int32_t>(row)) * 0x10001U + leaf.bits;
    const std::uint32_t of_line = mix(place);
    const std::uint32_t of_letter =
        mix(place ^ (static_cast<std::uint32_t>(static_cast<std::int32_t>(column)) << 12));
    const float end = columns * (0.55F + 0.45F * static_cast<float>(of_line & 255U) / 255.0F);
    const bool inside = column >= 0 && column < end - 1 && row >= 0 && static_cast<std::int32_t>(row) < lines;
    const bool blank = ((of_letter >> 8) & 7U) == 0;  // between words
    strokes[p] = inside && !blank ? kLetters[of_letter & 31U] : 0U;
    x[p] = (at_x - column) * advance - 0.1F * line;
    y[p] = (at_y - row) * line - 0.2F * line;
    distance[p] = 1e6F;
  }
  for (std::uint32_t s = 0; s < 16; ++s) {
    const float x0 = kStrokes[s].x0 * half_width, y0 = kStrokes[s].y0 * half_height;
    const float dx = kStrokes[s].x1 * half_width - x0, dy = kStrokes[s].y1 * half_height - y0;
    const float scale = 1 / (dx * dx + dy * dy);
    for (std::int64_t p = 0; p < n; ++p) {
      const float qx = x[p] - x0, qy = y[p] - y0;
      const float t = clamp01((qx * dx + qy * dy) * scale);
      const float ex = qx - t * dx, ey = qy - t * dy;
      const float square = ex * ex + ey * ey + ((strokes[p] >> s) & 1U ? 0.0F : 1e6F);
      distance[p] = square < distance[p] ? square : distance[p];
    }
  }
  for (std::int64_t p = 0; p < n; ++p) out[p] = clamp01(0.5F + stroke - std::sqrt(distance[p]));
}

TESSERA_ROW_LOOP
void waves_row(const Leaf& leaf, const float* u, const float* v, const float* coarse, std::int64_t n,
               float* out) {
  const float period = leaf.period, inverse = 1 / period;
  switch (leaf.texture) {
    case Texture::stripes:
      for (std::int64_t p = 0; p < n; ++p) out[p] = sharp(cosine(u[p] * inverse), period);
      break;
    case Texture::wood:
      for (std::int64_t p = 0; p < n; ++p) out[p] = 0.5F + 0.5F * cosine(v[p] * inverse + 5.0F * coarse[p]);
      break;
    case Texture::rings:
      for (std::int64_t p = 0; p < n; ++p)
        out[p] = 0.5F + 0.5F * cosine(std::sqrt(u[p] * u[p] + v[p] * v[p]) * inverse);
      break;
    case Texture::dots:
      for (std::int64_t p = 0; p < n; ++p) {
        const float x = part(u[p] * inverse) - 0.5F, y = part(v[p] * inverse) - 0.5F;
        out[p] = clamp01(0.5F - (std::sqrt(x * x + y * y) - 0.3F) * period);
      }
      break;
    case Texture::checks:
      for (std::int64_t p = 0; p < n; ++p)
        out[p] = sharp(2 * cosine(0.5F * u[p] * inverse) * cosine(0.5F * v[p] * inverse), period);
      break;
    case Texture::windows:
      for (std::int64_t p = 0; p < n; ++p) {
        const float x = u[p] * inverse, y = v[p] * inverse * 0.75F;
        const float column = whole(x), row = whole(y);
        const float dx = std::abs(x - column - 0.5F) - 0.28F, dy = (std::abs(y - row - 0.5F) - 0.32F) * 1.33F;
        const std::uint32_t bits =
            mix(leaf.bits + static_cast<std::uint32_t>(static_cast<std::int32_t>(column)) * 0x10001U +
                (static_cast<std::uint32_t>(static_cast<std::int32_t>(row)) << 13));
        const float light = 0.35F + 0.65F * static_cast<float>(bits & 255U) / 255.0F;
        out[p] = light * clamp01(0.5F - (dx > dy ? dx : dy) * period);
      }
      break;
    case Texture::chirp: {  // from flat on the left to two pixels a period on the right
      const float h = leaf.half_u, q = 1 / (8 * h);
      for (std::int64_t p = 0; p < n; ++p) {
        const float x = u[p] + h;
        const float at = x > 0 ? x : 0;
        out[p] = sharp(cosine(at * at * q), 4 * h / (at + 1));
      }
      break;
    }
    case Texture::star:  // 32 spokes: the 32nd power of a point on the circle
      for (std::int64_t p = 0; p < n; ++p) {
        const float r = std::sqrt(u[p] * u[p] + v[p] * v[p]) + 1e-3F;
        float x = u[p] / r, y = v[p] / r;
        for (int squared = 0; squared < 5; ++squared) {
          const float real = x * x - y * y;
          y = 2 * x * y;
          x = real;
        }
        out[p] = sharp(x, r * 0.19635F);
      }
      break;
    case Texture::zones: {  // rings that narrow to two pixels at the edge
      const float q = 1 / (4 * leaf.half_u);
      for (std::int64_t p = 0; p < n; ++p) {
        const float square = u[p] * u[p] + v[p] * v[p];
        out[p] = sharp(cosine(square * q), 1 / (2 * q * std::sqrt(square) + 0.05F));
      }
      break;
    }
    default:
      for (std::int64_t p = 0; p < n; ++p) out[p] = 0;
  }
}

}  // namespace

void texture_row(const Leaf& leaf, const Row& u, const Row& v, const float* coarse, std::int64_t n,
                 Row& out) {
  if (leaf.texture == Texture::letters)
    letters_row(leaf, u.data(), v.data(), n, out.data());
  else
    waves_row(leaf, u.data(), v.data(), coarse, n, out.data());
}

}  // namespace tessera::scene
