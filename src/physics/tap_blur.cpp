// SPDX-License-Identifier: BSD-3-Clause
#include "tap_blur.hpp"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <type_traits>

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

// (C, h, w) with whole rows to (C, f, h, w / f): columns by their remainder.
template <class T>
at::Tensor by_remainder(const at::Tensor& in, std::int64_t f) {
  const std::int64_t rows = in.size(1), columns = in.size(2), n = (columns + f - 1) / f;
  const at::Tensor phases = at::empty({in.size(0), f, rows, n}, in.options());
  const T* from = in.const_data_ptr<T>();
  T* to = phases.mutable_data_ptr<T>();
  at::parallel_for(0, in.size(0) * rows, grain(columns, 1), [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t r = first; r < last; ++r)
      deal_in_turn(from + r / rows * in.stride(0) + r % rows * in.stride(1), columns, f,
                   to + (r / rows * f * rows + r % rows) * n, rows * n);
  });
  return phases;
}

// Taps that are less than this share of the largest are 0: no sum can tell, and products below the smallest
// normal number, as in the tails of a Gaussian, take processors a hundred times as long.
constexpr double kNothing = 1e-30;

// The taps of each kernel (1 or C, h, w); `turned` by half a turn, as a convolution meets its input.
template <class T>
std::vector<TapMatrix<T>> matrices(const at::Tensor& kernel, bool turned) {
  const auto taps = kernel.accessor<double, 3>();
  const std::int64_t height = taps.size(1), width = taps.size(2);
  const double least = kNothing * kernel.abs().max().item<double>();
  std::vector<TapMatrix<T>> of(static_cast<std::size_t>(taps.size(0)), {height, width, {}});
  for (std::int64_t k = 0; k < taps.size(0); ++k)
    for (std::int64_t i = 0; i < height; ++i)
      for (std::int64_t j = 0; j < width; ++j) {
        const double tap = turned ? taps[k][height - 1 - i][width - 1 - j] : taps[k][i][j];
        of[static_cast<std::size_t>(k)].weight.push_back(static_cast<T>(std::abs(tap) < least ? 0.0 : tap));
      }
  return of;
}

// work(channel, first row, rows) for strips of up to kTapRows rows of (C, rows, columns), side by side.
template <class Work>
void in_strips(const at::Tensor& out, std::int64_t taps, const Work& work) {
  const std::int64_t rows = out.size(1), strips = (rows + kTapRows - 1) / kTapRows;
  at::parallel_for(0, out.size(0) * strips, grain(kTapRows * out.size(2), taps),
                   [&](std::int64_t first, std::int64_t last) {
                     for (std::int64_t s = first; s < last; ++s) {
                       const std::int64_t top = s % strips * kTapRows;
                       work(s / strips, top, std::min(kTapRows, rows - top));
                     }
                   });
}

}  // namespace

TapBlur::TapBlur(const BankFilter& filter, const Index2& begin, const Index2& end)
    : kernel_(filter.taps),
      factor_(filter.anchor.factor[1]),
      begin_(begin),
      end_(end),
      reach_{(kernel_.size(1) - 1) / factor_, (kernel_.size(2) - 1) / factor_} {}

void TapBlur::apply(const at::Tensor& x, std::span<const at::Tensor> y) {
  TESSERA_EXPECT(y[0].is_contiguous(), "samples with strides ", y[0].strides(), " (rows are written whole)");
  at::Tensor in = x.slice(1, begin_[0], end_[0]).slice(2, begin_[1], end_[1]);
  if (in.stride(2) != 1) in = in.contiguous();
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "tap_blur", [&] {
    if (factor_ == 1)
      correlate_rows<scalar_t>(in, y[0]);
    else
      correlate<scalar_t>(by_remainder<scalar_t>(in, factor_), y[0]);
  });
}

template <class T>
void TapBlur::correlate_rows(const at::Tensor& in, const at::Tensor& y) const {
  const std::vector<TapMatrix<T>> of = matrices<T>(kernel_, /*turned=*/true);
  const std::int64_t height = kernel_.size(1), columns = y.size(2);
  const T* source = in.const_data_ptr<T>();
  T* target = y.mutable_data_ptr<T>();
  in_strips(y, height * kernel_.size(2), [&](std::int64_t c, std::int64_t top, std::int64_t rows) {
    std::vector<const T*> from;
    for (std::int64_t i = 0; i < rows + height - 1; ++i)
      from.push_back(source + c * in.stride(0) + (top + i) * in.stride(1));
    std::array<T*, kTapRows> to{};
    for (std::int64_t r = 0; r < rows; ++r)
      to[static_cast<std::size_t>(r)] = target + c * y.stride(0) + (top + r) * y.stride(1);
    tap_rows(from.data(), of[static_cast<std::size_t>(c) % of.size()], to.data(), rows, columns,
             Into::replace);
  });
}

