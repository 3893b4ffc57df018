// SPDX-License-Identifier: BSD-3-Clause
#include "tap_blur.hpp"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>

#include <algorithm>
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
    correlate<scalar_t>(factor_ > 1 ? by_remainder<scalar_t>(in, factor_) : in, y[0]);
  });
}

template <class T>
void TapBlur::correlate(const at::Tensor& in, const at::Tensor& y) const {
  const std::int64_t row = in.stride(-2), channel = in.stride(0), phase = factor_ > 1 ? in.stride(1) : 0;
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
