// SPDX-License-Identifier: BSD-3-Clause
#include "tap_rows.hpp"

#include <algorithm>
#include <cstring>

#include "tessera/core/for_this_cpu.hpp"

namespace tessera {
namespace {

// Sums of output rows 0 to kRows - 1 in kVectors vectors of columns.
template <int kRows, int kVectors, class Vector>
using Sums = Vector[kRows][kVectors];

// An input row and what it gives to output rows kFirst to kLast; `weight`: the row of taps that meets kFirst. The
// one above it in the matrix meets the next output row.
template <int kFirst, int kLast, int kRows, int kVectors, class Vector, class T>
[[gnu::always_inline]] inline void add_line(const T* in, const T* weight, std::int64_t width,
                                            Sums<kRows, kVectors, Vector>& sum) {
  constexpr std::int64_t kLanes = sizeof(Vector) / sizeof(T);
  for (std::int64_t j = 0; j < width; ++j) {
    Vector x[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      Vector read;
      std::memcpy(&read, in + j + v * kLanes, sizeof read);
      in_register(read);
      x[v] = read;
    }
#pragma GCC unroll 4
    for (int r = kFirst; r <= kLast; ++r) {
      const T w = weight[j - (r - kFirst) * width];
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sum[r][v] += w * x[v];
    }
  }
}

template <int kRows, int kVectors, class Vector, class T>
[[gnu::always_inline]] inline void add_taps(const T* const* in, std::int64_t at, const TapMatrix<T>& taps,
                                            Sums<kRows, kVectors, Vector>& sum) {
  static_assert(kRows == 1 || kRows == 2 || kRows == 4);
  const std::int64_t h = taps.height, w = taps.width;  // h >= kRows
  const T* first = taps.weight.data();
  const T* last = first + (h - 1) * w;
  // The first and the last input rows meet some of the output rows.
  if constexpr (kRows > 1) add_line<0, 0, kRows, kVectors, Vector>(in[0] + at, first, w, sum);
  if constexpr (kRows > 2) {
    add_line<0, 1, kRows, kVectors, Vector>(in[1] + at, first + w, w, sum);
    add_line<0, 2, kRows, kVectors, Vector>(in[2] + at, first + 2 * w, w, sum);
  }
  for (std::int64_t i = kRows - 1; i < h; ++i)
    add_line<0, kRows - 1, kRows, kVectors, Vector>(in[i] + at, first + i * w, w, sum);
  if constexpr (kRows > 1) add_line<1, kRows - 1, kRows, kVectors, Vector>(in[h] + at, last, w, sum);
  if constexpr (kRows > 2) {
    add_line<2, 3, kRows, kVectors, Vector>(in[h + 1] + at, last, w, sum);
    add_line<3, 3, kRows, kVectors, Vector>(in[h + 2] + at, last, w, sum);
  }
}

// Columns [c, n) of the block that begins at column `at` <= c.
template <int kRows, int kVectors, class Vector, class T>
[[gnu::always_inline]] inline void block(const T* const* in, std::int64_t at, const TapMatrix<T>& taps,
                                         T* const* out, std::int64_t c, Into into) {
  constexpr std::int64_t kLanes = sizeof(Vector) / sizeof(T);
  Vector sum[kRows][kVectors] = {};
  add_taps<kRows, kVectors, Vector>(in, at, taps, sum);
  for (int r = 0; r < kRows; ++r) {
    T* to = out[r] + at;
    if (into == Into::replace) {
      std::memcpy(to, sum[r], sizeof sum[r]);
    } else if (c == at) {
      for (int v = 0; v < kVectors; ++v) {
        Vector before;
        std::memcpy(&before, to + v * kLanes, sizeof before);
        before += sum[r][v];
        std::memcpy(to + v * kLanes, &before, sizeof before);
      }
    } else {
      T line[kVectors * kLanes];
      std::memcpy(line, sum[r], sizeof line);
      for (std::int64_t k = c - at; k < kVectors * kLanes; ++k) to[k] += line[k];
    }
  }
}

template <int kRows, int kMany, class Vector, class T>
[[gnu::always_inline]] inline void some_rows(const T* const* in, const TapMatrix<T>& taps, T* const* out,
                                             std::int64_t n, Into into) {
  constexpr std::int64_t kLanes = sizeof(Vector) / sizeof(T);
  // The last block ends at n and makes some columns of the one before again.
  if (n >= kMany * kLanes) {
    for (std::int64_t c = 0; c < n; c += kMany * kLanes)
      block<kRows, kMany, Vector>(in, std::min(c, n - kMany * kLanes), taps, out, c, into);
    return;
  }
  if (n >= kLanes) {
    for (std::int64_t c = 0; c < n; c += kLanes)
      block<kRows, 1, Vector>(in, std::min(c, n - kLanes), taps, out, c, into);
    return;
  }
  for (int r = 0; r < kRows; ++r)
    for (std::int64_t c = 0; c < n; ++c) {
      T sum = 0;
      for (std::int64_t i = 0; i < taps.height; ++i)
        for (std::int64_t j = 0; j < taps.width; ++j)
          sum += taps.weight[static_cast<std::size_t>(i * taps.width + j)] * in[r + i][c + j];
      out[r][c] = into == Into::add ? out[r][c] + sum : sum;
    }
}

template <class T>
struct TapRows {
  template <int kBytes>
  [[gnu::always_inline]] static void row(const T* const* in, const TapMatrix<T>& taps, T* const* out,
                                         std::int64_t rows, std::int64_t n, Into into) {
    using Vector = typename Register<T, kBytes>::Type;
    // Sums under way: as many as registers hold beside what is read, and as hide the time of a multiplication.
    constexpr int kMany = kBytes == 64 ? 3 : 2;
    for (std::int64_t r = 0; r < rows;) {
      const std::int64_t left = std::min(rows - r, taps.height);
      if (left >= kTapRows) {
        some_rows<kTapRows, kMany, Vector>(in + r, taps, out + r, n, into);
        r += kTapRows;
      } else if (left >= 2) {
        some_rows<2, 4, Vector>(in + r, taps, out + r, n, into);
        r += 2;
      } else {
        some_rows<1, 4, Vector>(in + r, taps, out + r, n, into);
        ++r;
      }
    }
  }
};

template <class T>
void rows_of(const T* const* in, const TapMatrix<T>& taps, T* const* out, std::int64_t rows, std::int64_t n,
             Into into) {
  ForThisCpu<TapRows<T>, const T* const*, const TapMatrix<T>&, T* const*, std::int64_t, std::int64_t,
             Into>::row(in, taps, out, rows, n, into);
}

}  // namespace

void tap_rows(const float* const* in, const TapMatrix<float>& taps, float* const* out, std::int64_t rows,
              std::int64_t n, Into into) {
  rows_of(in, taps, out, rows, n, into);
}
void tap_rows(const double* const* in, const TapMatrix<double>& taps, double* const* out, std::int64_t rows,
              std::int64_t n, Into into) {
  rows_of(in, taps, out, rows, n, into);
}

}  // namespace tessera
