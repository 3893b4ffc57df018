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

std::int64_t MeasurementLayout::samples() const {
  std::int64_t sum = 0;
  for (const Part& p : parts_) sum += p.channels * p.box.pixels();
  return sum;
}

Layout anchored_layout(const Decomposition& decomposition, const Box& samples, const Anchor& anchor) {
  const Box& image = decomposition.image();
  for (std::size_t d = 0; d < 3 && !samples.empty(); ++d) {
    const std::int64_t f = anchor.factor[d], o = anchor.offset[d];
    TESSERA_EXPECT(f * samples.lo()[d] + o >= image.lo()[d] && f * (samples.hi()[d] - 1) + o < image.hi()[d],
                   "samples are anchored outside the image on axis ", d,
                   " (no rank would own them) move the anchor inside");
  }
  std::vector<Box> boxes;
  for (int rank = 0; rank < decomposition.ranks(); ++rank) {
    const Box pixels = decomposition.block(rank);
    Index3 lo{}, hi{};
    for (std::size_t d = 0; d < 3 && !pixels.empty(); ++d) {
      lo[d] = first_anchor(pixels.lo()[d], anchor.factor[d], anchor.offset[d]);
      hi[d] = first_anchor(pixels.hi()[d], anchor.factor[d], anchor.offset[d]);
    }
    boxes.push_back(samples.empty() ? Box() : Box(lo, hi).intersect(samples));
  }
  return Layout(std::move(boxes));
}

MeasurementLayout::Part anchored_part(const Decomposition& decomposition, const LocalOperator& op,
                                      std::int64_t channels) {
  const Box samples = op.measurement(decomposition.image());
  return {op.name(),
          samples,
          op.channels(channels),
          anchored_layout(decomposition, samples, op.anchor()),
          op.anchor(),
          axes_of(decomposition.image()) == Axes::volume};
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
