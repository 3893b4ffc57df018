// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/domain/product_space.hpp"

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

ProductSpace::ProductSpace(const ImageSpace& image, const Decomposition& decomposition)
    : parts_{{"image", image, decomposition.layout()}} {
  TESSERA_EXPECT(image.box == decomposition.image(), "an image of ", image.box, " is cut as one of ",
                 decomposition.image());
}

std::int64_t ProductSpace::values() const {
  std::int64_t sum = 0;
  for (const Part& p : parts_) sum += p.space.values();
  return sum;
}

std::int64_t ProductSpace::values(int rank) const {
  std::int64_t sum = 0;
  for (const Part& p : parts_) sum += p.space.values(p.block(rank));
  return sum;
}

ProductSpace ProductSpace::slice(std::size_t first, std::size_t count) const {
  const auto begin = parts_.begin() + static_cast<std::ptrdiff_t>(first);
  return ProductSpace({begin, begin + static_cast<std::ptrdiff_t>(count)});
}

ProductSpace ProductSpace::held_as(std::int64_t element_bytes) const {
  ProductSpace other = *this;
  for (Part& p : other.parts_) p.space.element_bytes = element_bytes;
  return other;
}

void ProductSpace::append(const ProductSpace& other) {
  parts_.insert(parts_.end(), other.parts_.begin(), other.parts_.end());
}

Layout anchored_layout(const ProductSpace::Part& image, const Box& samples, const Anchor& anchor) {
  for (std::size_t d = 0; d < 3 && !samples.empty(); ++d) {
    const std::int64_t f = anchor.factor[d], o = anchor.offset[d];
    TESSERA_EXPECT(
        f * samples.lo()[d] + o >= image.box().lo()[d] && f * (samples.hi()[d] - 1) + o < image.box().hi()[d],
        "samples are anchored outside the image on axis ", d,
        " (no rank would own them) move the anchor inside");
  }
  std::vector<Box> boxes;
  for (int rank = 0; rank < image.owners.ranks(); ++rank) {
    const Box& pixels = image.block(rank);
    Index3 lo{}, hi{};
    for (std::size_t d = 0; d < 3 && !pixels.empty(); ++d) {
      lo[d] = first_anchor(pixels.lo()[d], anchor.factor[d], anchor.offset[d]);
      hi[d] = first_anchor(pixels.hi()[d], anchor.factor[d], anchor.offset[d]);
    }
    boxes.push_back(samples.empty() ? Box() : Box(lo, hi).intersect(samples));
  }
  return Layout(std::move(boxes));
}

ProductSpace::Part anchored_part(const ProductSpace::Part& image, const LocalOperator& op) {
  const Anchor anchor = op.anchor();
  const Box samples = op.measurement(image.box());
  ImageSpace space = image.space.on(samples).with_channels(op.channels(image.space.channels));
  for (std::size_t d = 0; d < 3; ++d) space.grid[d].spacing *= static_cast<double>(anchor.factor[d]);
  return {op.name(), std::move(space), anchored_layout(image, samples, anchor), anchor};
}

Layout even_layout(const Box& samples, int ranks) {
  std::size_t axis = 0;
  for (std::size_t d = 1; d < 3; ++d)
    if (samples.extent(d) > samples.extent(axis)) axis = d;
  std::vector<Box> boxes;
  for (std::int64_t r = 0; r < ranks; ++r) {
    Index3 lo = samples.lo(), hi = samples.hi();
    const std::int64_t n = samples.extent(axis);
    hi[axis] = lo[axis] + n * (r + 1) / ranks;
    lo[axis] += n * r / ranks;
    boxes.emplace_back(lo, hi);
  }
  return Layout(std::move(boxes));
}

}  // namespace tessera
