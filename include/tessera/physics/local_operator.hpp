// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tessera/comm/communicator.hpp"
#include "tessera/comm/exchange_plan.hpp"
#include "tessera/core/image_space.hpp"

namespace tessera {

/// Where a part's samples stand on the image grid: sample k is anchored at image pixel factor * k + offset.
struct Anchor {
  Index3 factor{1, 1, 1};
  Index3 offset{};
};

/// Arithmetic of one apply and one adjoint on one rank, for the cost model.
struct OperatorWork {
  struct Transforms {
    double count = 0, values = 0;  // real transforms of so many values each
    double tiles = 1;              // of the block; a CPU's threads take one each
  };
  double products = 0;  // multiply-adds, tap by tap
  double bytes = 0;     // that these read and write
  std::vector<Transforms> transforms{};
  double moment = 0;  // bytes that it takes while it runs
  double kept = 0;    // bytes that stand all the time: kernels as they are used
  void add(const OperatorWork& other);
};

/// y_c[k] = sum_j taps_c[j] x_c[factor k + offset + origin - j] with the offset of the part's anchor.
struct Convolution {
  at::Tensor taps;  // (1 or C, d, h, w), float64, host; 1: equal on all channels; d = 1 of pictures
  Index3 origin{};  // the tap that meets the sample's own pixel
  Index3 factor{1, 1, 1};
  bool decimates() const { return factor != Index3{1, 1, 1}; }
};

/// Operators of one stack that share work, placed on this rank: kernels transformed, masks cut.
///
/// x is (C, [D,] H, W) over Placement::input, y[i] is (K C, ...) over Placement::samples[i]; any of them may
/// be empty. Linear; float32 or float64; any device. Persistent workspace inside, so one caller at a time.
/// Not collective.
class PlacedOperator {
 public:
  virtual ~PlacedOperator() = default;
  /// Writes A_i x into every y[i].
  virtual void apply(const at::Tensor& x, std::span<const at::Tensor> y) = 0;
  /// x += A_1^T y[0] + A_2^T y[1] + ...
  virtual void adjoint(std::span<const at::Tensor> y, const at::Tensor& x) = 0;
  /// A^T W A at the input's pixels where it is a pointwise product (identity, mask), 1 or C channels; else
  /// undefined. `weights`: of the samples; undefined: W = 1.
  virtual at::Tensor diagonal(const at::Tensor& weights) const { return {}; }
  /// 1 at samples that are measured, 0 at those that are always 0 (a mask's); undefined: all are measured.
  virtual at::Tensor observed() const { return {}; }
};

/// A linear operator whose sample at anchor a needs the image only in [a - reach.lo, a + reach.hi].
///
/// Knows no ranks: place() tells it which pixels it will be given and which samples it is to make, in global
/// coordinates. The caller has applied the border rule. Errors in options are InputError from the factory.
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
  /// All samples of the measurement of an image, in the measurement's own coordinates. InputError where the
  /// image is too small to measure.
  virtual Box measurement(const Box& image) const { return image; }

  /// Reads what belongs to this rank's pixels, such as a mask: before place(), on the blocks of the image.
  /// Collective; InputError on all ranks. What describes the operator was read when it was made.
  virtual void load(const Layout& blocks, const Communicator& comm) {}

  struct Placement {
    ImageSpace image;           // the whole image
    Box input;                  // the pixels given, all that the samples reach
    std::vector<Box> samples;   // to make, per operator of the group
    at::TensorOptions options;  // type and device of x and y
  };
  /// Whether this operator and a later one of its stack, of equal border, are better placed together.
  virtual bool shares_with(const LocalOperator& other) const { return false; }
  /// `group`: this operator first, then those that it shares with. Keeps no reference to them.
  virtual std::unique_ptr<PlacedOperator> place(std::span<const LocalOperator* const> group,
                                                const Placement& placement) const = 0;

  /// What a placed group computes on these samples. By default a pass, or every tap of a box of this reach.
  virtual OperatorWork work(std::span<const LocalOperator* const> group, std::span<const Box> samples,
                            std::int64_t channels) const;

  /// Whether A^T A is a product at each pixel: PlacedOperator::diagonal() is defined.
  virtual bool pointwise() const { return false; }
  /// Whether no entry of the operator is below zero; norms then have bounds from above.
  virtual bool not_negative() const;
  /// The operator as a convolution, whatever stands beyond the image, where it is one.
  virtual std::optional<Convolution> convolution() const { return std::nullopt; }
  /// The same where the image is a torus to it: gives norms and proximal points in closed form.
  std::optional<Convolution> circular() const {
    return border() == Border::circular || reach() == Reach{} ? convolution() : std::nullopt;
  }
};

}  // namespace tessera
