// SPDX-License-Identifier: BSD-3-Clause
#include "overlap_save.hpp"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/fft_irfft2.h>
#include <ATen/ops/fft_rfft2.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "tessera/core/error.hpp"

namespace tessera {
namespace {

constexpr std::size_t kRow = 1, kColumn = 2;  // axes of a Box

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return a >= 0 ? (a + b - 1) / b : -(-a / b); }

at::Tensor window(const at::Tensor& t, const Index2& begin, const Index2& end, std::int64_t step = 1) {
  at::Tensor out = t;
  for (std::int64_t d = 0; d < 2; ++d) {  // a view that changes nothing takes as long as a row's transform
    const auto i = static_cast<std::size_t>(d);
    if (step != 1 || begin[i] != 0 || end[i] != t.size(d + 1)) out = out.slice(d + 1, begin[i], end[i], step);
  }
  return out;
}

}  // namespace

std::int64_t fast_size(std::int64_t n) {
  for (std::int64_t size = n + n % 2;; size += 2) {
    std::int64_t rest = size;
    for (const std::int64_t p : {2, 3, 5})
      while (rest % p == 0) rest /= p;
    if (rest == 1) return size;
  }
}

// On a CPU by hand: torch multiplies the complex numbers left over from full vectors with another rounding,
// and which ones these are depends on the number of threads. Here each row is a loop of its own.
void multiply_spectra(const at::Tensor& out, const at::Tensor& spectrum, const at::Tensor& kernel,
                      Filter filter, Into into) {
  if (!out.is_cpu()) {
    at::Tensor k = filter == Filter::conjugate ? kernel.conj() : kernel;
    while (k.dim() < out.dim()) k = k.unsqueeze(1);
    if (into == Into::add)
      out.addcmul_(spectrum, k);
    else
      at::mul_out(const_cast<at::Tensor&>(out), spectrum, k);
    return;
  }
  const at::Tensor in = spectrum.contiguous();
  const std::int64_t rows = kernel.size(1), columns = kernel.size(2);
  const std::int64_t tiles = out.numel() / (out.size(0) * rows * columns);
  const std::int64_t next = kernel.size(0) > 1 ? rows : 0;  // rows from a channel's filter to the next one's
  AT_DISPATCH_FLOATING_TYPES(at::toRealValueType(out.scalar_type()), "multiply", [&] {
    const auto* x = static_cast<const scalar_t*>(in.const_data_ptr());
    const auto* k = static_cast<const scalar_t*>(kernel.const_data_ptr());
    auto* y = static_cast<scalar_t*>(out.mutable_data_ptr());
    at::parallel_for(0, out.size(0) * tiles * rows, 1 + (1 << 14) / columns,
                     [&](std::int64_t begin, std::int64_t end) {
                       for (std::int64_t r = begin; r < end; ++r) {
                         const std::int64_t line = r / (tiles * rows) * next + r % rows;
                         spectrum_product(x + 2 * r * columns, k + 2 * line * columns, y + 2 * r * columns,
                                          columns, filter, into);
                       }
                     });
  });
}

TilePlan choose_tiles(const Index2& extent, const Index2& overlap) {
  TilePlan best;
  double least = std::numeric_limits<double>::infinity();
  const auto cores = [](std::int64_t length, std::int64_t taps) {
    std::vector<std::int64_t> list;  // a core much smaller than the overlap is never worth it
    for (std::int64_t n = 1; n <= 64; ++n) {
      list.push_back(ceil_div(length, n));
      if (list.back() <= std::max<std::int64_t>(64, taps / 2)) break;
    }
    return list;
  };
  for (const std::int64_t rows : cores(extent[0], overlap[0]))
    for (const std::int64_t columns : cores(extent[1], overlap[1])) {
      TilePlan plan;
      plan.side = {fast_size(rows + overlap[0]), fast_size(columns + overlap[1])};
      plan.core = {std::min(plan.side[0] - overlap[0], extent[0]),
                   std::min(plan.side[1] - overlap[1], extent[1])};
      plan.count = {ceil_div(extent[0], plan.core[0]), ceil_div(extent[1], plan.core[1])};
      const double pixels = static_cast<double>(plan.side[0] * plan.side[1]);
      // Beyond about a quarter million pixels a transform leaves the second-level cache and slows down.
      const double memory = 1.0 + 0.25 * std::max(0.0, std::log2(pixels / 0x1p18));
      const double cost = static_cast<double>(plan.count[0] * plan.count[1]) *
                          (pixels * std::log2(pixels + 1) * memory + 2e4 /* start of a transform */);
      if (cost < least) {
        least = cost;
        best = plan;
      }
    }
  return best;
}

