// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/domain/fourier.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/add.h>
#include <ATen/ops/fft_fft.h>
#include <ATen/ops/fft_ifft.h>
#include <ATen/ops/fft_irfft.h>
#include <ATen/ops/fft_rfft.h>

#include <algorithm>
#include <array>
#include <type_traits>
#include <utility>
#include <vector>

#include "tessera/core/memory.hpp"
#include "tessera/core/phase.hpp"
#include "tessera/domain/bands.hpp"
#include "tessera/domain/tensor.hpp"
#include "tessera/domain/tensor_memory.hpp"

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

Box half_spectrum(const Box& box) {
  return {{0, 0, 0}, {box.extent(0), box.extent(kRow), box.extent(kColumn) / 2 + 1}};
}

// Across it lie the lines that are transformed first: rows of a picture, slices of a volume.
std::size_t slab_axis(const FourierArray& array) { return array.part.space.volume() ? 0 : kRow; }
bool deep(const FourierArray& array) {
  return array.part.space.volume() && array.axes == FourierAxes::volume;
}
// Whether the second lines leave the slabs.
bool turned(const FourierArray& array) { return !array.part.space.volume() || deep(array); }

// Slices as channels: (C, H, W).
at::Tensor planes_of(const at::Tensor& t) { return t.dim() == 4 ? t.flatten(0, 1) : t; }

void move(Exchange& exchange, const at::Tensor& from, const Box& from_box, const at::Tensor& to,
          const Box& to_box) {
  const PhaseScope halo(Phase::halo);
  exchange.begin(view(from, from_box), view(to, to_box)).wait();
}

// Lines that are transformed at once, about a quarter million numbers: a transform makes its result anew, which for whole
// images would be an image more.
std::int64_t lines_at_once(const at::Tensor& t, std::int64_t axis) {
  return std::max<std::int64_t>(1, (std::int64_t{1} << 18) / std::max<std::int64_t>(1, t.size(axis)));
}

template <class Transform>
at::Tensor transformed(const Transform& transform, const at::Tensor& t, std::int64_t channel,
                       std::int64_t first) {
  if constexpr (std::is_invocable_v<Transform, at::Tensor>)
    return transform(t);
  else
    return transform(t, channel, first);
}

// out <- transform(in) along axis 1 (columns) or 2 (rows), (C, H, W), in parts. in may be out. A transform may take its
// channel and first line beside its part.
//
// Columns of what lies in a file go through memory in bands as wide as its pages, so that each is read once; the parts
// are the same, so that the bits do not say where an image lies.
template <class Transform>
void in_parts(const at::Tensor& in, const at::Tensor& out, std::int64_t axis, const Transform& transform) {
  constexpr std::int64_t kBand = 512, kAhead = 8;
  const std::int64_t across = 3 - axis, lines = in.size(across), most = lines_at_once(in, axis);
  const std::int64_t width = axis == 1 && in_scratch(in) ? (kBand + most - 1) / most * most : most;
  const bool on_disk = in_scratch(in) || in_scratch(out);
  const std::int64_t few = axis == 1 ? width : kAhead * width;  // lines that are waited for at once
  for (std::int64_t c = 0; c < in.size(0); ++c)
    for (std::int64_t begin = 0; begin < lines; begin += width) {
      const std::int64_t count = std::min(width, lines - begin);
      const auto lines_of = [&](const at::Tensor& t, std::int64_t from, std::int64_t wanted) {
        const std::int64_t first = std::min(from, lines);
        return t.narrow(0, c, 1).narrow(across, first, std::min(wanted, lines - first));
      };
      const auto part = [&](const at::Tensor& t) { return lines_of(t, begin, count); };
      if (on_disk && begin % few == 0) {
        if (axis == 2) fetch_ahead(lines_of(in, begin + few, few));
        await(std::array{lines_of(in, begin, few)}, lines_of(out, begin, few));
      }
      if (count <= most) {
        part(out).copy_(transformed(transform, part(in), c, begin));
        continue;
      }
      const MemoryScope in_memory(MemoryUse::activations);
      const at::Tensor band = part(in).contiguous();
      for (std::int64_t k = 0; k < count; k += most) {
        const at::Tensor some = band.narrow(across, k, std::min(most, count - k));
        some.copy_(transformed(transform, some, c, begin + k));
      }
      part(out).copy_(band);
    }
}

}  // namespace

DistributedFourier::DistributedFourier(const FourierArray& array, at::TensorOptions options,
                                       std::shared_ptr<Transport> transport, int rank)
    : block_(array.part.block(rank)),
      width_(array.part.box().extent(kColumn)),
      deep_(deep(array)),
      alone_(array.part.owners.ranks() == 1) {
  const ImageSpace& space = array.part.space;
  const at::ScalarType real = options.dtype().toScalarType(), complex = at::toComplexType(real);
  std::vector<Turn> turns = plans(array, rank);
  row_slab_ = turns[0].plan.need();
  const bool turns_over = turns.size() == 4 && !alone_;
  spectrum_row_ =
      slabs(half_spectrum(array.part.box()), slab_axis(array), array.part.owners.ranks()).box(rank);
  spectrum_column_ = turns.size() == 4 ? turns[1].plan.need() : spectrum_row_;
  first_column_ = spectrum_column_.lo()[kColumn];
  last_column_ = spectrum_column_.hi()[kColumn];
  for (Turn& turn : turns)
    turns_.push_back(std::make_unique<Exchange>(std::move(turn.plan), transport, space.planes(),
                                                element_type(turn.complex ? complex : real)));
  columns_ = empty_block(space.planes(), spectrum_column_, options.dtype(complex), space.axes);
  spectrum_rows_ =
      turns_over ? empty_block(space.planes(), spectrum_row_, options.dtype(complex), space.axes) : columns_;
  if (!alone_) rows_ = empty_block(space.planes(), row_slab_, options, space.axes);
}

