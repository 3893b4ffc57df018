// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "tessera/comm/array.hpp"
#include "tessera/comm/exchange_plan.hpp"

namespace tessera::test {

/// How a block's elements lie in memory.
enum class Order { channels_first, channels_last, padded };  // padded: gaps after each row and each plane

/// A rank's pixels on the host, with their memory.
template <class T>
class Block {
 public:
  Block(const Box& box, std::int64_t channels, ElementType type, T fill, Order order = Order::channels_first)
      : box_(box), channels_(channels), type_(type) {
    const std::int64_t d = box.extent(0), h = box.extent(1), w = box.extent(2);
    if (order == Order::channels_last) {
      channel_stride_ = 1;
      stride_ = {h * w * channels, w * channels, channels};
    } else {
      const std::int64_t row = order == Order::padded ? 2 * w + 3 : w;
      const std::int64_t plane = order == Order::padded ? h * row + 5 : h * row;
      stride_ = {plane, row, order == Order::padded ? 2 : 1};
      channel_stride_ = d * plane;
    }
    const std::int64_t size =
        order == Order::channels_last ? box.pixels() * channels : channels * channel_stride_;
    values_.assign(static_cast<std::size_t>(size), fill);
  }

  ArrayView view() {
    return {values_.data(), box_, channels_, channel_stride_, stride_, type_, Device{}, nullptr};
  }
  T& at(std::int64_t channel, const Index3& p) {
    const Index3 k = p - box_.lo();
    return values_[static_cast<std::size_t>(channel * channel_stride_ + k[0] * stride_[0] +
                                            k[1] * stride_[1] + k[2] * stride_[2])];
  }
  const Box& box() const { return box_; }
  std::int64_t channels() const { return channels_; }
  std::vector<T>& values() { return values_; }

  /// Calls visit(channel, pixel, value&) for every element, in global order.
  template <class Visit>
  void for_each(Visit visit) {
    for (std::int64_t c = 0; c < channels_; ++c)
      for (std::int64_t z = box_.lo()[0]; z < box_.hi()[0]; ++z)
        for (std::int64_t y = box_.lo()[1]; y < box_.hi()[1]; ++y)
          for (std::int64_t x = box_.lo()[2]; x < box_.hi()[2]; ++x) {
            const Index3 p{z, y, x};
            visit(c, p, at(c, p));
          }
  }

 private:
  Box box_;
  std::int64_t channels_;
  ElementType type_;
  std::int64_t channel_stride_ = 0;
  Index3 stride_{};
  std::vector<T> values_;
};

/// `box` cut into a grid of blocks, uneven where it does not divide, empty where there are too many.
inline Layout grid_layout(const Box& box, const Index3& grid) {
  const auto cut = [&](std::size_t d, std::int64_t k) { return box.lo()[d] + box.extent(d) * k / grid[d]; };
  std::vector<Box> boxes;
  for (std::int64_t a = 0; a < grid[0]; ++a)
    for (std::int64_t b = 0; b < grid[1]; ++b)
      for (std::int64_t c = 0; c < grid[2]; ++c)
        boxes.emplace_back(Index3{cut(0, a), cut(1, b), cut(2, c)},
                           Index3{cut(0, a + 1), cut(1, b + 1), cut(2, c + 1)});
  return Layout(std::move(boxes));
}

/// A grid for this many ranks: as square as it goes in 2-D.
inline Index3 square_grid(int ranks) {
  std::int64_t rows = 1;
  for (std::int64_t r = 1; r * r <= ranks; ++r)
    if (ranks % r == 0) rows = r;
  return {1, rows, ranks / rows};
}

/// A number of its own for every element of an image: tells where a value came from.
inline double address(const Box& image, std::int64_t channel, const Index3& p) {
  const Index3 k = p - image.lo();
  return static_cast<double>(((channel * image.extent(0) + k[0]) * image.extent(1) + k[1]) * image.extent(2) +
                             k[2] + 1);
}

}  // namespace tessera::test
