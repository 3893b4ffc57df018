// SPDX-License-Identifier: BSD-3-Clause
// A 3x3 (or 3x3x3) convolution to few outputs, summed tap by tap with the channels side by side in a register: for them the
// transforms of winograd_kernels.hpp, which includes this, cost more than the products that they save.
// The order of a sum is the same at every pixel: blocks of channels, slices, rows, columns, then lanes in pairs.
namespace tessera {
namespace {

constexpr Size kRun = 8;  // pixels of a row that are summed together, each in a register

// Lanes 0, 2, 4, ... (or 1, 3, 5, ...) of a, then of b.
template <int kFirst, int... kLane>
inline Vec every_other(Vec a, Vec b, std::integer_sequence<int, kLane...>) {
  return __builtin_shufflevector(a, b, (2 * kLane + kFirst)...);
}
inline Vec pairs(Vec a, Vec b) {
  constexpr std::make_integer_sequence<int, kLanes> lanes;
  return every_other<0>(a, b, lanes) + every_other<1>(a, b, lanes);
}

// The sums of the lanes of eight registers, one behind the other.
inline Vec lane_sums(const Vec a[kRun]) {
  Vec s = pairs(pairs(pairs(a[0], a[1]), pairs(a[2], a[3])), pairs(pairs(a[4], a[5]), pairs(a[6], a[7])));
  if (kLanes > kRun) s = pairs(s, s);
  return s;
}

// Adds one block of channels, n of them; x: of the window's first pixel, at (row, column) of the feature.
template <bool kInside, bool kWhole, class E>
inline void add_taps(const WinogradTask& t, const E* x, Size row, Size column, Size n, const float* w,
                     Vec sum[kRun]) {
  for (Size i = 0; i < 3; ++i, x += t.x_strides.row, w += 3 * kLanes) {
    if (row + i < 0 || row + i >= t.height) continue;
    const Vec left = load(w), middle = load(w + kLanes), right = load(w + 2 * kLanes);
#pragma GCC unroll 10
    for (Size j = 0; j < kRun + 2; ++j) {
      Vec v{};
      if (kInside || (column + j >= 0 && column + j < t.width)) {
        const E* pixel = x + j * t.x_strides.pixel;
        v = kWhole ? load<Vec>(pixel) : load<Vec>(pixel, n);
      }
      if (j < kRun) sum[j] += v * left;
      if (j > 0 && j <= kRun) sum[j - 1] += v * middle;
      if (j > 1) sum[j - 2] += v * right;
    }
  }
}

// Rows [first, last) of all slices' and images' results.
template <class E>
void run_direct(const WinogradTask& t, Size first, Size last) {
  for (Size k = first; k < last; ++k) {
    const Size image = k / (t.out_height * t.out_depth), out_slice = k / t.out_height % t.out_depth,
               out_row = k % t.out_height, row = out_row - t.top, slice = out_slice - t.front;
    for (Size out_column = 0; out_column < t.out_width; out_column += kRun) {
      const Size column = out_column - t.left;
      const bool inside = column >= 0 && column + kRun + 2 <= t.width;
      const E* pixels = pixel_of<const E>(t.x, t.x_strides, {image, row, column, slice});
      if (t.far)  // for the next row
        fetch<0, 2>(pixels + (t.taps - 1) * t.x_strides.slice + 3 * t.x_strides.row, t.x_strides, 1, kRun,
                    t.channels);
      const float* w = t.weights;
      for (Size o = 0; o < t.outputs; ++o) {
        Vec sum[kRun] = {};
        for (Size c = 0; c < t.channels; c += kLanes) {
          const Size n = t.channels - c;
          for (Size tap = 0; tap < t.taps; ++tap, w += 9 * kLanes) {
            if (slice + tap < 0 || slice + tap >= t.depth) continue;
            const E* x = pixels + tap * t.x_strides.slice + c;
            if (inside && n >= kLanes)
              add_taps<true, true>(t, x, row, column, n, w, sum);
            else if (inside)
              add_taps<true, false>(t, x, row, column, n, w, sum);
            else
              add_taps<false, false>(t, x, row, column, n < kLanes ? n : kLanes, w, sum);
          }
        }
        const Vec sums = lane_sums(sum);
        const Tile at{image, out_row, out_column, out_slice};
        E* y = pixel_of<E>(t.y, t.y_strides, at) + o;
        const E* other = t.other ? pixel_of<const E>(t.other, t.other_strides, at) + o : nullptr;
        for (Size j = 0; j < kRun && out_column + j < t.out_width; ++j) {
          float value = sums[j] + (t.bias ? t.bias[o] : 0.0F);
          if (other) value += number(other + j * t.other_strides.pixel);
          put(y + j * t.y_strides.pixel, t.relu && value < 0 ? 0 : value);  // NaN stays
        }
      }
    }
  }
}

}  // namespace
}  // namespace tessera