// Every pixel gathers from the samples around it; those beyond the measurement are zeros: rows of them above and
// below, and at the ends of rows copies that are continued by zeros.
template <class T>
void TapBlur::spread_rows(const at::Tensor& y, const at::Tensor& x) const {
  const std::vector<TapMatrix<T>> of = matrices<T>(kernel_, /*turned=*/false);
  const std::int64_t height = kernel_.size(1), beyond = kernel_.size(2) - 1;
  const std::int64_t samples = y.size(2), columns = x.size(2);
  constexpr std::int64_t kWide = 48;  // columns of an end are filled up to full vectors
  const std::int64_t end = std::min(columns, (beyond + kWide - 1) / kWide * kWide);
  const bool apart = 2 * end + kWide <= columns;  // else all of a row is taken for its end
  const T* source = y.const_data_ptr<T>();
  T* target = x.mutable_data_ptr<T>();
  const std::vector<T> zeros(static_cast<std::size_t>(samples));
  in_strips(x, height * (beyond + 1), [&](std::int64_t c, std::int64_t top, std::int64_t rows) {
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
    std::vector<T> panel;
    const auto at_an_end = [&](std::int64_t begin, std::int64_t n) {
      const std::int64_t width = n + beyond, first = begin - beyond;
      const std::int64_t lo = std::max<std::int64_t>(0, first), hi = std::min(samples, first + width);
      panel.assign(lines.size() * static_cast<std::size_t>(width), T(0));
      for (std::size_t i = 0; i < lines.size(); ++i) {
        T* line = panel.data() + static_cast<std::int64_t>(i) * width;
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
  });
}

template <class T>
void TapBlur::correlate(const at::Tensor& in, const at::Tensor& y) const {
  const std::int64_t row = in.stride(-2), channel = in.stride(0), phase = in.stride(1);
  const auto kernel = kernel_.accessor<double, 3>();
  const std::int64_t kernels = kernel.size(0), height = kernel.size(1), width = kernel.size(2);
  std::vector<Taps<T>> of(static_cast<std::size_t>(kernels));
  // A convolution reads backward: tap (i, j) meets the pixel (h - 1 - i, w - 1 - j) of the window.
  for (std::int64_t k = 0; k < kernels; ++k)
    for (std::int64_t i = 0; i < height; ++i)
      for (std::int64_t j = 0; j < width; ++j) {
        Taps<T>& all = of[static_cast<std::size_t>(k)];
        all.offset.push_back(j % factor_ * phase + i * row + j / factor_);
        all.weight.push_back(static_cast<T>(kernel[k][height - 1 - i][width - 1 - j]));
      }
  const std::int64_t rows = y.size(1), columns = y.size(2);
  const T* source = in.const_data_ptr<T>();
  T* out = y.mutable_data_ptr<T>();
  at::parallel_for(0, y.size(0) * rows, grain(columns, height * width),
                   [&](std::int64_t first, std::int64_t last) {
                     for (std::int64_t r = first; r < last; ++r)
                       tap_sum(source + r / rows * channel + factor_ * (r % rows) * row,
                               of[static_cast<std::size_t>(r / rows % kernels)], out + r * columns, columns);
                   });
}

void TapBlur::adjoint(std::span<const at::Tensor> y, const at::Tensor& x) {
  const at::Tensor to = x.slice(1, begin_[0], end_[0]).slice(2, begin_[1], end_[1]);
  TESSERA_EXPECT(to.stride(2) == 1 || to.size(2) == 1, "pixels with strides ", x.strides(),
                 " (rows are added to as a whole)");
  if (factor_ == 1) {
    const at::Tensor samples = y[0].stride(2) == 1 ? y[0] : y[0].contiguous();
    AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "tap_blur", [&] { spread_rows<scalar_t>(samples, to); });
    return;
  }
  const at::Tensor framed = at::constant_pad_nd(y[0], {reach_[1], reach_[1], reach_[0], reach_[0]});
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "tap_blur", [&] { spread<scalar_t>(framed, to); });
}

// The taps that bring samples to pixels of these remainders: pixel f a + p gets sample a - i / f from tap i =
// p, p + f, ... of the window's correlation.
template <class T>
Taps<T> TapBlur::taps(std::int64_t kernel, std::int64_t row_phase, std::int64_t column_phase,
                      std::int64_t row_stride) const {
  const auto tap = kernel_.accessor<double, 3>()[kernel];
  Taps<T> some;
  for (std::int64_t i = row_phase; i < tap.size(0); i += factor_)
    for (std::int64_t j = column_phase; j < tap.size(1); j += factor_) {
      some.offset.push_back((reach_[0] - i / factor_) * row_stride + reach_[1] - j / factor_);
      some.weight.push_back(static_cast<T>(tap[tap.size(0) - 1 - i][tap.size(1) - 1 - j]));
    }
  return some;
}

template <class T>
void TapBlur::spread(const at::Tensor& framed, const at::Tensor& x) const {
  const std::int64_t rows = x.size(1), columns = x.size(2), stride = framed.stride(1), f = factor_;
  const std::int64_t kernels = kernel_.size(0);
  std::vector<Taps<T>> of;  // by kernel, row and column remainder
  for (std::int64_t k = 0; k < kernels; ++k)
    for (std::int64_t p = 0; p < f; ++p)
      for (std::int64_t q = 0; q < f; ++q) of.push_back(taps<T>(k, p, q, stride));
  const T* samples = framed.const_data_ptr<T>();
  T* out = x.mutable_data_ptr<T>();
  at::parallel_for(0, x.size(0) * rows, grain(columns, kernel_.numel() / (kernels * f * f)),
                   [&](std::int64_t first, std::int64_t last) {
                     const std::int64_t most = (columns + f - 1) / f;
                     std::vector<T> lines(static_cast<std::size_t>(f * most));  // one per column remainder
                     for (std::int64_t r = first; r < last; ++r) {
                       const std::int64_t c = r / rows, h = r % rows;
                       for (std::int64_t q = 0; q < std::min(f, columns); ++q) {
                         const Taps<T>& some =
                             of[static_cast<std::size_t>((c % kernels * f + h % f) * f + q)];
                         T* line = lines.data() + q * most;
                         const std::int64_t n = (columns - q + f - 1) / f;
                         if (some.weight.empty())
                           std::fill_n(line, n, T(0));
                         else
                           tap_sum(samples + c * framed.stride(0) + h / f * stride, some, line, n);
                       }
                       add_in_turn(lines.data(), most, f, out + c * x.stride(0) + h * x.stride(1), columns);
                     }
                   });
}

}  // namespace tessera
