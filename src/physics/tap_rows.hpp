// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <vector>

#include "spectrum_product.hpp"

namespace tessera {

/// Taps of a kernel, row after row.
template <class T>
struct TapMatrix {
  std::int64_t height = 0, width = 0;
  std::vector<T> weight;
};

/// Output rows that one call makes at most: so many share what is read of the input.
inline constexpr std::int64_t kTapRows = 4;

/// out[r][c] = sum over i, j of weight[i][j] in[r + i][c + j], r < rows, c < n; or out += it. `in` are
/// rows + height - 1 rows of n + width - 1 numbers. A block of outputs is held in registers while the taps go
/// by; every output adds its taps in their order, so that its bits depend on nothing else. For the instruction
/// set of this CPU, chosen when the program starts.
void tap_rows(const float* const* in, const TapMatrix<float>& taps, float* const* out, std::int64_t rows,
              std::int64_t n, Into into);
void tap_rows(const double* const* in, const TapMatrix<double>& taps, double* const* out, std::int64_t rows,
              std::int64_t n, Into into);

}  // namespace tessera