Index2 choose_batch(const TilePlan& plan, std::int64_t pixels, bool device) {
  if (!device) return {1, 1};
  // Of float32 and per channel: 16 images of a batch (12 as measured for one tile, with what tiles cover
  // together and the cores side by side), 4 images of the block.
  const std::int64_t tiles = std::max<std::int64_t>(1, pixels / (4 * plan.side[0] * plan.side[1]));
  if (tiles < plan.count[1]) return {1, tiles};
  return {std::min(plan.count[0], tiles / plan.count[1]), plan.count[1]};
}

OperatorWork overlap_save_work(std::span<const LocalOperator* const> group, std::span<const Box> samples,
                               std::int64_t channels) {
  // Tiles of float32 that a pass takes at once, its setup in double precision included: as measured (12.8 to
  // 14.4 with one kernel).
  constexpr double kTiles = 12;
  Index2 extent{}, overlap{};
  double kernels = 0;
  for (std::size_t i = 0; i < group.size(); ++i) {
    if (samples[i].empty()) continue;
    ++kernels;
    const Anchor anchor = group[i]->anchor();
    const Reach r = group[i]->reach();
    for (std::size_t d = 0; d < 2; ++d) {
      extent[d] = std::max(extent[d], anchor.factor[d + 1] * (samples[i].extent(d + 1) - 1) + 1);
      overlap[d] = std::max(overlap[d], r.lo[d + 1] + r.hi[d + 1]);
    }
  }
  if (kernels == 0) return {};
  const TilePlan tiles = choose_tiles(extent, overlap);
  const double values = static_cast<double>(tiles.side[0] * tiles.side[1]);
  const double c = static_cast<double>(channels);
  OperatorWork w;
  const double count = static_cast<double>(tiles.count[0] * tiles.count[1]);
  w.transforms.push_back({2 * (1 + kernels) * count, c * values, count});
  w.moment = kTiles * 4 * c * values;
  w.kept = kernels * 2 * 4 * values;  // a kernel's half spectrum and its conjugate
  return w;
}

OverlapSave::OverlapSave(std::vector<BankFilter> filters, const LocalOperator::Placement& placement,
                         const Index2& batch)
    : placement_(placement) {
  Box outputs;  // image pixels at which samples are anchored, holes of a coarser grid included
  for (std::size_t i = 0; i < filters.size(); ++i) {
    const BankFilter& f = filters[i];
    anchors_.push_back(f.anchor);
    const Index2 taps{f.taps.size(1), f.taps.size(2)};
    for (std::size_t d = 0; d < 2; ++d) {
      lo_[d] = std::max(lo_[d], taps[d] - 1 - f.origin[d]);
      hi_[d] = std::max(hi_[d], f.origin[d]);
    }
    const Box& samples = placement.samples[i];
    if (samples.empty()) continue;
    Index3 lo{0, 0, 0}, hi{1, 0, 0};
    for (const std::size_t d : {kRow, kColumn}) {
      lo[d] = f.anchor.factor[d] * samples.lo()[d] + f.anchor.offset[d];
      hi[d] = f.anchor.factor[d] * (samples.hi()[d] - 1) + f.anchor.offset[d] + 1;
    }
    outputs = outputs.hull(Box(lo, hi));
  }
  if (outputs.empty()) return;
  first_ = {outputs.lo()[kRow], outputs.lo()[kColumn]};
  tiles_ = choose_tiles({outputs.extent(kRow), outputs.extent(kColumn)}, {lo_[0] + hi_[0], lo_[1] + hi_[1]});

  const Index2& side = tiles_.side;
  const std::int64_t half = side[1] / 2 + 1;
  const at::ScalarType real = placement.options.dtype().toScalarType();
  const at::ScalarType complex = at::toComplexType(real);
  for (const BankFilter& f : filters) {
    // Output n of a tile is sum_j taps[j] tile[n + lo + origin - j]: tap j stands at j - origin - lo, modulo
    // the side.
    at::Tensor placed = at::zeros({f.taps.size(0), side[0], side[1]}, at::kDouble);
    window(placed, {0, 0}, {f.taps.size(1), f.taps.size(2)}).copy_(f.taps);
    placed = placed.roll({-f.origin[0] - lo_[0], -f.origin[1] - lo_[1]}, {1, 2});
    spectra_.push_back(at::fft_rfft2(placed).to(placement.options.dtype(complex)));
  }
  const bool device = placement.options.device().is_cuda();
  const Index2 most = batch[0] > 0 ? batch : choose_batch(tiles_, outputs.pixels(), device);
  for (std::int64_t r = 0; r < tiles_.count[0]; r += most[0])
    for (std::int64_t c = 0; c < tiles_.count[1]; c += most[1])
      batches_.push_back(
          {{r, c}, {std::min(most[0], tiles_.count[0] - r), std::min(most[1], tiles_.count[1] - c)}});
  rooms_.resize(device ? 1 : std::min(batches_.size(), static_cast<std::size_t>(at::get_num_threads())));
  const Tiles full{{}, most};
  const Index2 cover = covered(full);
  for (Room& room : rooms_) {
    room.tile = at::zeros({placement.image.planes(), cover[0], cover[1]}, placement.options);
    room.product = at::empty({placement.image.planes(), full.number() * side[0], half},
                             placement.options.dtype(complex));
  }
}

