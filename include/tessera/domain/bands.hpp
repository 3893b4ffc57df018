// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace tessera {

/// The same part of some images, one after the other: what a pass over them works on at once. Parts are flat, of a
/// quarter million numbers, and stay in a core's cache; where images lie in a scratch file the next ones are read beside.
///
/// Images have the same sizes, but for one plane that all channels share; some may be undefined. Images of a device, of
/// strides, of sizes that are spread otherwise, or small ones are one part.
class Bands {
 public:
  explicit Bands(std::span<const at::Tensor> images, bool writes);
  /// The next part of each; false: there is none.
  bool next(std::span<at::Tensor> parts);

 private:
  void read() const;

  std::span<const at::Tensor> images_;
  std::int64_t planes_ = 1, numbers_ = 0;  // that are gone through, and what each has
  std::int64_t plane_ = 0, at_ = 0;
  bool writes_;  // the first
  bool whole_ = false, on_disk_ = false;
};

namespace detail {
template <bool writes, class F, class... T>
void in_bands(F& f, const T&... images) {
  const std::array<at::Tensor, sizeof...(T)> all{images...};
  std::array<at::Tensor, sizeof...(T)> parts;
  for (Bands bands(all, writes); bands.next(parts);) [&]<std::size_t... I>(std::index_sequence<I...>) {
      f(parts[I]...);
    }
  (std::index_sequence_for<T...>{});
}
}  // namespace detail

/// f(out, in...) of parts: elementwise work on images in one pass over them.
template <class F, class... T>
void by_bands(F&& f, const at::Tensor& out, const T&... in) {
  detail::in_bands<true>(f, out, in...);
}
/// f(in...) that writes none of them.
template <class F, class... T>
void read_by_bands(F&& f, const T&... in) {
  detail::in_bands<false>(f, in...);
}

/// What parts add up to: 0-dim tensors of local_dot(), or of other sums. Nothing waits for a device.
class BandSum {
 public:
  void add(const at::Tensor& part) { sum_ = sum_.defined() ? sum_.add(part) : part; }
  const at::Tensor& value() const { return sum_; }

 private:
  at::Tensor sum_;
};

}  // namespace tessera
