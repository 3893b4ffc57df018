// SPDX-License-Identifier: BSD-3-Clause
// 2x2 convolutions of stride 2 and their transposes as matrix products: pixels by channels times channels by
// outputs, straight from and to the features, or from what is gathered of them: those of 16 bits, and 3x3 ones of few
// channels. Included by winograd_kernels.hpp's two files.
// The order of a sum is the same at every pixel: rows, columns, channels.
namespace tessera {
namespace {

// kR results of a row, kN registers of outputs each, n of them to be stored: sums over the parts of a patch, which begin
// `parts` numbers behind x. Results stand y_stride apart.
template <class P, class E, int kR, int kN>
void patch_product(const typename P::Number* __restrict x, Size stride, const Size* parts, Size count,
                   Size channels, const float* __restrict w, const float* bias, bool relu, bool past_cache,
                   E* __restrict y, Size y_stride, Size outputs) {
  Vec sum[kR][kN] = {};
  for (Size p = 0; p < count; ++p) {
    const typename P::Number* v = x + parts[p];
    for (Size c = 0; c < channels; c += P::kStep, w += kPanel) {
      Vec u[kN];
#pragma GCC unroll 2
      for (int n = 0; n < kN; ++n) u[n] = *reinterpret_cast<const Vec*>(w + n * kLanes);
#pragma GCC unroll 16
      for (int r = 0; r < kR; ++r) {
#pragma GCC unroll 2
        for (int n = 0; n < kN; ++n) P::add(sum[r][n], v + r * stride + c, u[n]);
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
      E* to = y + r * y_stride + n * kLanes;
      if constexpr (sizeof(E) == sizeof(float)) {
        if (past_cache)
          stream(to, value);
        else
          store(to, value);
      } else {
        const Size left = outputs - n * kLanes;
        if (left >= kLanes)
          store(to, value);
        else
          store_some(to, value, left);
      }
    }
}

template <class P, class E>
using PatchProduct = void (*)(const typename P::Number*, Size, const Size*, Size, Size, const float*,
                              const float*, bool, bool, E*, Size, Size);
template <class P, class E, int kN, int... kR>
struct PatchProducts {
  static constexpr PatchProduct<P, E> table[] = {patch_product<P, E, kR, kN>...};
};
template <class P, class E, int kN>
PatchProduct<P, E> patch_product_of(Size rows) {
#if TESSERA_WINOGRAD_ROWS == 14
  return PatchProducts<P, E, kN, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14>::table[rows - 1];
#else
  return PatchProducts<P, E, kN, 1, 2, 3, 4, 5, 6>::table[rows - 1];
#endif
}
// For so many outputs, at most a panel's.
template <class P, class E>
PatchProduct<P, E> patch_product_of(Size rows, Size outputs) {
  return outputs <= kLanes ? patch_product_of<P, E, 1>(rows) : patch_product_of<P, E, 2>(rows);
}

// Rows [first, last) of the coarser grid, counted through the images.
void run_patches(const PatchTask& t, Size first, Size last, float*) {
  const Size groups = (t.columns + kRows - 1) / kRows;
  for (Size k = first; k < last; ++k) {
    const Size image = k / t.rows, row = k % t.rows;
    // Down: one row of results from two of x. Up: two rows of results, both columns of a patch side by side.
    for (Size half = 0; half < (t.up ? 2 : 1); ++half) {
      const float* x = static_cast<const float*>(t.x) + image * t.x_strides.image +
                       (t.up ? row : 2 * row) * t.x_strides.row;
      float* y = static_cast<float*>(t.y) + image * t.y_strides.image +
                 (t.up ? 2 * row + half : row) * t.y_strides.row;
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
          const Size left = outputs - p * kPanel;
          patch_product_of<Floats, float>(n, left)(x + at * x_step, x_step, parts, count, t.channels,
                                                   t.weights + (half * panels + p) * size,
                                                   t.bias ? t.bias + p * kPanel : nullptr, t.relu, t.stream,
                                                   y + at * y_step + p * kPanel, y_step, left);
        }
      }
    }
  }
  if (t.stream) fence();
}

// Patches of features that products do not read as they are: those of a part of a row are gathered first, as numbers of
// the products and with the zeros around the feature, channels filled up to whole registers.
constexpr Size kMostParts = 9;
constexpr Size kGatheredFloats = Size{1} << 14;  // which stay in the cache while all outputs are summed
Size gathered_step(const PatchTask& t) { return t.up || t.side == 3 ? 1 : 2; }
Size gathered_side(const PatchTask& t) { return t.up ? 1 : t.side; }
Size gathered_channels(const PatchTask& t) { return (t.channels + kLanes - 1) / kLanes * kLanes; }
// For so many results of a row.
Size gathered_numbers(const PatchTask& t, Size columns) {
  const Size side = gathered_side(t);
  return side * ((columns - 1) * gathered_step(t) + side) * gathered_channels(t);
}
Size gathered_columns(const PatchTask& t) {
  Size columns = kRows;
  while (columns < t.columns && gathered_numbers(t, columns + kRows) <= kGatheredFloats) columns += kRows;
  return columns;
}
Size gathered_floats(const PatchTask& t) { return gathered_numbers(t, gathered_columns(t)); }

template <class E>
void copy(const E* from, Size n, E* to) {
  const Vec v{};
  put_bits(to, n < kLanes ? some_bits_of(from, n, v) : bits_of(from, v), v);
}
template <class E>
void copy(const E* from, Size n, float* to) {
  store(to, n < kLanes ? load<Vec>(from, n) : load<Vec>(from));
}
template <class E, class Number>
void gather(const PatchTask& t, Size image, Size row, Size column, Size columns, Number* to) {
  const Size side = gathered_side(t), wide = gathered_channels(t);
  const E* x = static_cast<const E*>(t.x) + image * t.x_strides.image;
  for (Size i = row; i < row + side; ++i)
    for (Size j = column; j < column + columns; ++j, to += wide) {
      const bool inside = i >= 0 && i < t.height && j >= 0 && j < t.width;
      const E* pixel = x + i * t.x_strides.row + j * t.x_strides.pixel;
      for (Size c = 0; c < wide; c += kLanes)
        if (inside)
          copy(pixel + c, t.channels - c, to + c);
        else
          store(to + c, Vec{});
    }
}

template <class E, class P>
void run_gathered(const PatchTask& t, Size first, Size last, float* scratch) {
  using Number = typename P::Number;
  auto* const window = reinterpret_cast<Number*>(scratch);
  const Size side = gathered_side(t), step = gathered_step(t), wide = gathered_channels(t);
  const Size outputs = t.up ? 2 * t.outputs : t.outputs, y_step = (t.up ? 2 : 1) * t.y_strides.pixel;
  const Size panels = (outputs + kPanel - 1) / kPanel, size = side * side * steps<P>(t.channels) * kPanel;
  const Size most = gathered_columns(t);
  for (Size k = first; k < last; ++k) {
    const Size image = k / t.rows, row = k % t.rows;
    for (Size begin = 0; begin < t.columns; begin += most) {
      const Size columns = t.columns - begin < most ? t.columns - begin : most;
      const Size gathered = (columns - 1) * step + side, groups = (columns + kRows - 1) / kRows;
      gather<E>(t, image, row * step - t.top, begin * step - t.left, gathered, window);
      Size parts[kMostParts];
      for (Size i = 0; i < side; ++i)
        for (Size j = 0; j < side; ++j) parts[i * side + j] = (i * gathered + j) * wide;
      for (Size half = 0; half < (t.up ? 2 : 1); ++half) {
        E* y = static_cast<E*>(t.y) + image * t.y_strides.image +
               (t.up ? 2 * row + half : row) * t.y_strides.row + begin * y_step;
        for (Size p = 0; p < panels; ++p)
          for (Size g = 0; g < groups; ++g) {  // even shares of the row
            const Size at = g * columns / groups, n = (g + 1) * columns / groups - at,
                       left = outputs - p * kPanel;
            patch_product_of<P, E>(n, left)(
                window + at * step * wide, step * wide, parts, side * side, t.channels,
                t.weights + (half * panels + p) * size, t.bias ? t.bias + p * kPanel : nullptr, t.relu, false,
                y + at * y_step + p * kPanel, y_step, left < kPanel ? left : kPanel);
          }
      }
    }
  }
}

}  // namespace
}  // namespace tessera