// work(batch, room) for batches [first, last), each thread those of one room.
template <class Work>
void OverlapSave::side_by_side(std::size_t first, std::size_t last, Work work) {
  const std::size_t step = rooms_.size();
  const auto those_of = [&](std::int64_t begin, std::int64_t end) {
    for (auto r = static_cast<std::size_t>(begin); r < static_cast<std::size_t>(end); ++r)
      for (std::size_t k = first + r; k < last; k += step) work(k, rooms_[r]);
  };
  const auto rooms = static_cast<std::int64_t>(std::min(step, last - first));
  if (rooms == 1)  // its transforms have the threads
    those_of(0, 1);
  else
    at::parallel_for(0, rooms, 1, those_of);
}

Index2 OverlapSave::covered(const Tiles& tiles) const {
  return {(tiles.count[0] - 1) * tiles_.core[0] + tiles_.side[0],
          (tiles.count[1] - 1) * tiles_.core[1] + tiles_.side[1]};
}

at::Tensor OverlapSave::product_of(const Tiles& tiles, const Room& room) const {
  const std::int64_t channels = placement_.image.planes(), rows = tiles_.side[0],
                     half = tiles_.side[1] / 2 + 1;
  if (room.product.size(1) == rows) return room.product;
  const at::Tensor all = room.product.view(-1).narrow(0, 0, channels * tiles.number() * rows * half);
  if (tiles.number() == 1) return all.view({channels, rows, half});
  return all.view({channels, tiles.count[0], tiles.count[1], rows, half});
}

// (C, covered) -> (C, tile rows, tile columns, side, side); a view. One tile, as on a CPU, stays
// (C, side, side).
at::Tensor OverlapSave::apart(const at::Tensor& covered) const {
  if (covered.size(1) == tiles_.side[0] && covered.size(2) == tiles_.side[1]) return covered;
  return covered.unfold(1, tiles_.side[0], tiles_.core[0]).unfold(2, tiles_.side[1], tiles_.core[1]);
}

// The transpose: what lies in several tiles is summed. Tiles that do not touch are added in one call.
at::Tensor OverlapSave::together(const at::Tensor& tiles) const {
  if (tiles.dim() == 3) return tiles;
  const std::int64_t rows = tiles.size(1), columns = tiles.size(2);
  const Index2 cover = covered({{}, {rows, columns}});
  const at::Tensor sum = at::zeros({tiles.size(0), cover[0], cover[1]}, tiles.options());
  const at::Tensor places = apart(sum);
  const std::int64_t down = ceil_div(tiles_.side[0], tiles_.core[0]),
                     across = ceil_div(tiles_.side[1], tiles_.core[1]);
  for (std::int64_t r = 0; r < std::min(down, rows); ++r)
    for (std::int64_t c = 0; c < std::min(across, columns); ++c)
      places.slice(1, r, rows, down)
          .slice(2, c, columns, across)
          .add_(tiles.slice(1, r, rows, down).slice(2, c, columns, across));
  return sum;
}

// The tiles' cores, (C, tile rows, rows, tile columns, columns); a view.
at::Tensor OverlapSave::cores(const at::Tensor& tiles) const {
  return tiles.narrow(3, 0, tiles_.core[0]).narrow(4, 0, tiles_.core[1]).permute({0, 1, 3, 2, 4});
}

OverlapSave::Cut OverlapSave::cut(std::size_t filter, const Tiles& tiles) const {
  Cut c;
  const Box& samples = placement_.samples[filter];
  if (samples.empty()) return c;
  c.empty = false;
  for (std::size_t d = 0; d < 2; ++d) {
    const std::int64_t f = anchors_[filter].factor[d + 1], o = anchors_[filter].offset[d + 1];
    const std::int64_t origin = first_[d] + tiles.first[d] * tiles_.core[d];
    const std::int64_t after = origin + tiles.count[d] * tiles_.core[d];
    const std::int64_t begin = std::max(samples.lo()[d + 1], ceil_div(origin - o, f));
    const std::int64_t end = std::min(samples.hi()[d + 1], ceil_div(after - o, f));
    if (begin >= end) return {};
    c.begin[d] = begin - samples.lo()[d + 1];
    c.end[d] = end - samples.lo()[d + 1];
    c.start[d] = f * begin + o - origin;
    c.stop[d] = f * (end - 1) + o - origin + 1;
  }
  return c;
}

