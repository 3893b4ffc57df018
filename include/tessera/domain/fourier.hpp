// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "tessera/comm/exchange.hpp"
#include "tessera/domain/product_space.hpp"

namespace tessera {

/// Which axes are transformed. plane: rows and columns, of a volume slice by slice; volume: its depth too.
enum class FourierAxes { plane, volume };

/// An image, or the samples of one part of a measurement, and what is transformed of it.
struct FourierArray {
  ProductSpace::Part part;
  FourierAxes axes = FourierAxes::plane;
};

/// Discrete Fourier transform of a real picture or volume that is spread over ranks.
///
/// Blocks are redistributed to full lines, transformed along them, redistributed to full lines of the other
/// axis, transformed along those; the inverse goes back the same way. No rank ever holds the image; each
/// direction moves it twice. Of a picture the first are its rows, the others its columns; of a volume the first
/// are whole slices, the others stand along its depth, and are left out where slices are transformed one by one.
/// The spectrum is the half with width / 2 + 1 columns, cut into slabs of columns, one per rank (empty where
/// ranks outnumber columns); that of slices stays where the slices are, which slabs of a volume do not leave.
/// Persistent buffers; one caller at a time. Collective: forward, inverse, divide.
class DistributedFourier {
 public:
  DistributedFourier(const FourierArray& array, at::TensorOptions options,
                     std::shared_ptr<Transport> transport, int rank);

  /// Transforms this rank's block of x, (C, [D,] H, W), into spectrum().
  void forward(const at::Tensor& x);
  /// This rank's part of the spectrum, complex, (C, height, columns) of a picture, (C, depth, height, columns) of
  /// a volume, of slices at this rank: may be changed in place.
  at::Tensor& spectrum() { return columns_; }
  /// Writes the image of spectrum() into this rank's block of x.
  void inverse(at::Tensor& x);
  /// in + share * more, or in alone: added up where its rows are transformed, so that it takes no image of its own.
  struct Sum {
    const at::Tensor& in;
    at::Tensor more{};
    double share = 0;
  };
  /// out <- the image of in's spectrum over 1 + gain * symbol, which is real, as a channel of spectrum() or all
  /// of them: (1 or C, [depth,] height, columns), of slices (1, height, columns): (1 + gain A^T A)^-1 in of a
  /// circular convolution A with symbol |K|^2. in may be out; where ranks exchange rows, a sum is made in it.
  void divide(const Sum& in, const at::Tensor& symbol, double gain, at::Tensor& out);

  std::int64_t first_column() const { return first_column_; }
  std::int64_t last_column() const { return last_column_; }  // one past it
  /// A redistribution: of real numbers, or of complex ones.
  struct Turn {
    ExchangePlan plan;
    bool complex = false;
  };
  /// Those of one forward plus one inverse transform, by arithmetic alone, for any rank.
  static std::vector<Turn> plans(const FourierArray& array, int rank);
  /// Bytes that a rank sends for them.
  static std::int64_t bytes_sent(const FourierArray& array, int rank);
  /// Bytes that a rank keeps.
  static double memory(const FourierArray& array, int rank);

 private:
  void to_columns(const Sum& x);  // transformed along all axes but the last
  void from_columns(at::Tensor& x);
  at::Tensor lines(const at::Tensor& spectrum) const;  // the last axis as axis 1 of 3

  Box block_;         // of this rank
  Box row_slab_;      // full rows of the array, or whole slices
  Box spectrum_row_;  // the same of the half spectrum
  Box spectrum_column_;
  std::int64_t width_ = 0;
  std::int64_t first_column_ = 0, last_column_ = 0;
  bool deep_ = false;                             // the last axis is the depth
  bool alone_ = false;                            // one rank: nothing to redistribute
  std::vector<std::unique_ptr<Exchange>> turns_;  // forth and back
  at::Tensor rows_;                               // (C, [D,] rows, width)
  at::Tensor spectrum_rows_;  // (C, [D,] rows, width / 2 + 1); where nothing is turned, columns_
  at::Tensor columns_;
};

}  // namespace tessera
