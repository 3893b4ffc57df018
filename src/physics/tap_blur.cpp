// SPDX-License-Identifier: BSD-3-Clause
#include "tap_blur.hpp"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "tap_rows.hpp"
#include "tessera/core/error.hpp"

namespace tessera {
namespace {

// Rows per task at least, so that starting it is worth it.
std::int64_t grain(std::int64_t columns, std::int64_t taps) {
  return 1 + (std::int64_t{1} << 17) / (1 + columns * taps);
}

// work(f), of the usual f as numbers that the compiler knows: full vectors.
template <class Work>
void with_factor(std::int64_t f, const Work& work) {
  if (f == 1)
    work(std::integral_constant<std::int64_t, 1>{});
  else if (f == 2)
    work(std::integral_constant<std::int64_t, 2>{});
  else
    work(f);
}

// to[w] += lines[w mod f][w / f].
template <class T>
void add_in_turn(const T* __restrict lines, std::int64_t line, std::int64_t f, T* __restrict to,
                 std::int64_t columns) {
  with_factor(f, [&](auto factor) {
    const std::int64_t whole = columns / factor;
    for (std::int64_t w = 0; w < whole; ++w)
      for (std::int64_t q = 0; q < factor; ++q) to[factor * w + q] += lines[q * line + w];
    for (std::int64_t q = 0; q < columns - factor * whole; ++q)
      to[factor * whole + q] += lines[q * line + whole];
  });
}

// lines[w mod f][w / f] = from[w].
template <class T>
void deal_in_turn(const T* __restrict from, std::int64_t columns, std::int64_t f, T* __restrict lines,
                  std::int64_t line) {
  with_factor(f, [&](auto factor) {
    const std::int64_t whole = columns / factor;
    for (std::int64_t w = 0; w < whole; ++w)
      for (std::int64_t q = 0; q < factor; ++q) lines[q * line + w] = from[factor * w + q];
    for (std::int64_t q = 0; q < columns - factor * whole; ++q)
      lines[q * line + whole] = from[factor * whole + q];
  });
}

// Taps that are less than this share of the largest are 0: no sum can tell, and products below the smallest
// normal number, as in the tails of a Gaussian, take processors a hundred times as long.
constexpr double kNothing = 1e-30;

// The taps of each kernel (1 or C, h, w) that stand in rows p, p + f, ... and columns q, q + f, ... of it, in the
// order kernel, p, q; none where the kernel is smaller. `turned` by half a turn, as a convolution meets its input:
// what its adjoint takes are the same taps in the opposite order.
template <class T>
std::vector<TapMatrix<T>> matrices(const at::Tensor& kernel, std::int64_t f, bool turned) {
  const auto taps = kernel.accessor<double, 3>();
  const std::int64_t height = taps.size(1), width = taps.size(2);
  const double least = kNothing * kernel.abs().max().item<double>();
  std::vector<TapMatrix<T>> of;
  for (std::int64_t k = 0; k < taps.size(0); ++k)
    for (std::int64_t p = 0; p < f; ++p)
      for (std::int64_t q = 0; q < f; ++q) {
        TapMatrix<T> some{(height - p + f - 1) / f, (width - q + f - 1) / f, {}};
        for (std::int64_t i = 0; i < some.height; ++i)
          for (std::int64_t j = 0; j < some.width; ++j) {
            const std::int64_t row = p + f * (turned ? i : some.height - 1 - i);
            const std::int64_t column = q + f * (turned ? j : some.width - 1 - j);
            const double tap = taps[k][height - 1 - row][width - 1 - column];
            some.weight.push_back(static_cast<T>(std::abs(tap) < least ? 0.0 : tap));
          }
        of.push_back(std::move(some));
      }
  return of;
}

// work(channel, first row, rows, room) for strips of up to `high` rows of (channels, rows, columns), side by side;
// `room` is of so many numbers, for a thread's strips one after the other.
template <class T, class Work>
void in_strips(std::int64_t channels, std::int64_t rows, std::int64_t high, std::int64_t columns,
               std::int64_t taps, std::int64_t room, const Work& work) {
  const std::int64_t strips = (rows + high - 1) / high;
  at::parallel_for(0, channels * strips, grain(high * columns, taps),
                   [&](std::int64_t first, std::int64_t last) {
                     const auto numbers = std::make_unique_for_overwrite<T[]>(static_cast<std::size_t>(room));
                     for (std::int64_t s = first; s < last; ++s) {
                       const std::int64_t top = s % strips * high;
                       work(s / strips, top, std::min(high, rows - top), numbers.get());
                     }
                   });
}

// Rows of a coarse grid in a strip: pixels between two strips are dealt out twice.
constexpr std::int64_t kCoarseRows = 2 * kTapRows;

}  // namespace

TapBlur::TapBlur(const BankFilter& filter, const Index2& begin, const Index2& end)
    : kernel_(filter.taps), factor_(filter.anchor.factor[1]), begin_(begin), end_(end) {}

void TapBlur::apply(const at::Tensor& x, std::span<const at::Tensor> y) {
  TESSERA_EXPECT(y[0].is_contiguous(), "samples with strides ", y[0].strides(), " (rows are written whole)");
  at::Tensor in = x.slice(1, begin_[0], end_[0]).slice(2, begin_[1], end_[1]);
  if (in.stride(2) != 1) in = in.contiguous();
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "tap_blur", [&] { correlate<scalar_t>(in, y[0]); });
}