OverlapSave::Overlap OverlapSave::overlap(const Tiles& tiles) const {
  Overlap o;
  o.whole = true;
  const Index2 cover = covered(tiles);
  for (std::size_t d = 0; d < 2; ++d) {
    const std::int64_t origin = first_[d] + tiles.first[d] * tiles_.core[d] - lo_[d];
    const std::int64_t begin = std::max(origin, placement_.input.lo()[d + 1]);
    const std::int64_t end = std::max(begin, std::min(origin + cover[d], placement_.input.hi()[d + 1]));
    o.begin[d] = begin - placement_.input.lo()[d + 1];
    o.end[d] = end - placement_.input.lo()[d + 1];
    o.start[d] = begin - origin;
    o.stop[d] = end - origin;
    o.whole = o.whole && end - begin == cover[d];
  }
  return o;
}

void OverlapSave::apply(const Tiles& tiles, Room& room, const at::Tensor& x,
                        std::span<const at::Tensor> y) const {
  const at::IntArrayRef side(tiles_.side.data(), 2);
  const Overlap o = overlap(tiles);
  const at::Tensor cover = window(room.tile, {0, 0}, covered(tiles));
  if (!o.whole) cover.zero_();
  window(cover, o.start, o.stop).copy_(window(x, o.begin, o.end));
  const at::Tensor product = product_of(tiles, room);
  at::Tensor spectrum;
  for (std::size_t i = 0; i < anchors_.size(); ++i) {
    const Cut k = cut(i, tiles);
    if (k.empty) continue;
    if (!spectrum.defined()) spectrum = at::fft_rfft2(apart(cover));
    multiply_spectra(product, spectrum, spectra_[i], Filter::as_is, Into::replace);
    at::Tensor image = at::fft_irfft2(product, side);  // of one tile: a cut stays inside of its core
    if (image.dim() > 3)
      image = cores(image).reshape(
          {image.size(0), tiles.count[0] * tiles_.core[0], tiles.count[1] * tiles_.core[1]});
    window(y[i], k.begin, k.end).copy_(window(image, k.start, k.stop, anchors_[i].factor[1]));
  }
}

void OverlapSave::apply(const at::Tensor& x, std::span<const at::Tensor> y) {
  side_by_side(0, batches_.size(), [&](std::size_t k, Room& room) { apply(batches_[k], room, x, y); });
}

// What the tiles give to the pixels that they cover, (C, covered); undefined: nothing.
at::Tensor OverlapSave::adjoint(const Tiles& tiles, Room& room, std::span<const at::Tensor> y) const {
  const Index2& side = tiles_.side;
  const at::Tensor product = product_of(tiles, room);
  const std::int64_t channels = product.size(0), rows = tiles.count[0], columns = tiles.count[1];
  const bool one = tiles.number() == 1;
  at::Tensor inputs, image;  // tiles with their cores filled; the cores side by side
  bool any = false;
  for (std::size_t i = 0; i < anchors_.size(); ++i) {
    const Cut k = cut(i, tiles);
    if (k.empty) continue;
    if (!inputs.defined()) {
      inputs = one ? window(room.tile, {0, 0}, side)
                   : at::zeros({channels, rows, columns, side[0], side[1]}, room.tile.options());
      image =
          one ? inputs
              : at::empty({channels, rows * tiles_.core[0], columns * tiles_.core[1]}, room.tile.options());
    }
    image.zero_();
    window(image, k.start, k.stop, anchors_[i].factor[1]).copy_(window(y[i], k.begin, k.end));
    if (!one) cores(inputs).copy_(image.view({channels, rows, tiles_.core[0], columns, tiles_.core[1]}));
    multiply_spectra(product, at::fft_rfft2(inputs), spectra_[i], Filter::conjugate,
                     any ? Into::add : Into::replace);
    any = true;
  }
  return any ? together(at::fft_irfft2(product, at::IntArrayRef(side.data(), 2))) : at::Tensor();
}

void OverlapSave::adjoint(std::span<const at::Tensor> y, const at::Tensor& x) {
  std::vector<at::Tensor> images(rooms_.size());
  for (std::size_t first = 0; first < batches_.size(); first += rooms_.size()) {
    const std::size_t last = std::min(first + rooms_.size(), batches_.size());
    side_by_side(first, last,
                 [&](std::size_t k, Room& room) { images[k - first] = adjoint(batches_[k], room, y); });
    for (std::size_t k = first; k < last; ++k) {
      const at::Tensor image = std::exchange(images[k - first], {});
      if (!image.defined()) continue;
      const Overlap o = overlap(batches_[k]);
      window(x, o.begin, o.end).add_(window(image, o.start, o.stop));
    }
  }
}

}  // namespace tessera