at::Tensor DistributedFourier::lines(const at::Tensor& spectrum) const {
  return deep_ ? spectrum.flatten(2, 3) : planes_of(spectrum);
}

void DistributedFourier::to_columns(const Sum& x) {
  if (!alone_) move(*turns_.front(), x.in, block_, rows_, row_slab_);
  const at::Tensor spectrum = planes_of(spectrum_rows_);
  const at::Tensor more = alone_ && x.more.defined() ? planes_of(x.more) : at::Tensor();
  overwritten_soon(spectrum);
  in_parts(planes_of(alone_ ? x.in : rows_), spectrum, 2,
           [&](const at::Tensor& t, std::int64_t channel, std::int64_t begin) {
             if (!more.defined()) return at::fft_rfft(t, width_, 2);
             const at::Tensor there = more.narrow(0, channel, 1).narrow(1, begin, t.size(1));
             return at::fft_rfft(at::add(t, there, x.share), width_, 2);
           });
  if (deep_)
    in_parts(spectrum, spectrum, 1, [](const at::Tensor& t) { return at::fft_fft(t, std::nullopt, 1); });
  if (turns_.size() == 4 && !alone_)
    move(*turns_[1], spectrum_rows_, spectrum_row_, columns_, spectrum_column_);
}

void DistributedFourier::from_columns(at::Tensor& x) {
  if (turns_.size() == 4 && !alone_)
    move(*turns_[2], columns_, spectrum_column_, spectrum_rows_, spectrum_row_);
  const at::Tensor spectrum = planes_of(spectrum_rows_);
  if (deep_)
    in_parts(spectrum, spectrum, 1, [](const at::Tensor& t) { return at::fft_ifft(t, std::nullopt, 1); });
  overwritten_soon(alone_ ? x : rows_);
  in_parts(spectrum, planes_of(alone_ ? x : rows_), 2,
           [&](const at::Tensor& t) { return at::fft_irfft(t, width_, 2); });
  if (!alone_) move(*turns_.back(), rows_, row_slab_, x, block_);
}

void DistributedFourier::forward(const at::Tensor& x) {
  to_columns({x});
  const at::Tensor all = lines(columns_);
  in_parts(all, all, 1, [](const at::Tensor& t) { return at::fft_fft(t, std::nullopt, 1); });
}

void DistributedFourier::inverse(at::Tensor& x) {
  const at::Tensor all = lines(columns_);
  in_parts(all, all, 1, [](const at::Tensor& t) { return at::fft_ifft(t, std::nullopt, 1); });
  from_columns(x);
}

void DistributedFourier::divide(const Sum& in, const at::Tensor& symbol, double gain, at::Tensor& out) {
  if (!alone_ && in.more.defined()) {
    by_bands(
        [&](at::Tensor sum, const at::Tensor& a, const at::Tensor& b) { at::add_out(sum, a, b, in.share); },
        out, in.in, in.more);
    to_columns({out});
  } else {
    to_columns(in);
  }
  const at::Tensor all = lines(columns_), gains = lines(symbol);
  // A line stays in the cache from its transform to its inverse.
  in_parts(all, all, 1, [&](const at::Tensor& t, std::int64_t channel, std::int64_t begin) {
    const at::Tensor s = gains.select(0, gains.size(0) > 1 ? channel : 0).narrow(1, begin, t.size(2));
    at::Tensor spectrum = at::fft_fft(t, std::nullopt, 1);
    // By a complex number: with pairs of real ones torch takes four times as long.
    spectrum.mul_(s.mul(gain).add_(1).reciprocal_());
    return at::fft_ifft(spectrum, std::nullopt, 1);
  });
  from_columns(out);
}

std::vector<DistributedFourier::Turn> DistributedFourier::plans(const FourierArray& array, int rank) {
  const Box &box = array.part.box(), half = half_spectrum(box);
  const int ranks = array.part.owners.ranks();
  const auto plan = [&](const Layout& a, const Layout& b, const Box& all) {
    return ExchangePlan(a, b, all, Border::none, rank);
  };
  const std::size_t axis = slab_axis(array);
  const Layout rows = slabs(box, axis, ranks);
  std::vector<Turn> turns;
  turns.push_back({plan(array.part.owners, rows, box)});
  if (turned(array)) {
    const Layout half_rows = slabs(half, axis, ranks), half_columns = slabs(half, kColumn, ranks);
    turns.push_back({plan(half_rows, half_columns, half), true});
    turns.push_back({plan(half_columns, half_rows, half), true});
  }
  turns.push_back({plan(rows, array.part.owners, box)});
  return turns;
}

std::int64_t DistributedFourier::bytes_sent(const FourierArray& array, int rank) {
  std::int64_t numbers = 0;
  for (const Turn& turn : plans(array, rank)) numbers += (turn.complex ? 2 : 1) * turn.plan.pixels_sent();
  return array.part.space.planes() * array.part.space.element_bytes * numbers;
}

double DistributedFourier::memory(const FourierArray& array, int rank) {
  const Box half = half_spectrum(array.part.box());
  const int ranks = array.part.owners.ranks();
  const Box slab = slabs(array.part.box(), slab_axis(array), ranks).box(rank);
  const bool turns = turned(array);
  std::int64_t numbers = 2 * slabs(half, turns ? kColumn : slab_axis(array), ranks).box(rank).pixels();
  if (ranks > 1) numbers += slab.pixels();
  if (ranks > 1 && turns) numbers += 2 * slabs(half, slab_axis(array), ranks).box(rank).pixels();
  return static_cast<double>(array.part.space.planes() * array.part.space.element_bytes * numbers);
}

}  // namespace tessera
