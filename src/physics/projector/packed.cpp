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

PackedShape::PackedShape(const Box& b, std::int64_t margin_floats) : block(b), margin(margin_floats) {
  first_slice = down_to(b.lo()[0], kAlign);
  slices = down_to(b.hi()[0] + kAlign - 1, kAlign) - first_slice;
  pixel = slices + margin;                     // the zeros behind one pixel are those before the next
  if (pixel / kLine % 2 == 0) pixel += kLine;  // neighbors fall into different sets of the cache
  row = (b.extent(2) + 2) * pixel;
  floats = 2 * margin + (b.extent(1) + 2) * row;
}

void pack(const PackedShape& s, const float* x, float* to) {
  const std::int64_t high = s.block.extent(1), wide = s.block.extent(2), deep = s.block.extent(0);
  const std::int64_t before = s.block.lo()[0] - s.first_slice;
  std::fill_n(to, s.margin, 0.0F);
  std::fill_n(to + s.floats - s.margin, s.margin, 0.0F);
  at::parallel_for(0, high + 2, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t h = begin; h < end; ++h) {
      float* row = to + s.margin + h * s.row;
      if (h == 0 || h == high + 1) {
        std::fill_n(row, s.row, 0.0F);
        continue;
      }
      std::fill_n(row, s.pixel, 0.0F);
      std::fill_n(row + (wide + 1) * s.pixel, s.pixel, 0.0F);
      for (std::int64_t left = 0; left < wide; left += kBlock) {
        const std::int64_t n = std::min(kBlock, wide - left);
        float* pixels = row + (left + 1) * s.pixel;
        for (std::int64_t w = 0; w < n; ++w) {
          std::fill_n(pixels + w * s.pixel, before, 0.0F);
          std::fill(pixels + w * s.pixel + before + deep, pixels + (w + 1) * s.pixel, 0.0F);
        }
        for (std::int64_t d = 0; d < deep; ++d) {
          const float* from = x + (d * high + h - 1) * wide + left;
          for (std::int64_t w = 0; w < n; ++w) pixels[w * s.pixel + before + d] = from[w];
        }
      }
    }
  });
}

void unpack(const PackedShape& s, const float* from, float* x, ProjectorInto into) {
  const std::int64_t high = s.block.extent(1), wide = s.block.extent(2), deep = s.block.extent(0);
  const std::int64_t before = s.block.lo()[0] - s.first_slice;
  at::parallel_for(0, high, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t h = begin; h < end; ++h) {
      for (std::int64_t left = 0; left < wide; left += kBlock) {
        const std::int64_t n = std::min(kBlock, wide - left);
        const float* pixels = from + s.margin + (h + 1) * s.row + (left + 1) * s.pixel + before;
        for (std::int64_t d = 0; d < deep; ++d) {
          float* to = x + (d * high + h) * wide + left;
          if (into == ProjectorInto::replace)
            for (std::int64_t w = 0; w < n; ++w) to[w] = pixels[w * s.pixel + d];
          else
            for (std::int64_t w = 0; w < n; ++w) to[w] += pixels[w * s.pixel + d];
        }
      }
    }
  });
}

PlaneSpan plane_span(const PackedShape& s, std::size_t main, std::int64_t h0, std::int64_t h1,
                     std::int64_t w0, std::int64_t w1) {
  return main == 1 ? PlaneSpan{h0, h1 - h0, w0, w1 - w0, s.row, s.pixel}
                   : PlaneSpan{w0, w1 - w0, h0, h1 - h0, s.pixel, s.row};
}

RowParts::RowParts(const RowSlices& rows, std::int64_t first, std::int64_t last) {
  for (std::int64_t j = first; j < last; ++j) {
    const double z = rows.start + rows.step * static_cast<double>(j), down = std::floor(z);
    slice.push_back(static_cast<std::int64_t>(down));
    above.push_back(static_cast<float>(z - down));
  }
}

}  // namespace tessera
