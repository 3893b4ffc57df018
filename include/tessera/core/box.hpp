// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <ostream>

#include "tessera/core/error.hpp"

namespace tessera {

/// A point, an offset or an extent, in pixels: (depth, height, width).
using Index3 = std::array<std::int64_t, 3>;

inline Index3 operator+(const Index3& a, const Index3& b) { return {a[0] + b[0], a[1] + b[1], a[2] + b[2]}; }
inline Index3 operator-(const Index3& a, const Index3& b) { return {a[0] - b[0], a[1] - b[1], a[2] - b[2]}; }

/// Pixels that something needs beyond a block: below its first pixel and above its last one, per axis, >= 0.
struct Reach {
  Index3 lo{};
  Index3 hi{};
  friend bool operator==(const Reach& a, const Reach& b) { return a.lo == b.lo && a.hi == b.hi; }
  /// The larger of both on every side.
  Reach max(const Reach& other) const {
    Reach r;
    for (std::size_t d = 0; d < 3; ++d) {
      r.lo[d] = std::max(lo[d], other.lo[d]);
      r.hi[d] = std::max(hi[d], other.hi[d]);
    }
    return r;
  }
};

/// Half-open block of pixels [lo, hi) in global coordinates.
///
/// Shape: a 2-D image has depth 1. Coordinates may be negative, a halo may leave the image.
/// Empty: a block without pixels is stored as lo = hi = (0, 0, 0), so == compares pixel sets.
/// Errors: corners out of order are a bug of ours, ContractError in checked builds.
/// Host arithmetic, equal on all ranks; not collective, allocates nothing.
/// Source: E. W. Dijkstra, EWD831, on why intervals are half-open.
class Box {
 public:
  Box() = default;
  Box(const Index3& lo, const Index3& hi) {
    for (std::size_t d = 0; d < 3; ++d)
      TESSERA_EXPECT(lo[d] <= hi[d], "box spans [", lo[d], ", ", hi[d], ") on axis ", d,
                     " (lo must not exceed hi) pass the lower corner first");
    if (lo[0] == hi[0] || lo[1] == hi[1] || lo[2] == hi[2]) return;  // stays (0, 0, 0)
    lo_ = lo;
    hi_ = hi;
  }
  /// The box [0, height) x [0, width) at depth 1.
  static Box image2d(std::int64_t height, std::int64_t width) { return {{0, 0, 0}, {1, height, width}}; }

  const Index3& lo() const { return lo_; }
  const Index3& hi() const { return hi_; }
  bool empty() const { return lo_ == hi_; }
  std::int64_t extent(std::size_t axis) const { return hi_[axis] - lo_[axis]; }
  Index3 extents() const { return hi_ - lo_; }
  std::int64_t pixels() const { return extent(0) * extent(1) * extent(2); }

  /// Pixels that lie in both boxes; empty where they only touch.
  Box intersect(const Box& other) const {
    Index3 lo{}, hi{};
    for (std::size_t d = 0; d < 3; ++d) {
      lo[d] = std::max(lo_[d], other.lo_[d]);
      hi[d] = std::max(lo[d], std::min(hi_[d], other.hi_[d]));
    }
    return {lo, hi};
  }
  bool contains(const Box& other) const { return other.empty() || intersect(other) == other; }

  Box shift(const Index3& by) const { return empty() ? Box{} : Box{lo_ + by, hi_ + by}; }
  /// An empty box stays empty: a rank without pixels needs no halo either.
  Box grow(const Reach& reach) const { return empty() ? Box{} : Box{lo_ - reach.lo, hi_ + reach.hi}; }

  /// Smallest box that holds both.
  Box hull(const Box& other) const {
    if (empty()) return other;
    if (other.empty()) return *this;
    Index3 lo{}, hi{};
    for (std::size_t d = 0; d < 3; ++d) {
      lo[d] = std::min(lo_[d], other.lo_[d]);
      hi[d] = std::max(hi_[d], other.hi_[d]);
    }
    return {lo, hi};
  }

  friend bool operator==(const Box& a, const Box& b) { return a.lo_ == b.lo_ && a.hi_ == b.hi_; }
  friend bool operator!=(const Box& a, const Box& b) { return !(a == b); }
  friend std::ostream& operator<<(std::ostream& out, const Box& b) {
    for (std::size_t d = 0; d < 3; ++d) out << (d ? " x [" : "[") << b.lo_[d] << ", " << b.hi_[d] << ')';
    return out;
  }

 private:
  Index3 lo_{};  // first pixel inside
  Index3 hi_{};  // first pixel outside, on each axis
};

}  // namespace tessera
