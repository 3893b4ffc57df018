// SPDX-License-Identifier: BSD-3-Clause
// The kernels of Winograd's F(4x4, 3x3), for the register width kLanes and the register tile kRows x 2
// registers that the including file has set. What is left of the channels takes a register of half the width
// where it fits: 24 channels are one and a half, which costs less where wide registers take two cycles. One body, two files: winograd_avx512.cpp, winograd_avx2.cpp.
// They include nothing with inline functions, which the linker might take for the whole program.
//
// A tile of 4 x 4 outputs needs 6 x 6 inputs d; with the kernel g its outputs are A^T [(G g G^T) * (B^T d B)]
// A. The products * are summed over the input channels: 36 matrix products of tiles x channels by channels x
// outputs, which take 36 / 144 of the multiplications of the direct sum. The polynomial points are 0,
// +-1/sqrt(2),
// +-sqrt(2) and infinity: with them float32 errs by 1e-6 of the output's scale; with the usual 0, +-1, +-2 by
// 7e-6. Source: Lavin, Gray, CVPR 2016, arXiv 1509.09308; points: Barabasz et al., ACM Trans. Math. Softw. 46
// (2020) 37.
#include <cstdint>
#include <utility>

#include "winograd/numbers.hpp"
#include "winograd/winograd_task.hpp"

namespace tessera {
namespace {

constexpr Size kSide = kWinogradSide, kTile = kWinogradTile, kPoints = kWinogradPoints;
constexpr float kA = 0.70710678118654752440F, kB = 1.41421356237309504880F;  // the points; kA * kB = 1

// B^T d for one column.
template <class V>
inline void to_points(const V d[kSide], V v[kSide]) {
  const V p = d[4] - 2.0F * d[2], q = d[3] - 2.0F * d[1];
  const V r = d[4] - 0.5F * d[2], s = d[3] - 0.5F * d[1];
  v[0] = (d[0] + d[4]) - 2.5F * d[2];
  v[1] = p + kA * q;
  v[2] = p - kA * q;
  v[3] = r + kB * s;
  v[4] = r - kB * s;
  v[5] = (d[1] + d[5]) - 2.5F * d[3];
}

// A^T m for one column.
template <class V>
inline void from_points(const V m[kSide], V y[kTile]) {
  const V s = m[1] + m[2], d = m[1] - m[2], t = m[3] + m[4], e = m[3] - m[4];
  y[0] = m[0] + s + t;
  y[1] = kA * d + kB * e;
  y[2] = 0.5F * s + 2.0F * t;
  y[3] = m[5] + (0.5F * kA) * d + (2.0F * kB) * e;
}

struct Tile {
  Size image, row, column, slice = 0;  // first output pixel
};

template <class E, class Data>
E* pixel_of(Data* data, const PixelStrides& s, const Tile& tile) {
  return static_cast<E*>(data) + tile.image * s.image + tile.slice * s.slice + tile.row * s.row +
         tile.column * s.pixel;
}

// Tile after tile from number `first` on. They run down strips of kStrip tile rows, so that the windows of
// neighbors overlap in the cache.
class Tiles {
 public:
  Tiles(const WinogradTask& t, Size first, Size slice)
      : rows_(winograd_tiles(t.out_height)), columns_(winograd_tiles(t.out_width)), slice_(slice) {
    image_ = first / (rows_ * columns_);
    first -= image_ * rows_ * columns_;
    top_ = first / (kStrip * columns_) * kStrip;
    first -= top_ * columns_;
    column_ = first / height();
    down_ = first % height();
  }
  Tile tile() const { return {image_, (top_ + down_) * kTile, column_ * kTile, slice_}; }
  void next() {
    if (++down_ < height()) return;
    down_ = 0;
    if (++column_ < columns_) return;
    column_ = 0;
    top_ += kStrip;
    if (top_ < rows_) return;
    top_ = 0;
    ++image_;
  }

