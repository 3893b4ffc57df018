// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/domain/measurement_layout.hpp"

#include <utility>

#include "tessera/core/error.hpp"

namespace tessera {
namespace {

// Smallest k with factor * k + offset >= pixel.
std::int64_t first_anchor(std::int64_t pixel, std::int64_t factor, std::int64_t offset) {
  const std::int64_t n = pixel - offset;
  return n >= 0 ? (n + factor - 1) / factor : -(-n / factor);
}

}  // namespace

MeasurementLayout::MeasurementLayout(const Decomposition& decomposition, std::vector<Part> parts)
    : decomposition_(decomposition), parts_(std::move(parts)) {
  for (const Part& p : parts_)
    for (std::size_t d = 0; d < 3 && !p.box.empty(); ++d) {
      const std::int64_t f = p.anchor.factor[d], o = p.anchor.offset[d];
      TESSERA_EXPECT(f * p.box.lo()[d] + o >= decomposition_.image().lo()[d] &&
                         f * (p.box.hi()[d] - 1) + o < decomposition_.image().hi()[d],
                     "part ", p.name, " has samples anchored outside the image on axis ", d,
                     " (no rank would own them) move the anchor inside");
    }
}

Box MeasurementLayout::block(std::size_t i, int rank) const {
  const Part& p = parts_[i];
  const Box pixels = decomposition_.block(rank);
  if (pixels.empty() || p.box.empty()) return {};
  Index3 lo{}, hi{};
  for (std::size_t d = 0; d < 3; ++d) {
    lo[d] = first_anchor(pixels.lo()[d], p.anchor.factor[d], p.anchor.offset[d]);
    hi[d] = first_anchor(pixels.hi()[d], p.anchor.factor[d], p.anchor.offset[d]);
  }
  return Box(lo, hi).intersect(p.box);
}

Layout MeasurementLayout::layout(std::size_t i) const {
  std::vector<Box> boxes;
  for (int rank = 0; rank < decomposition_.ranks(); ++rank) boxes.push_back(block(i, rank));
  return Layout(std::move(boxes));
}

std::int64_t MeasurementLayout::samples() const {
  std::int64_t sum = 0;
  for (const Part& p : parts_) sum += p.channels * p.box.pixels();
  return sum;
}

}  // namespace tessera
