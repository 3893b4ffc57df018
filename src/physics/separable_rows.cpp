// SPDX-License-Identifier: BSD-3-Clause
#include "separable_rows.hpp"

#include <ATen/Parallel.h>

#include <algorithm>
#include <memory>

#include "tap_rows.hpp"
#include "tessera/core/scratch.hpp"

namespace tessera {
namespace {

// Of a part: slices, rows and columns of `out` that are made together. Slices follow one another, of which as many as there
// are taps are kept: some 0.7 MB with eleven taps.
constexpr Index3 kPart{64, 24, 512};
constexpr std::int64_t kFewSlices = 16;  // of an image in a file

template <class T>
class SeparablePart {
 public:
  SeparablePart(const Rows<const T>& in, const std::array<std::vector<T>, 3>& taps, const Index3& before,
                const Rows<T>& out, Into into)
      : in_(in), out_(out), before_(before), into_(into) {
    const auto n = [&](std::size_t d) { return static_cast<std::int64_t>(taps[d].size()); };
    depth_ = {n(0), 1, taps[0]};
    rows_ = {n(1), 1, taps[1]};
    columns_ = {1, n(2), taps[2]};
    for (std::size_t d = 0; d < 3; ++d) part_[d] = std::min(kPart[d], out.extent[d]);
    // Slices that are gone over again for their next rows are not to be taken from memory meanwhile.
    if (has_scratch()) part_[0] = std::min(kFewSlices, part_[0]);
    kept_ = depth_.height + kTapRows - 1;
    edge_ = part_[2] + columns_.width - 1;
    lines_ = part_[1] + rows_.height - 1;
  }

  Index3 parts() const {
    Index3 n{};
    for (std::size_t d = 0; d < 3; ++d) n[d] = part_[d] > 0 ? (out_.extent[d] + part_[d] - 1) / part_[d] : 0;
    return n;
  }
  std::int64_t room() const { return kTapRows * edge_ + lines_ * part_[2] + kept_ * part_[1] * part_[2]; }
  // The part of this number in each axis.
  void make(std::int64_t c, const Index3& number, T* room) {
    Index3 lo{}, n{};
    for (std::size_t d = 0; d < 3; ++d) {
      lo[d] = number[d] * part_[d];
      n[d] = std::min(part_[d], out_.extent[d] - lo[d]);
    }
    T* const edges = room;
    T* const filtered = edges + kTapRows * edge_;
    T* const kept = filtered + lines_ * part_[2];
    const auto slice = [&](std::int64_t z) { return kept + z % kept_ * part_[1] * part_[2]; };
    std::int64_t ready = lo[0];
    std::vector<const T*> from(static_cast<std::size_t>(kept_));
    std::array<T*, kTapRows> to{};
    for (std::int64_t z = lo[0]; z < lo[0] + n[0]; z += kTapRows) {
      const std::int64_t some = std::min(kTapRows, lo[0] + n[0] - z);
      for (; ready < z + some + depth_.height - 1; ++ready)
        make_slice(c, ready - before_[0], lo, n, edges, filtered, slice(ready));
      for (std::int64_t y = 0; y < n[1]; ++y) {
        for (std::int64_t k = 0; k < some + depth_.height - 1; ++k)
          from[static_cast<std::size_t>(k)] = slice(z + k) + y * n[2];
        for (std::int64_t k = 0; k < some; ++k)
          to[static_cast<std::size_t>(k)] = out_.at(c, z + k, lo[1] + y) + lo[2];
        tap_rows(from.data(), depth_, to.data(), some, n[2], into_);
      }
    }
  }

 private:
  // Columns and rows of one slice of the input.
  void make_slice(std::int64_t c, std::int64_t z, const Index3& lo, const Index3& n, T* edges, T* filtered,
                  T* out) const {
    if (z < 0 || z >= in_.extent[0]) {
      std::fill_n(out, n[1] * n[2], T(0));
      return;
    }
    const std::int64_t lines = n[1] + rows_.height - 1, first = lo[1] - before_[1],
                       width = n[2] + columns_.width - 1, left = lo[2] - before_[2];
    const bool inside = left >= 0 && left + width <= in_.extent[2];
    std::array<const T*, kTapRows> from{};
    std::array<T*, kTapRows> to{};
    for (std::int64_t y = 0; y < lines; y += kTapRows) {
      const std::int64_t some = std::min(kTapRows, lines - y);
      for (std::int64_t k = 0; k < some; ++k) {
        const auto i = static_cast<std::size_t>(k);
        to[i] = filtered + (y + k) * n[2];
        const std::int64_t row = first + y + k;
        const bool there = row >= 0 && row < in_.extent[1];
        from[i] = inside && there
                      ? in_.at(c, z, row) + left
                      : continued(there ? in_.at(c, z, row) : nullptr, left, width, edges + k * edge_);
      }
      tap_rows(from.data(), columns_, to.data(), some, n[2], Into::replace);
    }
    std::vector<const T*> above(static_cast<std::size_t>(kTapRows + rows_.height - 1));
    for (std::int64_t y = 0; y < n[1]; y += kTapRows) {
      const std::int64_t some = std::min(kTapRows, n[1] - y);
      for (std::int64_t k = 0; k < some + rows_.height - 1; ++k)
        above[static_cast<std::size_t>(k)] = filtered + (y + k) * n[2];
      for (std::int64_t k = 0; k < some; ++k) to[static_cast<std::size_t>(k)] = out + (y + k) * n[2];
      tap_rows(above.data(), rows_, to.data(), some, n[2], Into::replace);
    }
  }
  // Columns from `left` on of a row, zeros beyond its ends; null: a row of them.
  const T* continued(const T* row, std::int64_t left, std::int64_t width, T* to) const {
    std::fill_n(to, width, T(0));
    const std::int64_t lo = std::max<std::int64_t>(0, left), hi = std::min(in_.extent[2], left + width);
    if (row && lo < hi) std::copy(row + lo, row + hi, to + (lo - left));
    return to;
  }

  Rows<const T> in_;
  Rows<T> out_;
  TapMatrix<T> depth_, rows_, columns_;
  Index3 before_, part_{};
  Into into_;
  std::int64_t kept_ = 0, edge_ = 0, lines_ = 0;
};

}  // namespace

template <class T>
void separable_rows(const Rows<const T>& in, const std::array<std::vector<T>, 3>& taps, const Index3& before,
                    const Rows<T>& out, Into into) {
  SeparablePart<T> part(in, taps, before, out, into);
  const Index3 n = part.parts();
  const std::int64_t each = n[0] * n[1] * n[2];
  at::parallel_for(0, out.channels * each, 1, [&](std::int64_t begin, std::int64_t end) {
    const auto room = std::make_unique_for_overwrite<T[]>(static_cast<std::size_t>(part.room()));
    for (std::int64_t k = begin; k < end; ++k) {
      const std::int64_t at = k % each;
      part.make(k / each, {at / (n[1] * n[2]), at / n[2] % n[1], at % n[2]}, room.get());
    }
  });
}

template void separable_rows(const Rows<const float>&, const std::array<std::vector<float>, 3>&,
                             const Index3&, const Rows<float>&, Into);
template void separable_rows(const Rows<const double>&, const std::array<std::vector<double>, 3>&,
                             const Index3&, const Rows<double>&, Into);

}  // namespace tessera
