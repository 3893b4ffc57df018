// SPDX-License-Identifier: BSD-3-Clause
// 2x2 convolutions of stride 2 and their transposes as matrix products: pixels by channels times channels by
// outputs, straight from and to the features. Included by winograd_kernels.hpp's two files.
// The order of a sum is the same at every pixel: rows, columns, channels.
namespace tessera {
namespace {

// kR results of a row, kN registers of outputs each: sums over the parts of a patch, which begin `parts` floats
// behind x. Results stand y_stride apart.
template <int kR, int kN>
void patch_product(const float* __restrict x, Size stride, const Size* parts, Size count, Size channels,
                   const float* __restrict w, const float* bias, bool relu, bool past_cache,
                   float* __restrict y, Size y_stride) {
  Vec sum[kR][kN] = {};
  for (Size p = 0; p < count; ++p) {
    const float* v = x + parts[p];
    for (Size c = 0; c < channels; ++c, w += kPanel) {
      Vec u[kN];
#pragma GCC unroll 2
      for (int n = 0; n < kN; ++n) u[n] = *reinterpret_cast<const Vec*>(w + n * kLanes);
#pragma GCC unroll 16
      for (int r = 0; r < kR; ++r) {
        const float f = v[r * stride + c];
#pragma GCC unroll 2
        for (int n = 0; n < kN; ++n) sum[r][n] += f * u[n];
      }
    }
  }
  const Vec zero{};
#pragma GCC unroll 16
  for (int r = 0; r < kR; ++r)
#pragma GCC unroll 2
    for (int n = 0; n < kN; ++n) {
      Vec value = sum[r][n] + (bias ? load(bias + n * kLanes) : zero);
      if (relu) value = value < zero ? zero : value;  // NaN stays
      float* to = y + r * y_stride + n * kLanes;
      if (past_cache)
        stream(to, value);
      else
        store(to, value);
    }
}

using PatchProduct = void (*)(const float*, Size, const Size*, Size, Size, const float*, const float*, bool,
                              bool, float*, Size);
template <int kN, int... kR>
struct PatchProducts {
  static constexpr PatchProduct table[] = {patch_product<kR, kN>...};
};
template <int kN>
PatchProduct patch_product_of(Size rows) {
#if TESSERA_WINOGRAD_ROWS == 14
  return PatchProducts<kN, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14>::table[rows - 1];
#else
  return PatchProducts<kN, 1, 2, 3, 4, 5, 6>::table[rows - 1];
#endif
}

// Rows [first, last) of the coarser grid, counted through the images.
void run_patches(const PatchTask& t, Size first, Size last) {
  const Size groups = (t.columns + kRows - 1) / kRows;
  for (Size k = first; k < last; ++k) {
    const Size image = k / t.rows, row = k % t.rows;
    // Down: one row of results from two of x. Up: two rows of results, both columns of a patch side by side.
    for (Size half = 0; half < (t.up ? 2 : 1); ++half) {
      const float* x = t.x + image * t.x_strides.image + (t.up ? row : 2 * row) * t.x_strides.row;
      float* y = t.y + image * t.y_strides.image + (t.up ? 2 * row + half : row) * t.y_strides.row;
      const Size parts[4] = {0, t.x_strides.pixel, t.x_strides.row, t.x_strides.row + t.x_strides.pixel};
      const Size count = t.up ? 1 : 4, x_step = (t.up ? 1 : 2) * t.x_strides.pixel;
      const Size outputs = t.up ? 2 * t.outputs : t.outputs, y_step = (t.up ? 2 : 1) * t.y_strides.pixel;
      const Size panels = (outputs + kPanel - 1) / kPanel, size = count * t.channels * kPanel;
      for (Size g = 0; g < groups; ++g) {  // even shares of the row
        const Size at = g * t.columns / groups, n = (g + 1) * t.columns / groups - at;
        if (t.far && half == 0)
          fetch<0, 2>(x + (t.up ? 1 : 2) * t.x_strides.row + at * x_step, t.x_strides, t.up ? 1 : 2,
                      (t.up ? 1 : 2) * n, t.channels);
        for (Size p = 0; p < panels; ++p) {
          const bool one = outputs - p * kPanel <= kLanes;
          (one ? patch_product_of<1>(n) : patch_product_of<2>(n))(
              x + at * x_step, x_step, parts, count, t.channels, t.weights + (half * panels + p) * size,
              t.bias ? t.bias + p * kPanel : nullptr, t.relu, t.stream, y + at * y_step + p * kPanel, y_step);
        }
      }
    }
  }
  if (t.stream) fence();
}

}  // namespace
}  // namespace tessera
