// SPDX-License-Identifier: BSD-3-Clause
#include "tap_blur.hpp"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>

#include <algorithm>

#include "tessera/core/error.hpp"

namespace tessera {
namespace {

// Rows per task at least, so that starting it is worth it.
std::int64_t grain(std::int64_t columns, std::int64_t taps) {
  return 1 + (std::int64_t{1} << 17) / (1 + columns * taps);
}

}  // namespace

TapBlur::TapBlur(const BankFilter& filter, const Index2& begin, const Index2& end)
    : kernel_(filter.taps),
      factor_(filter.anchor.factor[1]),
      begin_(begin),
      end_(end),
      reach_{(kernel_.size(0) - 1) / factor_, (kernel_.size(1) - 1) / factor_} {}

void TapBlur::apply(const at::Tensor& x, std::span<const at::Tensor> y) {
  TESSERA_EXPECT(y[0].is_contiguous(), "samples with strides ", y[0].strides(), " (rows are written whole)");
  at::Tensor in = x.slice(1, begin_[0], end_[0]).slice(2, begin_[1], end_[1]);
  if (factor_ > 1) {  // (C, f, h, w / f): columns by their remainder
    const at::Tensor phases =
        at::empty({in.size(0), factor_, in.size(1), (in.size(2) + factor_ - 1) / factor_}, in.options());
    for (std::int64_t q = 0; q < std::min(factor_, in.size(2)); ++q) {
      const at::Tensor part = in.slice(2, q, std::nullopt, factor_);
      phases.select(1, q).slice(2, 0, part.size(2)).copy_(part);
    }
    in = phases;
  } else if (in.stride(2) != 1) {
    in = in.contiguous();
  }
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "tap_blur", [&] { correlate<scalar_t>(in, y[0]); });
}

template <class T>
void TapBlur::correlate(const at::Tensor& in, const at::Tensor& y) const {
  const std::int64_t row = in.stride(-2), channel = in.stride(0), phase = factor_ > 1 ? in.stride(1) : 0;
  Taps<T>
      all;  // a convolution reads backward: tap (i, j) meets the pixel (h - 1 - i, w - 1 - j) of the window
  const auto kernel = kernel_.accessor<double, 2>();
  for (std::int64_t i = 0; i < kernel.size(0); ++i)
    for (std::int64_t j = 0; j < kernel.size(1); ++j) {
      all.offset.push_back(j % factor_ * phase + i * row + j / factor_);
      all.weight.push_back(static_cast<T>(kernel[kernel.size(0) - 1 - i][kernel.size(1) - 1 - j]));
    }
  const std::int64_t rows = y.size(1), columns = y.size(2);
  const T* source = in.const_data_ptr<T>();
  T* out = y.mutable_data_ptr<T>();
  at::parallel_for(
      0, y.size(0) * rows, grain(columns, kernel_.numel()), [&](std::int64_t first, std::int64_t last) {
        for (std::int64_t r = first; r < last; ++r)
          tap_sum(source + r / rows * channel + factor_ * (r % rows) * row, all, out + r * columns, columns);
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
Taps<T> TapBlur::taps(std::int64_t row_phase, std::int64_t column_phase, std::int64_t row_stride) const {
  const auto kernel = kernel_.accessor<double, 2>();
  Taps<T> some;
  for (std::int64_t i = row_phase; i < kernel.size(0); i += factor_)
    for (std::int64_t j = column_phase; j < kernel.size(1); j += factor_) {
      some.offset.push_back((reach_[0] - i / factor_) * row_stride + reach_[1] - j / factor_);
      some.weight.push_back(static_cast<T>(kernel[kernel.size(0) - 1 - i][kernel.size(1) - 1 - j]));
    }
  return some;
}

template <class T>
void TapBlur::spread(const at::Tensor& framed, const at::Tensor& x) const {
  const std::int64_t rows = x.size(1), columns = x.size(2), stride = framed.stride(1), f = factor_;
  std::vector<Taps<T>> of;  // by row and column remainder
  for (std::int64_t p = 0; p < f; ++p)
    for (std::int64_t q = 0; q < f; ++q) of.push_back(taps<T>(p, q, stride));
  const T* samples = framed.const_data_ptr<T>();
  T* out = x.mutable_data_ptr<T>();
  at::parallel_for(0, x.size(0) * rows, grain(columns, kernel_.numel() / (f * f)),
                   [&](std::int64_t first, std::int64_t last) {
                     std::vector<T> line(static_cast<std::size_t>((columns + f - 1) / f));
                     for (std::int64_t r = first; r < last; ++r) {
                       const std::int64_t c = r / rows, h = r % rows;
                       T* to = out + c * x.stride(0) + h * x.stride(1);
                       for (std::int64_t q = 0; q < std::min(f, columns); ++q) {
                         const Taps<T>& some = of[static_cast<std::size_t>(h % f * f + q)];
                         if (some.weight.empty()) continue;
                         const std::int64_t n = (columns - q + f - 1) / f;
                         tap_sum(samples + c * framed.stride(0) + h / f * stride, some, line.data(), n);
                         for (std::int64_t w = 0; w < n; ++w)
                           to[q + f * w] += line[static_cast<std::size_t>(w)];
                       }
                     }
                   });
}

}  // namespace tessera
