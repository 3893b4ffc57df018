// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "spectrum_product.hpp"
#include "tessera/core/box.hpp"

namespace tessera {

/// Rows of (channels, depth, rows, columns) on a host, dense along columns.
template <class T>
struct Rows {
  T* data = nullptr;
  std::int64_t channels = 0;
  Index3 extent{};                        // depth, rows, columns
  std::array<std::int64_t, 3> strides{};  // of channels, depth, rows, in numbers

  T* at(std::int64_t c, std::int64_t z, std::int64_t y) const {
    return data + c * strides[0] + z * strides[1] + y * strides[2];
  }
};

/// out[c][z][y][x] = sum over i, j, k of depth[i] rows[j] columns[k] in[c][z + i - b0][y + j - b1][x + k - b2], or out += it;
/// `in` is 0 outside. Columns first, then rows, then depth, each in the order of its taps: a pixel's bits depend on nothing
/// else. A part of some rows goes through all three while it lies in a core's cache: images are read and written once.
template <class T>
void separable_rows(const Rows<const T>& in, const std::array<std::vector<T>, 3>& taps, const Index3& before,
                    const Rows<T>& out, Into into);

}  // namespace tessera
