// SPDX-License-Identifier: BSD-3-Clause
#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "block_projector.hpp"

namespace tessera {
namespace {

constexpr std::int64_t kLine = 16;   // floats of a cache line
constexpr std::int64_t kBlock = 32;  // pixels that are turned at a time

std::int64_t down_to(std::int64_t x, std::int64_t step) { return x - ((x % step) + step) % step; }

}  // namespace

FloatRoom::FloatRoom(std::int64_t floats) : storage_(at::empty({floats}, at::kFloat)), size_(floats) {
  data_ = storage_.mutable_data_ptr<float>();
}

void FloatRoom::zero() {
  at::parallel_for(0, size_, 1 << 16, [&](std::int64_t begin, std::int64_t end) {
    std::fill(data_ + begin, data_ + end, 0.0F);
  });
}

int taps_of(const ViewTraits& traits) {
  return std::max(1, static_cast<int>(std::ceil(2 / traits.closest - kLeastWeight)));
}

PackedShape::PackedShape(const Box& b, std::int64_t thick_slices, std::int64_t margin_floats)
    : block(b), margin(margin_floats) {
  first_slice = down_to(b.lo()[0], kAlign);
  slices = down_to(b.hi()[0] + kAlign - 1, kAlign) - first_slice;
  thick = thick_slices > 0 ? std::min(thick_slices, slices) : slices;
  layers = (slices + thick - 1) / thick;
  // Pixels below each other fall into different sets of the cache: an odd number of lines apart, or of
  // pixels.
  pixel = thick + margin;  // the zeros behind one pixel are those before the next
  if (margin > 0 && pixel / kLine % 2 == 0) pixel += kLine;
  row = (b.extent(2) + 2) * pixel;
  if (row / pixel % 2 == 0) row += pixel;
  layer = (b.extent(1) + 2) * row;
  floats = 2 * margin + layers * layer;
}

namespace {

// Calls work(layer, h, first pixel of some, how many, its first slice, slices) for all of a block, by
// threads.
template <class Work>
void by_rows(const PackedShape& s, Work work) {
  const std::int64_t high = s.block.extent(1), wide = s.block.extent(2);
  at::parallel_for(0, s.layers * high, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = begin; n < end; ++n) {
      const std::int64_t from = s.first_slice + n / high * s.thick;
      const std::int64_t lo = std::max(from, s.block.lo()[0]), hi = std::min(from + s.thick, s.block.hi()[0]);
      for (std::int64_t left = 0; left < wide; left += kBlock)
        work(n / high, n % high, left, std::min(kBlock, wide - left), lo, hi);
    }
  });
}

}  // namespace

void pack(const PackedShape& s, const float* x, float* to) {
  const std::int64_t high = s.block.extent(1), wide = s.block.extent(2);
  std::fill_n(to, s.margin, 0.0F);
  std::fill_n(to + s.floats - s.margin, s.margin, 0.0F);
  at::parallel_for(0, s.layers * 2, 1,
                   [&](std::int64_t begin, std::int64_t end) {  // rows of zeros around layers
                     for (std::int64_t n = begin; n < end; ++n)
                       std::fill_n(to + s.margin + n / 2 * s.layer + n % 2 * (high + 1) * s.row, s.row, 0.0F);
                   });
  by_rows(s, [&](std::int64_t layer, std::int64_t h, std::int64_t left, std::int64_t n, std::int64_t lo,
                 std::int64_t hi) {
    float* row = to + s.margin + layer * s.layer + (h + 1) * s.row;
    if (left == 0) {
      std::fill_n(row, s.pixel, 0.0F);
      std::fill(row + (wide + 1) * s.pixel, row + s.row, 0.0F);
    }
    float* pixels = row + (left + 1) * s.pixel;
    const std::int64_t before = lo - (s.first_slice + layer * s.thick), deep = hi - lo;
    for (std::int64_t w = 0; w < n; ++w) {
      std::fill_n(pixels + w * s.pixel, before, 0.0F);
      std::fill(pixels + w * s.pixel + before + deep, pixels + (w + 1) * s.pixel, 0.0F);
    }
    for (std::int64_t d = 0; d < deep; ++d) {
      const float* from = x + ((lo - s.block.lo()[0] + d) * high + h) * wide + left;
      for (std::int64_t w = 0; w < n; ++w) pixels[w * s.pixel + before + d] = from[w];
    }
  });
}

void unpack(const PackedShape& s, const float* from, float* x, ProjectorInto into) {
  const std::int64_t high = s.block.extent(1), wide = s.block.extent(2);
  by_rows(s, [&](std::int64_t layer, std::int64_t h, std::int64_t left, std::int64_t n, std::int64_t lo,
                 std::int64_t hi) {
    const float* pixels = from + s.margin + layer * s.layer + (h + 1) * s.row + (left + 1) * s.pixel + lo -
                          (s.first_slice + layer * s.thick);
    for (std::int64_t d = 0; d < hi - lo; ++d) {
      float* to = x + ((lo - s.block.lo()[0] + d) * high + h) * wide + left;
      if (into == ProjectorInto::replace)
        for (std::int64_t w = 0; w < n; ++w) to[w] = pixels[w * s.pixel + d];
      else
        for (std::int64_t w = 0; w < n; ++w) to[w] += pixels[w * s.pixel + d];
    }
  });
}

PlaneSpan plane_span(const PackedShape& s, std::size_t main, std::int64_t h0, std::int64_t h1,
                     std::int64_t w0, std::int64_t w1) {
  return main == 1 ? PlaneSpan{h0, h1 - h0, w0, w1 - w0, -1, s.row, s.pixel}
                   : PlaneSpan{w0, w1 - w0, h0, h1 - h0, -1, s.pixel, s.row};
}

RowParts::RowParts(const RowSlices& rows, std::int64_t first, std::int64_t last) {
  for (std::int64_t j = first; j < last; ++j) {
    const double z = rows.start + rows.step * static_cast<double>(j), down = std::floor(z);
    slice.push_back(static_cast<std::int64_t>(down));
    above.push_back(static_cast<float>(z - down));
  }
}

}  // namespace tessera
