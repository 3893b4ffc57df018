// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/domain/fourier.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/fft_fft.h>
#include <ATen/ops/fft_ifft.h>
#include <ATen/ops/fft_irfft.h>
#include <ATen/ops/fft_rfft.h>

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
      last_column_(spectrum_column_.hi()[kColumn]) {
  const at::ScalarType real = options.dtype().toScalarType(), complex = at::toComplexType(real);
  std::array<ExchangePlan, 4> p = plans(blocks, box, rank);
  to_rows_.emplace(std::move(p[0]), transport, channels, element_type(real));
  to_columns_.emplace(std::move(p[1]), transport, channels, element_type(complex));
  from_columns_.emplace(std::move(p[2]), transport, channels, element_type(complex));
  from_rows_.emplace(std::move(p[3]), transport, channels, element_type(real));
  rows_ = empty_block(channels, row_slab_, options);
  spectrum_rows_ = empty_block(channels, spectrum_row_, options.dtype(complex));
  columns_ = empty_block(channels, spectrum_column_, options.dtype(complex));
}

void DistributedFourier::forward(const at::Tensor& x) {
  move(*to_rows_, x, block_, rows_, row_slab_);
  if (!row_slab_.empty()) spectrum_rows_.copy_(at::fft_rfft(rows_, width_, 2));
  move(*to_columns_, spectrum_rows_, spectrum_row_, columns_, spectrum_column_);
  if (!spectrum_column_.empty()) columns_.copy_(at::fft_fft(columns_, std::nullopt, 1));
}

void DistributedFourier::inverse(at::Tensor& x) {
  if (!spectrum_column_.empty()) columns_.copy_(at::fft_ifft(columns_, std::nullopt, 1));
  move(*from_columns_, columns_, spectrum_column_, spectrum_rows_, spectrum_row_);
  if (!row_slab_.empty()) rows_.copy_(at::fft_irfft(spectrum_rows_, width_, 2));
  move(*from_rows_, rows_, row_slab_, x, block_);
}

std::int64_t DistributedFourier::bytes_sent() const {
  const std::int64_t real = to_rows_->plan().pixels_sent() + from_rows_->plan().pixels_sent();
  const std::int64_t complex = to_columns_->plan().pixels_sent() + from_columns_->plan().pixels_sent();
  const auto bytes = static_cast<std::int64_t>(rows_.dtype().itemsize());
  return rows_.size(0) * bytes * (real + 2 * complex);
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
