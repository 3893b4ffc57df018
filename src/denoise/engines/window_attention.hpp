// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "tessera/core/box.hpp"
#include "tessera/denoise/graph.hpp"

namespace tessera {

/// Op::window_attention made ready to run: what attend() computes, on parts of an image too.
///
/// Windows of one shape are gathered, some rows of windows at a time, and go through batched products; windows
/// that end with the image are smaller, nothing is masked. Boxes are (1, rows, columns) in the pixels of the
/// layer's level; the image begins at the origin. channels_last. No gradients.
class WindowAttention {
 public:
  /// `positions`: the node's weight in the type and on the device of the arithmetic.
  WindowAttention(const Node& node, const at::Tensor& positions);

  /// x (N, 3 C, H, W), the whole image -> a new tensor (N, C, H, W).
  at::Tensor apply(const at::Tensor& x) const;

  /// Memory that the calls of part() for an image of these sides share: at most what apply() takes.
  at::Tensor scratch(std::int64_t rows, std::int64_t columns, const at::TensorOptions& options) const;
  /// The same in elements.
  static std::int64_t scratch_elements(const Node& node, std::int64_t rows, std::int64_t columns,
                                       bool on_device);
  /// The result on `wanted` into y (N, C, rows, columns of it). x holds the pixels `have`; all that lie in
  /// windows of `wanted` and in `image` must be there.
  void part(const at::Tensor& x, const Box& have, const Box& wanted, const Box& image, const at::Tensor& y,
            const at::Tensor& scratch) const;

  std::int64_t outputs() const { return node_.channels; }

 private:
  struct Span;  // windows in a row or a column that are alike
  void zone(const at::Tensor& x, const Span& rows, const Span& columns, const at::Tensor& y,
            const at::Tensor& scratch) const;

  Node node_;
  at::Tensor bias_;  // (heads, window, window, window, window): query, key
};

}  // namespace tessera
