// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <vector>

#include "overlap_save.hpp"

namespace tessera {

/// One kernel, or one per channel, tap by tap, on a CPU, rows over threads; the bits do not depend on their
/// number.
///
/// A coarser grid of factor f splits pixels and taps by their remainders modulo f: taps of one remainder see
/// the pixels of one remainder as a dense row, so that decimation costs 1 / f^2 of the plain blur both ways.
class TapBlur final : public PlacedOperator {
 public:
  /// `begin`, `end`: rows and columns of the input that the samples need.
  TapBlur(const BankFilter& filter, const Index2& begin, const Index2& end);
  void apply(const at::Tensor& x, std::span<const at::Tensor> y) override;
  void adjoint(std::span<const at::Tensor> y, const at::Tensor& x) override;

 private:
  template <class T>
  void correlate(const at::Tensor& in, const at::Tensor& y) const;
  template <class T>
  void spread_rows(const at::Tensor& y, const at::Tensor& x) const;  // a factor of 1
  template <class T>
  void spread(const at::Tensor& y, const at::Tensor& x) const;

  at::Tensor kernel_;  // (1 or C, h, w), float64, host
  std::int64_t factor_;
  Index2 begin_, end_;
};

}  // namespace tessera