// Sample (a, b) is a sum over remainders (p, q) of pixels (f (a + i) + p, f (b + j) + q): rows and columns of one
// remainder, which stand dense once columns are dealt out.
template <class T>
void TapBlur::correlate(const at::Tensor& in, const at::Tensor& y) const {
  const std::int64_t f = factor_, height = kernel_.size(1), kernels = kernel_.size(0);
  const std::vector<TapMatrix<T>> of = matrices<T>(kernel_, f, /*turned=*/true);
  const std::int64_t columns = y.size(2), line = (in.size(2) + f - 1) / f;
  const T* source = in.const_data_ptr<T>();
  T* target = y.mutable_data_ptr<T>();
  const std::int64_t high = f == 1 ? kTapRows : kCoarseRows;
  const std::int64_t room = f == 1 ? 0 : (f * (high - 1) + height) * f * line;
  const auto strip = [&](std::int64_t c, std::int64_t top, std::int64_t rows, T* dealt) {
    const T* pixels = source + c * in.stride(0) + f * top * in.stride(1);
    if (f > 1)
      for (std::int64_t i = 0; i < f * (rows - 1) + height; ++i)
        deal_in_turn(pixels + i * in.stride(1), in.size(2), f, dealt + i * f * line, line);
    const auto pixel_line = [&](std::int64_t i, std::int64_t q) {
      return f == 1 ? pixels + i * in.stride(1) : dealt + (i * f + q) * line;
    };
    std::vector<const T*> from;
    for (std::int64_t r = 0; r < rows; r += kTapRows) {
      const std::int64_t some = std::min(kTapRows, rows - r);
      std::array<T*, kTapRows> to{};
      for (std::int64_t k = 0; k < some; ++k)
        to[static_cast<std::size_t>(k)] = target + c * y.stride(0) + (top + r + k) * y.stride(1);
      for (std::int64_t pq = 0; pq < f * f; ++pq) {
        const TapMatrix<T>& taps = of[static_cast<std::size_t>(c % kernels * f * f + pq)];
        if (taps.weight.empty()) continue;
        from.clear();
        for (std::int64_t i = 0; i < some + taps.height - 1; ++i)
          from.push_back(pixel_line(f * (r + i) + pq / f, pq % f));
        tap_rows(from.data(), taps, to.data(), some, columns, pq == 0 ? Into::replace : Into::add);
      }
    }
  };
  in_strips<T>(y.size(0), y.size(1), high, columns, height * kernel_.size(2), room, strip);
}

// Every pixel gathers from the samples around it; those beyond the measurement are zeros: rows of them above and
// below, and at the ends of rows copies that are continued by zeros.
template <class T>
void TapBlur::spread_rows(const at::Tensor& y, const at::Tensor& x) const {
  const std::vector<TapMatrix<T>> of = matrices<T>(kernel_, 1, /*turned=*/false);
  const std::int64_t height = kernel_.size(1), beyond = kernel_.size(2) - 1;
  const std::int64_t samples = y.size(2), columns = x.size(2);
  constexpr std::int64_t kWide = 48;  // columns of an end are filled up to full vectors
  const std::int64_t end = std::min(columns, (beyond + kWide - 1) / kWide * kWide);
  const bool apart = 2 * end + kWide <= columns;  // else all of a row is taken for its end
  const T* source = y.const_data_ptr<T>();
  T* target = x.mutable_data_ptr<T>();
  const std::vector<T> zeros(static_cast<std::size_t>(samples));
  const auto strip = [&](std::int64_t c, std::int64_t top, std::int64_t rows, T* panel) {
    const TapMatrix<T>& taps = of[static_cast<std::size_t>(c) % of.size()];
    std::vector<const T*> lines;  // of the sample that meets column `beyond` with the first tap
    for (std::int64_t i = 0; i < rows + height - 1; ++i) {
      const std::int64_t line = top + i - (height - 1);
      lines.push_back(0 <= line && line < y.size(1) ? source + c * y.stride(0) + line * y.stride(1)
                                                    : zeros.data());
    }
    std::vector<const T*> from(lines.size());
    std::array<T*, kTapRows> to{};
    const auto columns_from = [&](std::int64_t begin, std::int64_t n) {
      for (std::int64_t r = 0; r < rows; ++r)
        to[static_cast<std::size_t>(r)] = target + c * x.stride(0) + (top + r) * x.stride(1) + begin;
      tap_rows(from.data(), taps, to.data(), rows, n, Into::add);
    };
    const auto at_an_end = [&](std::int64_t begin, std::int64_t n) {
      const std::int64_t width = n + beyond, first = begin - beyond;
      const std::int64_t lo = std::max<std::int64_t>(0, first), hi = std::min(samples, first + width);
      std::fill_n(panel, static_cast<std::int64_t>(lines.size()) * width, T(0));
      for (std::size_t i = 0; i < lines.size(); ++i) {
        T* line = panel + static_cast<std::int64_t>(i) * width;
        if (lo < hi) std::copy(lines[i] + lo, lines[i] + hi, line + (lo - first));
        from[i] = line;
      }
      columns_from(begin, n);
    };
    if (!apart) return at_an_end(0, columns);
    if (end > 0) at_an_end(0, end);
    for (std::size_t i = 0; i < lines.size(); ++i) from[i] = lines[i] + end - beyond;
    columns_from(end, columns - 2 * end);
    if (end > 0) at_an_end(columns - end, end);
  };
  const std::int64_t room = (kTapRows + height - 1) * ((apart ? end : columns) + beyond);
  in_strips<T>(x.size(0), x.size(1), kTapRows, columns, height * (beyond + 1), room, strip);
}

