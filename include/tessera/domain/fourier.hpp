// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "tessera/comm/exchange.hpp"
#include "tessera/domain/product_space.hpp"

namespace tessera {

/// Discrete Fourier transform of a real, 2-D array that is spread over ranks.
///
/// Blocks are redistributed to full rows, transformed along them, redistributed to full columns, transformed
/// along those; the inverse goes back the same way. No rank ever holds the image; each direction moves it
/// twice. The spectrum is the half with width / 2 + 1 columns, cut into slabs of columns, one per rank (empty
/// where ranks outnumber columns). Persistent buffers; one caller at a time. Collective: forward, inverse, divide.
class DistributedFourier {
 public:
  /// `blocks`: of `box`, one per rank; a decomposition's image, or the samples of one part of a measurement.
  DistributedFourier(const Layout& blocks, const Box& box, std::int64_t channels, at::TensorOptions options,
                     std::shared_ptr<Transport> transport, int rank);

  DistributedFourier(const ProductSpace::Part& array, at::TensorOptions options,
                     std::shared_ptr<Transport> transport, int rank)
      : DistributedFourier(array.owners, array.box(), array.space.planes(), options, std::move(transport),
                           rank) {}

  /// Transforms this rank's block of x, (C, H, W), into spectrum().
  void forward(const at::Tensor& x);
  /// This rank's columns of the spectrum, (C, height, columns), complex: may be changed in place.
  at::Tensor& spectrum() { return columns_; }
  /// Writes the image of spectrum() into this rank's block of x.
  void inverse(at::Tensor& x);
  /// out <- the image of in's spectrum over 1 + gain * symbol, which is real, (1 or C, height, columns):
  /// (1 + gain A^T A)^-1 in of a circular convolution A with symbol |K|^2. in may be out.
  void divide(const at::Tensor& in, const at::Tensor& symbol, double gain, at::Tensor& out);

  std::int64_t first_column() const { return first_column_; }
  std::int64_t last_column() const { return last_column_; }  // one past it
  /// Bytes this rank sends for one forward plus one inverse transform.
  std::int64_t bytes_sent() const;
  /// The same by arithmetic alone, for any rank. `bytes` per real number.
  static std::int64_t bytes_sent(const Layout& blocks, const Box& box, std::int64_t channels,
                                 std::int64_t bytes, int rank);
  /// The four redistributions of one forward plus one inverse transform: of real numbers the first and the
  /// last, of complex ones the two between.
  static std::array<ExchangePlan, 4> plans(const Layout& blocks, const Box& box, int rank);

 private:
  void to_columns(const at::Tensor& x);  // transformed along the rows
  void from_columns(at::Tensor& x);

  Box block_;         // of this rank
  Box row_slab_;      // full rows of the array
  Box spectrum_row_;  // full rows, half spectrum
  Box spectrum_column_;
  std::int64_t width_ = 0;
  std::int64_t first_column_ = 0, last_column_ = 0;
  std::optional<Exchange> to_rows_, to_columns_, from_columns_, from_rows_;
  bool alone_ = false;        // one rank: nothing to redistribute, rows and columns share their memory
  at::Tensor rows_;           // (C, rows, width)
  at::Tensor spectrum_rows_;  // (C, rows, width / 2 + 1)
  at::Tensor columns_;
};

}  // namespace tessera
