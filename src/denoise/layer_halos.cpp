// SPDX-License-Identifier: BSD-3-Clause
#include "layer_halos.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <utility>

#include "tessera/core/error.hpp"
#include "tessera/core/phase.hpp"
#include "tessera/domain/tensor.hpp"

namespace tessera {
namespace {

constexpr std::int64_t kGrain = 64;  // elements; strips begin on cache lines

// Zeros, since margins are computed upon before they hold anything: Winograd's tiles mix them with the pixels
// beside them and take them out again, which memory of any content would not survive.
at::Tensor zero_features(std::int64_t channels, const Box& box, const at::TensorOptions& options) {
  return at::empty({1, channels, box.extent(1), box.extent(2)},
                   options.memory_format(at::MemoryFormat::ChannelsLast))
      .zero_();
}

// A channels-last tensor in a piece of memory.
at::Tensor lay_out(const at::Tensor& memory, std::int64_t channels, std::int64_t rows, std::int64_t columns) {
  return memory.narrow(0, 0, channels * rows * columns)
      .view({1, rows, columns, channels})
      .permute({0, 3, 1, 2});
}

// The pixels `wanted` of features (1, C, h, w) that hold `box`; a view.
at::Tensor part(const at::Tensor& x, const Box& box, const Box& wanted) {
  return x.narrow(2, wanted.lo()[1] - box.lo()[1], wanted.extent(1))
      .narrow(3, wanted.lo()[2] - box.lo()[2], wanted.extent(2));
}

}  // namespace

LayerHalos::LayerHalos(LayerSchedule schedule, const Decomposition& decomposition, int rank,
                       const std::shared_ptr<Transport>& transport, const at::TensorOptions& features) {
  for (std::size_t l = 0; l < schedule.margin.size(); ++l) {
    const int level = static_cast<int>(l);
    const std::int64_t m = schedule.margin[l];
    const Box block = at_level(decomposition.padded_block(rank), level);
    levels_.push_back(
        {block, block.grow({{0, m, m}, {0, m, m}}).intersect(at_level(decomposition.padded(), level))});
  }

  std::int64_t longest = 0;  // elements of all strips of one exchange
  const auto kind = c10::typeMetaToScalarType(features.dtype());
  for (const LayerExchange& e : schedule.exchanges) {
    Halo halo;
    halo.what = e;
    halo.strips = cut_strips(block(e.level), at_level(decomposition.padded(), e.level), e.reach, e.margin);
    const auto same = std::find_if(shared_.begin(), shared_.end(), [&](const auto& s) {
      return s->level == e.level && s->channels == e.channels && s->reach == e.reach && s->margin == e.margin;
    });
    if (same != shared_.end()) {
      halo.exchange = &(*same)->exchange;
    } else {
      const LayerLayouts layouts(decomposition, e.level, e.reach, e.margin);
      shared_.push_back(std::make_unique<Shared>(
          Shared{e.level, e.channels, e.reach, e.margin,
                 Exchange(layouts.plan(rank), transport, e.channels, element_type(kind), Packing::pixels)}));
      halo.exchange = &shared_.back()->exchange;
    }
    std::int64_t elements = 0;
    for (const Strip& strip : halo.strips)
      elements += (strip.in.pixels() * e.channels + kGrain - 1) / kGrain * kGrain;
    longest = std::max(longest, elements);
    if (halo_of_step_.size() <= e.step) halo_of_step_.resize(e.step + 1, -1);
    halo_of_step_[e.step] = static_cast<int>(halos_.size());
    halos_.push_back(std::move(halo));
  }

  buffer_ = at::empty({longest}, features);
  for (Halo& halo : halos_) {
    std::int64_t at = 0;
    const std::int64_t channels = halo.what.channels;
    for (std::size_t i = 0; i < halo.strips.size(); ++i) {
      const Strip& strip = halo.strips[i];
      const Box& box = strip.in;
      const at::Tensor memory = buffer_.narrow(0, at, longest - at);
      halo.pixels[i] = strip.column ? lay_out(memory, channels, box.extent(2), box.extent(1))
                                    : lay_out(memory, channels, box.extent(1), box.extent(2));
      const at::Tensor pixels = strip.column ? halo.pixels[i].transpose(2, 3) : halo.pixels[i];
      halo.views.push_back(view(pixels[0], box));
      at += (box.pixels() * channels + kGrain - 1) / kGrain * kGrain;
    }
  }
}

at::Tensor LayerHalos::narrow(const at::Tensor& x, int level) const {
  return region(level) == block(level) ? x : part(x, region(level), block(level));
}

at::Tensor LayerHalos::widen(const at::Tensor& x, int level) const {
  if (region(level) == block(level)) return x;
  at::Tensor wide = zero_features(x.size(1), region(level), x.options());
  narrow(wide, level).copy_(x);
  return wide;
}

bool LayerHalos::exchanges(std::size_t step) const {
  return step < halo_of_step_.size() && halo_of_step_[step] >= 0;
}

Exchange::Pending LayerHalos::begin(Halo& halo, const at::Tensor& x) {
  const PhaseScope phase(Phase::halo);
  return halo.exchange->begin(view(narrow(x, halo.what.level)[0], block(halo.what.level)), halo.views);
}

void LayerHalos::fill(const Halo& halo, const at::Tensor& x) const {
  const std::int64_t f = halo.what.fill;
  if (f == 0) return;
  const Box& have = region(halo.what.level);
  const Box wanted = block(halo.what.level).grow({{0, f, f}, {0, f, f}}).intersect(have);
  for (std::size_t i = 0; i < halo.strips.size(); ++i) {
    const Strip& strip = halo.strips[i];
    const Box common = strip.in.intersect(wanted);
    if (common.empty()) continue;
    const at::Tensor pixels = strip.column ? halo.pixels[i].transpose(2, 3) : halo.pixels[i];
    part(x, have, common).copy_(part(pixels, strip.in, common));
  }
}

at::Tensor LayerHalos::convolve(std::size_t step, Convolution& convolution, Convolution* turned,
                                const at::Tensor& x, bool relu, const at::Tensor& other, bool overwrite) {
  Halo& halo = halos_[static_cast<std::size_t>(halo_of_step_[step])];
  const Box& have = region(halo.what.level);
  Exchange::Pending pending = begin(halo, x);
  pending.progress();

  // The inside; along the sides its values are wrong until the strips replace them.
  const bool all_in_strip = halo.strips[0].out.contains(block(halo.what.level));
  std::array<at::Tensor, 4> rim;  // of the other operand, before it is overwritten
  at::Tensor y;
  if (!all_in_strip) {
    if (other.defined())
      for (std::size_t i = 0; i < rim.size(); ++i) {
        const Box& out = halo.strips[i].out;
        if (out.empty()) continue;
        rim[i] = part(other, have, out);
        if (overwrite) rim[i] = rim[i].clone(at::MemoryFormat::ChannelsLast);
      }
    y = other.defined() ? convolution.add(x, other, overwrite) : convolution.apply(x, relu);
    pending.progress();
  } else if (other.defined()) {
    rim[0] = part(other, have, halo.strips[0].out);
  }
  {
    const PhaseScope phase(Phase::halo);
    pending.wait();
  }

  const Convolution::Padding none = std::array<std::int64_t, 2>{0, 0};
  for (std::size_t i = 0; i < halo.strips.size(); ++i) {
    const Strip& strip = halo.strips[i];
    if (strip.out.empty()) continue;
    TESSERA_EXPECT(!strip.column || turned,
                   "a strip along columns without its kernel (rows and columns exchanged)");
    at::Tensor z =
        (strip.column ? *turned : convolution).apply(halo.pixels[i], relu && !other.defined(), none);
    if (strip.column) z = z.transpose(2, 3);
    if (other.defined()) z.add_(rim[i]);
    if (all_in_strip && strip.out == have) {
      y = z;
    } else {
      if (!y.defined()) y = zero_features(z.size(1), have, z.options());
      part(y, have, strip.out).copy_(z);
    }
  }
  fill(halo, x);
  return y;
}

bool LayerHalos::margins() const {
  return std::any_of(levels_.begin(), levels_.end(), [](const Level& l) { return l.region != l.block; });
}

std::int64_t LayerHalos::bytes_sent() const {
  std::int64_t bytes = 0;
  for (const Halo& halo : halos_)
    bytes += halo.exchange->plan().pixels_sent() * halo.what.channels * buffer_.element_size();
  return bytes;
}

void LayerHalos::skip() {
  const PhaseScope phase(Phase::halo);
  for (Halo& halo : halos_) {
    const ArrayView nothing{.data = nullptr,
                            .box = {},
                            .channels = halo.what.channels,
                            .type = halo.views.front().type,
                            .device = halo.views.front().device};
    halo.exchange->begin(nothing, halo.views).wait();
  }
}

}  // namespace tessera
