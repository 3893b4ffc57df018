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

Box half_spectrum(const Box& image) {
  return Box::image2d(image.extent(kRow), image.extent(kColumn) / 2 + 1);
}

// An exchange from one layout to another that covers the same box.
Exchange redistribute(const Layout& from, const Layout& to, const Box& box, int rank,
                      const std::shared_ptr<Transport>& transport, std::int64_t channels,
                      at::ScalarType type) {
  return {ExchangePlan(from, to, box, Border::none, rank), transport, channels, element_type(type)};
}

void move(Exchange& exchange, const at::Tensor& from, const Box& from_box, const at::Tensor& to,
          const Box& to_box) {
  const PhaseScope halo(Phase::halo);
  exchange.begin(view(from, from_box), view(to, to_box)).wait();
}

}  // namespace

DistributedFourier::DistributedFourier(const Decomposition& decomposition, std::int64_t channels,
                                       at::TensorOptions options, std::shared_ptr<Transport> transport,
                                       int rank)
    : block_(decomposition.block(rank)),
      row_slab_(slabs(decomposition.image(), kRow, decomposition.ranks()).box(rank)),
      spectrum_row_(slabs(half_spectrum(decomposition.image()), kRow, decomposition.ranks()).box(rank)),
      spectrum_column_(slabs(half_spectrum(decomposition.image()), kColumn, decomposition.ranks()).box(rank)),
      width_(decomposition.image().extent(kColumn)),
      first_column_(spectrum_column_.lo()[kColumn]),
      last_column_(spectrum_column_.hi()[kColumn]),
      to_rows_(redistribute(decomposition.layout(), slabs(decomposition.image(), kRow, decomposition.ranks()),
                            decomposition.image(), rank, transport, channels,
                            options.dtype().toScalarType())),
      to_columns_(redistribute(slabs(half_spectrum(decomposition.image()), kRow, decomposition.ranks()),
                               slabs(half_spectrum(decomposition.image()), kColumn, decomposition.ranks()),
                               half_spectrum(decomposition.image()), rank, transport, channels,
                               at::toComplexType(options.dtype().toScalarType()))),
      from_columns_(redistribute(slabs(half_spectrum(decomposition.image()), kColumn, decomposition.ranks()),
                                 slabs(half_spectrum(decomposition.image()), kRow, decomposition.ranks()),
                                 half_spectrum(decomposition.image()), rank, transport, channels,
                                 at::toComplexType(options.dtype().toScalarType()))),
      from_rows_(redistribute(slabs(decomposition.image(), kRow, decomposition.ranks()),
                              decomposition.layout(), decomposition.image(), rank, transport, channels,
                              options.dtype().toScalarType())) {
  const at::TensorOptions complex = options.dtype(at::toComplexType(options.dtype().toScalarType()));
  rows_ = empty_block(channels, row_slab_, options);
  spectrum_rows_ = empty_block(channels, spectrum_row_, complex);
  columns_ = empty_block(channels, spectrum_column_, complex);
}

void DistributedFourier::forward(const at::Tensor& x) {
  move(to_rows_, x, block_, rows_, row_slab_);
  if (!row_slab_.empty()) spectrum_rows_.copy_(at::fft_rfft(rows_, width_, 2));
  move(to_columns_, spectrum_rows_, spectrum_row_, columns_, spectrum_column_);
  if (!spectrum_column_.empty()) columns_.copy_(at::fft_fft(columns_, std::nullopt, 1));
}

void DistributedFourier::inverse(at::Tensor& x) {
  if (!spectrum_column_.empty()) columns_.copy_(at::fft_ifft(columns_, std::nullopt, 1));
  move(from_columns_, columns_, spectrum_column_, spectrum_rows_, spectrum_row_);
  if (!row_slab_.empty()) rows_.copy_(at::fft_irfft(spectrum_rows_, width_, 2));
  move(from_rows_, rows_, row_slab_, x, block_);
}

std::int64_t DistributedFourier::bytes_sent() const {
  const std::int64_t real = to_rows_.plan().pixels_sent() + from_rows_.plan().pixels_sent();
  const std::int64_t complex = to_columns_.plan().pixels_sent() + from_columns_.plan().pixels_sent();
  const auto bytes = static_cast<std::int64_t>(rows_.dtype().itemsize());
  return rows_.size(0) * bytes * (real + 2 * complex);
}

std::array<ExchangePlan, 4> DistributedFourier::plans(const Decomposition& decomposition, int rank) {
  const Box image = decomposition.image(), half = half_spectrum(image);
  const int ranks = decomposition.ranks();
  const auto plan = [&](const Layout& a, const Layout& b, const Box& box) {
    return ExchangePlan(a, b, box, Border::none, rank);
  };
  const Layout blocks = decomposition.layout(), rows = slabs(image, kRow, ranks);
  const Layout half_rows = slabs(half, kRow, ranks), half_columns = slabs(half, kColumn, ranks);
  return {plan(blocks, rows, image), plan(half_rows, half_columns, half), plan(half_columns, half_rows, half),
          plan(rows, blocks, image)};
}

std::int64_t DistributedFourier::bytes_sent(const Decomposition& decomposition, std::int64_t channels,
                                            std::int64_t bytes, int rank) {
  const std::array<ExchangePlan, 4> p = plans(decomposition, rank);
  const std::int64_t real = p[0].pixels_sent() + p[3].pixels_sent();
  const std::int64_t complex = p[1].pixels_sent() + p[2].pixels_sent();
  return channels * bytes * (real + 2 * complex);
}

}  // namespace tessera