void TapBlur::adjoint(std::span<const at::Tensor> y, const at::Tensor& x) {
  const at::Tensor to = x.slice(1, begin_[0], end_[0]).slice(2, begin_[1], end_[1]);
  TESSERA_EXPECT(to.stride(2) == 1 || to.size(2) == 1, "pixels with strides ", x.strides(),
                 " (rows are added to as a whole)");
  const at::Tensor samples = y[0].stride(2) == 1 ? y[0] : y[0].contiguous();
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "tap_blur", [&] {
    if (factor_ == 1)
      spread_rows<scalar_t>(samples, to);
    else
      spread<scalar_t>(samples, to);
  });
}

// Pixel (f a + p, f b + q) gathers from samples (a - i, b - j): a dense row for every remainder, then dealt out.
template <class T>
void TapBlur::spread(const at::Tensor& y, const at::Tensor& x) const {
  const std::int64_t f = factor_, kernels = kernel_.size(0), columns = x.size(2);
  const std::vector<TapMatrix<T>> of = matrices<T>(kernel_, f, /*turned=*/false);
  const std::int64_t above = (kernel_.size(1) - 1) / f, beyond = (kernel_.size(2) - 1) / f;
  const std::int64_t most = (columns + f - 1) / f, width = most + beyond;
  const std::int64_t samples = std::min(y.size(2), most);
  const T* source = y.const_data_ptr<T>();
  T* target = x.mutable_data_ptr<T>();
  const auto strip = [&](std::int64_t c, std::int64_t top, std::int64_t rows, T* panel) {
    // Samples from row top - above on, zeros around them: column b of a pixel is at beyond + b.
    std::fill_n(panel, (rows + above) * width, T(0));
    for (std::int64_t i = 0; i < rows + above; ++i) {
      const std::int64_t row = top + i - above;
      if (0 <= row && row < y.size(1))
        std::copy_n(source + c * y.stride(0) + row * y.stride(1), samples, panel + i * width + beyond);
    }
    T* lines = panel + (kCoarseRows + above) * width;  // by row and column remainder
    std::vector<const T*> from;
    for (std::int64_t r = 0; r < rows; r += kTapRows) {
      const std::int64_t some = std::min(kTapRows, rows - r);
      for (std::int64_t p = 0; p < f; ++p) {
        for (std::int64_t q = 0; q < f; ++q) {
          const TapMatrix<T>& taps = of[static_cast<std::size_t>((c % kernels * f + p) * f + q)];
          std::array<T*, kTapRows> to{};
          for (std::int64_t k = 0; k < some; ++k)
            to[static_cast<std::size_t>(k)] = lines + (k * f + q) * most;
          if (taps.weight.empty()) {
            for (std::int64_t k = 0; k < some; ++k) std::fill_n(to[static_cast<std::size_t>(k)], most, T(0));
            continue;
          }
          from.clear();
          for (std::int64_t i = 0; i < some + taps.height - 1; ++i)
            from.push_back(panel + (r + above + 1 - taps.height + i) * width + beyond + 1 - taps.width);
          tap_rows(from.data(), taps, to.data(), some, most, Into::replace);
        }
        for (std::int64_t k = 0; k < some; ++k) {
          const std::int64_t row = f * (top + r + k) + p;
          if (row < x.size(1))
            add_in_turn(lines + k * f * most, most, f, target + c * x.stride(0) + row * x.stride(1), columns);
        }
      }
    }
  };
  const std::int64_t room = (kCoarseRows + above) * width + kTapRows * f * most;
  in_strips<T>(x.size(0), (x.size(1) + f - 1) / f, kCoarseRows, f * columns,
               kernel_.size(1) * kernel_.size(2) / f, room, strip);
}

}  // namespace tessera