 private:
  static constexpr Size kStrip = 4;
  Size height() const { return rows_ - top_ < kStrip ? rows_ - top_ : kStrip; }
  Size rows_, columns_, slice_, image_, top_, column_, down_;
};

// V: [slice of x, as many as there are taps][point][tile][channel]; M: [point][tile][output of the block]. Rows and
// points are padded by a register, so that they do not meet in few cache sets.
Size v_row(Size channels) { return (channels + kLanes - 1) / kLanes * kLanes + kLanes; }
Size v_point(const WinogradTask& t) { return t.block_tiles * v_row(t.channels) + kLanes; }
Size v_slice(const WinogradTask& t) { return kPoints * v_point(t); }
Size m_point(const WinogradTask& t) { return t.block_tiles * t.block_outputs + kLanes; }

// Asks for pixels before they are needed: tiles run down, then right, which the hardware does not foresee.
// Beyond the feature's end it does nothing. kCache: 3 for the first level, 2 for the second. Always inline: GCC
// leaves out calls that have no effect but this one.
template <int kWrite, int kCache, class E>
[[gnu::always_inline]] inline void fetch(const E* p, const PixelStrides& strides, Size rows, Size columns,
                                         Size channels) {
  if (channels == strides.pixel) {  // one piece
    channels *= columns;
    columns = 1;
  }
  for (Size i = 0; i < rows; ++i, p += strides.row)
    for (Size j = 0; j < columns; ++j)
      for (Size c = 0; c < channels; c += Size{64 / sizeof(E)})
        __builtin_prefetch(p + j * strides.pixel + c, kWrite, kCache);
}
// Results of so many channels at most are asked for with the inputs; more would leave the level 2 cache again
// before they are written, and are asked for one tile ahead.
constexpr Size kFewOutputs = 32;

template <class V, bool kInside, bool kWhole, class E, class Number>
inline void input_tile(const WinogradTask& t, const E* x, Size row, Size column, Size n, Number* v,
                       Size point) {
  V w[kSide][kSide];
  for (Size i = 0; i < kSide; ++i) {
    V d[kSide];
    for (Size j = 0; j < kSide; ++j) {
      const E* pixel = x + i * t.x_strides.row + j * t.x_strides.pixel;
      if (!kInside && (row + i < 0 || row + i >= t.height || column + j < 0 || column + j >= t.width))
        d[j] = V{};
      else
        d[j] = kWhole ? load<V>(pixel) : load<V>(pixel, n);
    }
    to_points(d, w[i]);
  }
  for (Size j = 0; j < kSide; ++j) {
    V d[kSide], u[kSide];
    for (Size i = 0; i < kSide; ++i) d[i] = w[i][j];
    to_points(d, u);
    for (Size i = 0; i < kSide; ++i) store(v + (i * kSide + j) * point, u[i]);
  }
}

// n channels, at most a register's; `inside`: the window does not leave the feature.
template <class V, class E, class Number>
inline void input_channels(const WinogradTask& t, const E* x, Size row, Size column, bool inside, Size n,
                           Number* v, Size point) {
  const bool whole = n == Size{sizeof(V) / sizeof(float)};
  (inside && whole ? input_tile<V, true, true, E, Number>
   : inside        ? input_tile<V, true, false, E, Number>
   : whole         ? input_tile<V, false, true, E, Number>
                   : input_tile<V, false, false, E, Number>)(t, x, row, column, n, v, point);
}

// Outputs [first, last) of a tile, and what is added to them.
template <class E, int kCache>
[[gnu::always_inline]] inline void fetch_result(const WinogradTask& t, const Tile& tile, Size first,
                                                Size last) {
  const Size n = last - first;
  if (t.other && t.other != t.y)
    fetch<0, kCache>(pixel_of<const E>(t.other, t.other_strides, tile) + first, t.other_strides, kTile, kTile,
                     n);
  if (!t.stream) fetch<1, kCache>(pixel_of<E>(t.y, t.y_strides, tile) + first, t.y_strides, kTile, kTile, n);
}

// `slice`: of x.
template <class E, class Number>
void transform_input(const WinogradTask& t, Size first, Size last, Size slice, Number* v) {
  const Size stride = v_row(t.channels), point = v_point(t);
  Tiles tiles(t, first, slice);
  for (Size k = first; k < last; ++k, v += stride, tiles.next()) {
    const Tile tile = tiles.tile();
    const Size row = tile.row - t.top, column = tile.column - t.left;
    const E* x = pixel_of<const E>(t.x, t.x_strides, {tile.image, row, column, slice});
    if (t.far) {
      fetch<0, 2>(x + kSide * t.x_strides.pixel, t.x_strides, kSide, kTile,
                  t.channels);  // next
      if (t.outputs <= kFewOutputs && t.taps == 1) fetch_result<E, 2>(t, tile, 0, t.outputs);
    }
    const bool inside = row >= 0 && row + kSide <= t.height && column >= 0 && column + kSide <= t.width;
    for (Size c = 0; c < t.channels; c += kLanes) {
      const Size n = t.channels - c < kLanes ? t.channels - c : kLanes;
      (n > kHalf ? input_channels<Vec, E, Number> : input_channels<Half, E, Number>)(t, x + c, row, column,
                                                                                     inside, n, v + c, point);
    }
  }
}

// The slices of x that a product sums over: where each begins in V.
struct Parts {
  Size at[3], count;
};

// m (kR tiles x kN registers and, with kRest, half a one) = v w, summed over the parts of v; v's rows stand `stride`
// apart, m's `m_stride`. A third register has its weights in the next panel, `panel` floats further. Meanwhile the
// weights at `next` are brought into the level 2 cache: those of many channels come from memory each time; with three
// registers, which few channels have, into the first.
template <class P, int kR, int kN, bool kRest>
void product(const typename P::Number* __restrict first, const Parts& parts, Size stride,
             const float* __restrict w, Size panel, float* __restrict m, Size m_stride, Size channels,
             const float* next) {
  Vec sum[kR][kN > 0 ? kN : 1] = {};
  Half rest[kR] = {};
  for (Size p = 0; p < parts.count; ++p) {
    const typename P::Number* v = first + parts.at[p];
    for (Size c = 0; c < channels; c += P::kStep, w += kPanel, next += kPanel) {
      __builtin_prefetch(next, 0, kN > 2 ? 3 : 2);
      if (kN > 2) __builtin_prefetch(next + panel, 0, 3);
      if (kPanel > 16) __builtin_prefetch(next + 16, 0, 2);
      Vec u[kN > 0 ? kN : 1];
#pragma GCC unroll 3
      for (int n = 0; n < kN; ++n) u[n] = *reinterpret_cast<const Vec*>(n < 2 ? w + n * kLanes : w + panel);
      const Half last = kRest ? *reinterpret_cast<const Half*>(w + kN * kLanes) : Half{};
#pragma GCC unroll 16
      for (int r = 0; r < kR; ++r) {
#pragma GCC unroll 3
        for (int n = 0; n < kN; ++n) P::add(sum[r][n], v + r * stride + c, u[n]);
        if (kRest) P::add(rest[r], v + r * stride + c, last);
      }
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < kR; ++r) {
#pragma GCC unroll 3
    for (int n = 0; n < kN; ++n) *reinterpret_cast<Vec*>(m + r * m_stride + n * kLanes) = sum[r][n];
    if (kRest) *reinterpret_cast<Half*>(m + r * m_stride + kN * kLanes) = rest[r];
  }
}

template <class P>
using Product = void (*)(const typename P::Number*, const Parts&, Size, const float*, Size, float*, Size,
                         Size, const float*);
template <class P, int kN, bool kRest, int... kR>
struct Products {
  static constexpr Product<P> table[] = {product<P, kR, kN, kRest>...};
};
template <class P, int kN, bool kRest>
Product<P> product_of(Size rows) {
#if TESSERA_WINOGRAD_ROWS == 14
  return Products<P, kN, kRest, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14>::table[rows - 1];
#else
  return Products<P, kN, kRest, 1, 2, 3, 4, 5, 6>::table[rows - 1];
#endif
}
// For so many outputs, at most a panel's.
template <class P>
Product<P> product_of(Size rows, Size outputs) {
  if (outputs <= kHalf) return product_of<P, 0, true>(rows);
  if (outputs <= kLanes) return product_of<P, 1, false>(rows);
  return outputs <= kLanes + kHalf ? product_of<P, 1, true>(rows) : product_of<P, 2, false>(rows);
}
constexpr Size kRows = TESSERA_WINOGRAD_ROWS;

// Three registers of outputs at once, where they are all that is left: the second panel alone would have too few sums
// to fill the processor's pipes. As many tiles as keep the sums in registers; 0: there are pipes enough.
#if TESSERA_WINOGRAD_ROWS == 14
constexpr Size kTripleRows = 0;
template <class P>
Product<P> triple_of(Size) {
  return nullptr;
}
#else
constexpr Size kTripleRows = 4;
template <class P>
Product<P> triple_of(Size rows) {
  return Products<P, 3, false, 1, 2, 3, 4>::table[rows - 1];
}
#endif

// M = V times the weights of outputs [first, last), of taps from number `tap` on.
template <class P>
void multiply(const WinogradTask& t, const typename P::Number* v, const Parts& parts, Size tap, Size tiles,
              Size first, Size last, float* m) {
  const Size stride = v_row(t.channels), size = steps<P>(t.channels) * kPanel,
             panel = kPoints * t.taps * size;
  const auto weights = [&](Size point, Size output) {
    return t.weights + output / kPanel * panel + (point * t.taps + tap) * size;
  };
  for (Size p = 0; p < kPoints; ++p) {
    for (Size k = first, width = 0; k < last; k += width) {
      const bool triple = kTripleRows > 0 && last - k > kPanel && last - k <= kPanel + kLanes;
      width = triple ? last - k : kPanel;
      const Size largest = triple ? kTripleRows : kRows, groups = (tiles + largest - 1) / largest;
      const float* w = weights(p, k);
      const float* next = k + width < last ? weights(p, k + width) : weights(p + 1, first);
      for (Size g = 0; g < groups; ++g) {  // even shares of the rows
        const Size top = g * tiles / groups, rows = (g + 1) * tiles / groups - top;
        const typename P::Number* a = v + p * v_point(t) + top * stride;
        float* c = m + p * m_point(t) + top * t.block_outputs + (k - first);
        (triple ? triple_of<P>(rows) : product_of<P>(rows, t.outputs - k))(
            a, parts, stride, w, panel, c, t.block_outputs, t.channels, g == 0 ? next : w);
      }
    }
  }
}

// Where a tile's results go.
template <class E>
struct Target {
  E* y;
  Size row, pixel;  // strides in elements
};

template <class V, bool kWhole, class E>
inline void output_tile(const WinogradTask& t, const float* m, Size point, const float* bias,
                        const Target<E>& to, const E* other, Size rows, Size columns, Size n) {
  V w[kTile][kSide];
  for (Size j = 0; j < kSide; ++j) {
    V d[kSide], u[kTile];
    for (Size i = 0; i < kSide; ++i) d[i] = *reinterpret_cast<const V*>(m + (i * kSide + j) * point);
    from_points(d, u);
    for (Size i = 0; i < kTile; ++i) w[i][j] = u[i];
  }
  const V zero{}, b = bias ? load<V>(bias) : zero;
  for (Size i = 0; i < rows; ++i) {
    V u[kTile];
    from_points(w[i], u);
    for (Size j = 0; j < columns; ++j) {
      const E* q = other + i * t.other_strides.row + j * t.other_strides.pixel;
      V value = u[j] + b;
      if (other) value += kWhole ? load<V>(q) : load<V>(q, n);
      if (t.relu) value = value < zero ? zero : value;  // NaN stays
      E* y = to.y + i * to.row + j * to.pixel;
      if constexpr (kWhole)
        store(y, value);
      else
        store_some(y, value, n);
    }
  }
}

// n results of each of `pixels` neighbors go past the caches, line after line: pieces of lines that wait for the rest,
// as 32 bytes of each of a tile's pixels do, take three times as long.
// 16-bit numbers go in pairs.
template <class E>
void stream_pixels(const E* numbers, Size pixels, Size n, E* y, Size stride) {
  constexpr Size kWords = 4 / sizeof(E);
  const float* from = reinterpret_cast<const float*>(numbers);
  float* to = reinterpret_cast<float*>(y);
  n /= kWords;
  stride /= kWords;
  if (n == stride) {  // one piece
    n *= pixels;
    pixels = 1;
  }
  for (Size j = 0; j < pixels; ++j, from += n, to += stride) {
    Size c = 0;
    for (; c + kLanes <= n; c += kLanes) stream(to + c, load(from + c));
    __builtin_memcpy(to + c, from + c, static_cast<std::size_t>(n - c) * sizeof(float));
  }
}

// `slice`: of y.
template <class E>
void transform_output(const WinogradTask& t, Size first, Size last, Size slice, Size outputs_first,
                      Size outputs_last, const float* m) {
  alignas(64) E tray[kTile * kTile * kMostBlockOutputs];
  const Size point = m_point(t), all = outputs_last - outputs_first;
  Tiles tiles(t, first, slice);
  for (Size k = first; k < last; ++k, m += t.block_outputs) {
    const Tile tile = tiles.tile();
    tiles.next();
    if (t.far && (t.outputs > kFewOutputs || t.taps > 1) && k + 1 < last)
      fetch_result<E, 3>(t, tiles.tile(), outputs_first, outputs_last);
    const Size rows = t.out_height - tile.row < kTile ? t.out_height - tile.row : kTile;
    const Size columns = t.out_width - tile.column < kTile ? t.out_width - tile.column : kTile;
    E* y = pixel_of<E>(t.y, t.y_strides, tile) + outputs_first;
    const Target<E> to =
        t.stream ? Target<E>{tray, kTile * all, all} : Target<E>{y, t.y_strides.row, t.y_strides.pixel};
    const E* other = t.other ? pixel_of<const E>(t.other, t.other_strides, tile) : nullptr;
    for (Size o = outputs_first; o < outputs_last; o += kLanes) {
      const Size n = outputs_last - o < kLanes ? outputs_last - o : kLanes, at = o - outputs_first;
      (n == kLanes  ? output_tile<Vec, true, E>
       : n > kHalf  ? output_tile<Vec, false, E>
       : n == kHalf ? output_tile<Half, true, E>
                    : output_tile<Half, false, E>)(t, m + at, point, t.bias ? t.bias + o : nullptr,
                                                   {to.y + at, to.row, to.pixel}, other ? other + o : nullptr,
                                                   rows, columns, n);
    }
    if (t.stream)
      for (Size i = 0; i < rows; ++i)
        stream_pixels(tray + i * to.row, columns, all, y + i * t.y_strides.row, t.y_strides.pixel);
  }
}

Size scratch_floats(Size taps, Size channels, Size block_tiles, Size block_outputs) {
  WinogradTask t{};
  t.channels = channels;
  t.block_tiles = block_tiles;
  t.block_outputs = block_outputs;
  return taps * v_slice(t) + kPoints * m_point(t);
}

// Each slice of x is transformed once, and takes the place of the one that no slice of the result reads any more.
template <class E, class P>
void run(const WinogradTask& t, Size first, Size last, Size begin, Size end, float* scratch) {
  auto* v = reinterpret_cast<typename P::Number*>(scratch);
  float* m = scratch + t.taps * v_slice(t);
  Size next = begin < t.front ? 0 : begin - t.front;  // slice of x that is not transformed yet
  for (Size slice = begin; slice < end; ++slice) {
    const Size top = slice - t.front;  // slice of x that the first tap reads
    for (; next < top + t.taps && next < t.depth; ++next)
      transform_input<E>(t, first, last, next, v + next % t.taps * v_slice(t));
    const Size tap = top < 0 ? -top : 0;
    Parts parts{};
    for (Size k = tap; k < t.taps && top + k < t.depth; ++k)
      parts.at[parts.count++] = (top + k) % t.taps * v_slice(t);
    for (Size k = 0; k < t.outputs; k += t.block_outputs) {
      const Size stop = t.outputs - k < t.block_outputs ? t.outputs : k + t.block_outputs;
      multiply<P>(t, v, parts, tap, last - first, k, stop, m);
      transform_output<E>(t, first, last, slice, k, stop, m);
    }
  }
  if (t.stream) fence();
}

}  // namespace
}  // namespace tessera

#include "winograd/direct_kernel.hpp"
#include "winograd/patch_kernel.hpp"

namespace tessera {
namespace {

constexpr WinogradKernels all_kernels() {
  return {.lanes = kLanes,
          .rows = kRows,
          .run = {run<float, Floats>, run<Bf16, Floats>, run<F16, Floats>},
          .run_pairs = run<Bf16, Pairs>,
          .run_direct = {run_direct<float>, run_direct<Bf16>, run_direct<F16>},
          .run_patches = {run_patches, run_gathered<Bf16, Floats>, run_gathered<F16, Floats>},
          .run_patch_pairs = run_gathered<Bf16, Pairs>,
          .gathered_floats = gathered_floats,
          .scratch_floats = scratch_floats};
}

}  // namespace
}  // namespace tessera
