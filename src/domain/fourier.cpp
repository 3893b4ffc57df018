// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/domain/fourier.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/fft_fft.h>
#include <ATen/ops/fft_ifft.h>
#include <ATen/ops/fft_irfft.h>
#include <ATen/ops/fft_rfft.h>

#include <algorithm>
#include <type_traits>
#include <utility>
#include <vector>

#include "tessera/core/phase.hpp"
#include "tessera/domain/tensor.hpp"

namespace tessera {
namespace {

constexpr std::size_t kRow = 1, kColumn = 2;

// `box` cut across one axis into equal slabs, one per rank.
Layout slabs(const Box& box, std::size_t axis, int ranks) {
  std::vector<Box> list;
  for (int r = 0; r < ranks; ++r) {
    Index3 lo = box.lo(), hi = box.hi();
    lo[axis] = box.lo()[axis] + box.extent(axis) * r / ranks;
    hi[axis] = box.lo()[axis] + box.extent(axis) * (r + 1) / ranks;
    list.emplace_back(lo, hi);
  }
  return Layout(std::move(list));
}

Box half_spectrum(const Box& box) { return Box::image2d(box.extent(kRow), box.extent(kColumn) / 2 + 1); }

void move(Exchange& exchange, const at::Tensor& from, const Box& from_box, const at::Tensor& to,
          const Box& to_box) {
  const PhaseScope halo(Phase::halo);
  exchange.begin(view(from, from_box), view(to, to_box)).wait();
}

// out <- transform(in) along axis 1 (columns) or 2 (rows), (C, H, W), in parts of about a quarter million
// numbers: a transform makes its result anew, which for whole images would be an image more. in may be out.
// A transform may take its channel and first line beside its part.
template <class Transform>
void in_parts(const at::Tensor& in, const at::Tensor& out, std::int64_t axis, const Transform& transform) {
  constexpr std::int64_t kPart = 1 << 18;
  const std::int64_t across = 3 - axis, lines = in.size(across);
  const std::int64_t most = std::max<std::int64_t>(1, kPart / std::max<std::int64_t>(1, in.size(axis)));
  for (std::int64_t c = 0; c < in.size(0); ++c)
    for (std::int64_t begin = 0; begin < lines; begin += most) {
      const std::int64_t count = std::min(most, lines - begin);
      const auto part = [&](const at::Tensor& t) { return t.narrow(0, c, 1).narrow(across, begin, count); };
      if constexpr (std::is_invocable_v<Transform, at::Tensor>)
        part(out).copy_(transform(part(in)));
      else
        part(out).copy_(transform(part(in), c, begin));
    }
}

}  // namespace

DistributedFourier::DistributedFourier(const Layout& blocks, const Box& box, std::int64_t channels,
                                       at::TensorOptions options, std::shared_ptr<Transport> transport,
                                       int rank)
    : block_(blocks.box(rank)),
      row_slab_(slabs(box, kRow, blocks.ranks()).box(rank)),
      spectrum_row_(slabs(half_spectrum(box), kRow, blocks.ranks()).box(rank)),
      spectrum_column_(slabs(half_spectrum(box), kColumn, blocks.ranks()).box(rank)),
      width_(box.extent(kColumn)),
      first_column_(spectrum_column_.lo()[kColumn]),
      last_column_(spectrum_column_.hi()[kColumn]),
      alone_(blocks.ranks() == 1) {
  const at::ScalarType real = options.dtype().toScalarType(), complex = at::toComplexType(real);
  std::array<ExchangePlan, 4> p = plans(blocks, box, rank);
  to_rows_.emplace(std::move(p[0]), transport, channels, element_type(real));
  to_columns_.emplace(std::move(p[1]), transport, channels, element_type(complex));
  from_columns_.emplace(std::move(p[2]), transport, channels, element_type(complex));
  from_rows_.emplace(std::move(p[3]), transport, channels, element_type(real));
  columns_ = empty_block(channels, spectrum_column_, options.dtype(complex));
  spectrum_rows_ = alone_ ? columns_ : empty_block(channels, spectrum_row_, options.dtype(complex));
  if (!alone_) rows_ = empty_block(channels, row_slab_, options);
}

void DistributedFourier::to_columns(const at::Tensor& x) {
  if (!alone_) move(*to_rows_, x, block_, rows_, row_slab_);
  in_parts(alone_ ? x : rows_, spectrum_rows_, 2,
           [&](const at::Tensor& t) { return at::fft_rfft(t, width_, 2); });
  if (!alone_) move(*to_columns_, spectrum_rows_, spectrum_row_, columns_, spectrum_column_);
}

void DistributedFourier::from_columns(at::Tensor& x) {
  if (!alone_) move(*from_columns_, columns_, spectrum_column_, spectrum_rows_, spectrum_row_);
  in_parts(spectrum_rows_, alone_ ? x : rows_, 2,
           [&](const at::Tensor& t) { return at::fft_irfft(t, width_, 2); });
  if (!alone_) move(*from_rows_, rows_, row_slab_, x, block_);
}

void DistributedFourier::forward(const at::Tensor& x) {
  to_columns(x);
  in_parts(columns_, columns_, 1, [](const at::Tensor& t) { return at::fft_fft(t, std::nullopt, 1); });
}

void DistributedFourier::inverse(at::Tensor& x) {
  in_parts(columns_, columns_, 1, [](const at::Tensor& t) { return at::fft_ifft(t, std::nullopt, 1); });
  from_columns(x);
}

void DistributedFourier::divide(const at::Tensor& in, const at::Tensor& symbol, double gain,
                                at::Tensor& out) {
  to_columns(in);
  // A column stays in the cache from its transform to its inverse.
  in_parts(columns_, columns_, 1, [&](const at::Tensor& t, std::int64_t channel, std::int64_t begin) {
    const at::Tensor s = symbol.select(0, symbol.size(0) > 1 ? channel : 0).narrow(1, begin, t.size(2));
    at::Tensor spectrum = at::fft_fft(t, std::nullopt, 1);
    // By a complex number: with pairs of real ones torch takes four times as long.
    spectrum.mul_(s.mul(gain).add_(1).reciprocal_());
    return at::fft_ifft(spectrum, std::nullopt, 1);
  });
  from_columns(out);
}

std::int64_t DistributedFourier::bytes_sent() const {
  const std::int64_t real = to_rows_->plan().pixels_sent() + from_rows_->plan().pixels_sent();
  const std::int64_t complex = to_columns_->plan().pixels_sent() + from_columns_->plan().pixels_sent();
  const auto bytes = static_cast<std::int64_t>(columns_.dtype().itemsize()) / 2;
  return columns_.size(0) * bytes * (real + 2 * complex);
}

std::array<ExchangePlan, 4> DistributedFourier::plans(const Layout& blocks, const Box& box, int rank) {
  const Box half = half_spectrum(box);
  const int ranks = blocks.ranks();
  const auto plan = [&](const Layout& a, const Layout& b, const Box& all) {
    return ExchangePlan(a, b, all, Border::none, rank);
  };
  const Layout rows = slabs(box, kRow, ranks);
  const Layout half_rows = slabs(half, kRow, ranks), half_columns = slabs(half, kColumn, ranks);
  return {plan(blocks, rows, box), plan(half_rows, half_columns, half), plan(half_columns, half_rows, half),
          plan(rows, blocks, box)};
}

std::int64_t DistributedFourier::bytes_sent(const Layout& blocks, const Box& box, std::int64_t channels,
                                            std::int64_t bytes, int rank) {
  const std::array<ExchangePlan, 4> p = plans(blocks, box, rank);
  const std::int64_t real = p[0].pixels_sent() + p[3].pixels_sent();
  const std::int64_t complex = p[1].pixels_sent() + p[2].pixels_sent();
  return channels * bytes * (real + 2 * complex);
}

}  // namespace tessera
