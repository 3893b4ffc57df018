// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <string>

#include "tessera/comm/exchange_plan.hpp"
#include "tessera/core/box.hpp"

namespace tessera {

/// Where a part's samples stand on the image grid: sample k is anchored at image pixel factor * k + offset.
struct Anchor {
  Index3 factor{1, 1, 1};
  Index3 offset{};
};

/// A linear operator whose sample at anchor a needs the image only in [a - reach.lo, a + reach.hi].
///
/// Knows no ranks: it is told which pixels it will be given and which samples it is to make, in global
/// coordinates. Shapes: x is (C, [D,] H, W) over `input` (this rank's pixels with their surroundings, border
/// rule applied by the caller), y is (K C, ...) over `samples`. Both may be empty. Linear, any floating type,
/// any device. Not collective. Errors in options are InputError from the constructor.
class LocalOperator {
 public:
  virtual ~LocalOperator() = default;
  virtual std::string name() const = 0;

  /// Channels of y for channels of x.
  virtual std::int64_t channels(std::int64_t of_image) const { return of_image; }
  virtual Reach reach() const { return {}; }
  virtual Anchor anchor() const { return {}; }
  /// What stands beyond the image; none where nothing is needed there.
  virtual Border border() const { return Border::none; }
  /// All samples of the measurement of an image, in the measurement's own coordinates.
  virtual Box measurement(const Box& image) const { return image; }

  /// A copy of the operator placed at these boxes: kernels transformed, mask cut. `image` is the global one.
  struct Placement {
    Box image, input, samples;
    std::int64_t channels = 1;  // of the image
    at::TensorOptions options;  // type and device of x and y
  };
  virtual std::unique_ptr<LocalOperator> place(const Placement& placement) const = 0;

  /// y <- A x. Only on a placed operator; persistent workspace inside, so one caller at a time.
  virtual void apply(const at::Tensor& x, at::Tensor& y) = 0;
  /// x += A^T y.
  virtual void adjoint(const at::Tensor& y, at::Tensor& x) = 0;

  /// |A|^2 over the whole image where a formula gives it.
  virtual std::optional<double> norm_squared(const Box& image) const { return std::nullopt; }
  /// True where A^T A is a pointwise product (identity, mask); then diagonal() gives it at the input's
  /// pixels.
  virtual bool is_diagonal() const { return false; }
  virtual at::Tensor diagonal() const { return {}; }
};

}  // namespace tessera
