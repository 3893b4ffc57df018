// SPDX-License-Identifier: BSD-3-Clause
#include "layers/layer_halos.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/add.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <span>
#include <utility>

#include "engines/features.hpp"
#include "tessera/core/error.hpp"
#include "tessera/core/image_space.hpp"
#include "tessera/core/phase.hpp"
#include "tessera/domain/tensor.hpp"

namespace tessera {
namespace {

constexpr std::int64_t kGrain = 64;  // elements; strips begin on cache lines

// The pixels `wanted` of features that hold `box`; a view.
at::Tensor part(const at::Tensor& x, const Box& box, const Box& wanted) { return narrowed(x, box, wanted); }

}  // namespace

LayerHalos::LayerHalos(LayerSchedule schedule, const Decomposition& decomposition, int rank,
                       const std::shared_ptr<Transport>& transport, const at::TensorOptions& features)
    : transport_(transport),
      axes_(schedule.axes),
      levels_(level_boxes(schedule, decomposition, rank)),
      sums_(schedule.sums) {
  if (axes_ == Axes::picture) items_ = std::max<std::int64_t>(1, block(0).extent(0));
  std::int64_t longest = 0;  // elements of all strips of one exchange
  const auto kind = c10::typeMetaToScalarType(features.dtype());
  for (const LayerExchange& e : schedule.exchanges) {
    Halo halo;
    halo.what = e;
    halo.cut = cut_block(block(e.level), at_level(decomposition.padded(), e.level, axes_), e);
    const auto same =
        std::find_if(shared_.begin(), shared_.end(), [&](const auto& s) { return same_pixels(s->what, e); });
    if (same != shared_.end()) {
      halo.exchange = &(*same)->exchange;
    } else {
      const LayerLayouts layouts(decomposition, e);
      shared_.push_back(std::make_unique<Shared>(Shared{
          e, Exchange(layouts.plan(rank), transport, e.channels, element_type(kind), Packing::pixels)}));
      halo.exchange = &shared_.back()->exchange;
    }
    std::int64_t elements = 0;
    for (const Strip& strip : halo.cut.strips) elements += strip.in.pixels() * e.channels + kGrain;
    longest = std::max(longest, elements);
    if (halo_of_step_.size() <= e.step) halo_of_step_.resize(e.step + 1, -1);
    halo_of_step_[e.step] = static_cast<int>(halos_.size());
    halos_.push_back(std::move(halo));
  }

  buffer_ = at::empty({longest}, features);
  for (Halo& halo : halos_) lay_out(halo);
  if (const Device device = tensor_device(buffer_); device.is_cuda())
    side_ = std::make_unique<SideStream>(device);
}

at::Tensor LayerHalos::empty_features(std::int64_t channels, const Box& box,
                                      const at::TensorOptions& options) const {
  return at::empty(feature_sizes(items_, channels, box, axes_), options.memory_format(channels_last(axes_)));
}

// Zeros, since margins are computed upon before they hold anything: Winograd's tiles mix them with the pixels
// beside them and take them out again, which memory of any content would not survive.
at::Tensor LayerHalos::zero_features(std::int64_t channels, const Box& box,
                                     const at::TensorOptions& options) const {
  return empty_features(channels, box, options).zero_();
}

at::Tensor LayerHalos::pixels(const at::Tensor& features) const {
  return items_ > 1 ? features.transpose(0, 1) : features[0];
}

// Opposite strips of one size lie one behind the other, as two images of a batch; of several planes each strip
// is a batch of its own.
void LayerHalos::lay_out(Halo& halo) {
  const std::array<Strip, 6>& strips = halo.cut.strips;
  const std::int64_t channels = halo.what.channels;
  std::int64_t at = 0;
  for (std::size_t i = 0; i < strips.size(); i += 2) {
    const bool turned = i == 2 && halo.what.rim.turned;
    const bool both =
        items_ == 1 && strips[i].in.extents() == strips[i + 1].in.extents() && !strips[i].in.empty();
    for (std::size_t k = i; k < i + 2; ++k) {
      const Box& box = strips[k].in;
      if (!both || k == i) {
        const std::int64_t count = both ? 2 : 1, rows = box.extent(turned ? 2 : 1),
                           columns = box.extent(turned ? 1 : 2);
        const std::int64_t elements = count * channels * box.pixels();
        const at::Tensor flat = buffer_.narrow(0, at, elements);
        const at::Tensor features =
            axes_ == Axes::volume
                ? flat.view({count, box.extent(0), rows, columns, channels}).permute({0, 4, 1, 2, 3})
                : flat.view({count * items_, rows, columns, channels}).permute({0, 3, 1, 2});
        if (!box.empty())
          halo.rims.push_back({{k, k + static_cast<std::size_t>(count) - 1}, count, turned, features});
        halo.pixels[k] = both ? features.narrow(0, 0, 1) : features;
        if (both) halo.pixels[k + 1] = features.narrow(0, 1, 1);
        at += (elements + kGrain - 1) / kGrain * kGrain;
      }
      if (turned) halo.pixels[k] = halo.pixels[k].transpose(2, 3);
      halo.views.push_back(view(pixels(halo.pixels[k]), box));
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

Exchange::Pending LayerHalos::begin(Halo& halo, const at::Tensor& x, const SideStream* side) {
  const PhaseScope phase(Phase::halo);
  ArrayView own = view(pixels(narrow(x, halo.what.level)), block(halo.what.level));
  if (side) own.stream = side->handle();
  return halo.exchange->begin(own, halo.views);
}

void LayerHalos::fill(const Halo& halo, const at::Tensor& x) const {
  const std::int64_t f = halo.what.fill;
  if (f == 0) return;
  const Box& have = region(halo.what.level);
  const Box wanted = block(halo.what.level).grow(ImageSpace::in_plane(f)).intersect(have);
  for (std::size_t i = 0; i < halo.pixels.size(); ++i) {
    const Box& box = halo.cut.strips[i].in;
    const Box common = box.intersect(wanted);
    if (!common.empty()) part(x, have, common).copy_(part(halo.pixels[i], box, common));
  }
}

at::Tensor LayerHalos::place(const at::Tensor& feature, const Halo& halo, const Rim& rim) const {
  const Box& have = region(halo.what.level);
  const at::Tensor first = part(feature, have, halo.cut.strips[rim.strips[0]].out);
  if (rim.count == 1) return first;
  const at::Tensor second = part(feature, have, halo.cut.strips[rim.strips[1]].out);
  const std::int64_t apart = second.storage_offset() - first.storage_offset();
  return first.as_strided({2, first.size(1), first.size(2), first.size(3)},
                          {apart, first.stride(1), first.stride(2), first.stride(3)});
}

at::Tensor LayerHalos::convolve(std::size_t step, ConvolutionLayer& convolution, ConvolutionLayer* turned,
                                const at::Tensor& x, bool relu, const at::Tensor& other, bool overwrite) {
  Halo& halo = halos_[static_cast<std::size_t>(halo_of_step_[step])];
  const bool placed =
      convolution.in_parts() && Winograd::takes(x) && (!other.defined() || Winograd::takes(other));
  const at::Tensor y = placed ? in_parts(halo, convolution, x, relu, other, overwrite)
                              : with_strips(halo, convolution, turned, x, relu, other, overwrite);
  fill(halo, x);
  return y;
}

at::Tensor LayerHalos::in_parts(Halo& halo, const ConvolutionLayer& convolution, const at::Tensor& x,
                                bool relu, const at::Tensor& other, bool overwrite) {
  Exchange::Pending pending = begin(halo, x, nullptr);
  pending.progress();
  const Box& have = region(halo.what.level);
  const Box& inside = halo.cut.inside;
  const std::int64_t reach = halo.what.reach;
  const at::Tensor y = overwrite              ? other
                       : halo.cut.all == have ? empty_features(convolution.outputs(), have, x.options())
                                              : zero_features(convolution.outputs(), have, x.options());
  const auto compute = [&](const at::Tensor& in, const std::array<std::int64_t, 2>& zeros,
                           const at::Tensor& sum, const at::Tensor& out) {
    convolution.part(in, zeros, sum.defined() ? &sum : nullptr, relu && !sum.defined(), out);
  };
  if (!inside.empty()) {
    const Box reads = inside.grow(ImageSpace::in_plane(reach));
    const Box there = reads.intersect(have);
    compute(part(x, have, there), {there.lo()[1] - reads.lo()[1], there.lo()[2] - reads.lo()[2]},
            other.defined() ? part(other, have, inside) : other, part(y, have, inside));
    pending.progress();
  }
  {
    const PhaseScope phase(Phase::halo);
    pending.wait();
  }
  for (const Rim& rim : halo.rims)
    compute(rim.pixels, {0, 0}, other.defined() ? place(other, halo, rim) : other, place(y, halo, rim));
  return y;
}

at::Tensor LayerHalos::with_strips(Halo& halo, ConvolutionLayer& convolution, ConvolutionLayer* turned,
                                   const at::Tensor& x, bool relu, const at::Tensor& other, bool overwrite) {
  // While the library tries its kernels out, nothing runs beside them.
  SideStream* const side = halo.known ? side_.get() : nullptr;
  halo.known = true;
  if (side) side->fork();
  Exchange::Pending pending = begin(halo, x, side);
  pending.progress();

  at::Tensor y;  // wrong along the sides until the strips replace it
  std::vector<at::Tensor> sums(halo.rims.size());
  if (other.defined())
    for (std::size_t i = 0; i < sums.size(); ++i) {
      sums[i] = place(other, halo, halo.rims[i]);
      if (overwrite && convolution.overwrites()) sums[i] = sums[i].clone();
    }
  if (!halo.cut.inside.empty()) {
    y = other.defined() ? convolution.add(x, other, overwrite) : convolution.apply(x, relu);
    pending.progress();
  }
  std::vector<at::Tensor> results =
      compute_rims(halo, pending, convolution, turned, relu && !other.defined(), side);

  const Box& have = region(halo.what.level);
  if (!y.defined() && halo.cut.all == have) return other.defined() ? results[0].add_(sums[0]) : results[0];
  if (!y.defined()) y = zero_features(convolution.outputs(), have, x.options());
  for (std::size_t i = 0; i < results.size(); ++i) {
    at::Tensor target = place(y, halo, halo.rims[i]);
    if (other.defined())
      at::add_out(target, results[i], sums[i]);
    else
      target.copy_(results[i]);
  }
  return y;
}

at::Tensor LayerHalos::attend(std::size_t step, int level, const WindowAttention& attention,
                              const at::Tensor& x) {
  const LevelBoxes& here = levels_[static_cast<std::size_t>(level)];
  const at::Tensor scratch = attention.scratch(here.block.extent(1), here.block.extent(2), x.options());
  return compute(step, level, attention.outputs(), x,
                 [&](const at::Tensor& in, const Box& have, const Box& wanted, const at::Tensor& y) {
                   attention.part(in, have, wanted, here.image, y, scratch);
                 });
}

at::Tensor LayerHalos::compute(std::size_t step, int level, std::int64_t outputs, const at::Tensor& x,
                               const Compute& compute) {
  const LevelBoxes& here = levels_[static_cast<std::size_t>(level)];
  const at::Tensor y = here.block == here.region ? empty_features(outputs, here.region, x.options())
                                                 : zero_features(outputs, here.region, x.options());
  const auto into = [&](const at::Tensor& in, const Box& have, const Box& wanted) {
    compute(in, have, wanted, part(y, here.region, wanted));
  };
  if (!exchanges(step)) {
    into(x, here.region, here.block);
    return y;
  }
  Halo& halo = halos_[static_cast<std::size_t>(halo_of_step_[step])];
  Exchange::Pending pending = begin(halo, x, nullptr);
  pending.progress();
  if (!halo.cut.inside.empty()) {
    into(x, here.region, halo.cut.inside);
    pending.progress();
  }
  {
    const PhaseScope phase(Phase::halo);
    pending.wait();
  }
  for (std::size_t i = 0; i < halo.pixels.size(); ++i)
    if (const Strip& strip = halo.cut.strips[i]; !strip.out.empty())
      into(halo.pixels[i], strip.in, strip.out);
  return y;
}

std::vector<at::Tensor> LayerHalos::compute_rims(const Halo& halo, Exchange::Pending& pending,
                                                 ConvolutionLayer& convolution, ConvolutionLayer* turned,
                                                 bool relu, SideStream* side) const {
  std::optional<SideStream::Scope> scope;
  if (side) scope.emplace(*side);
  {
    const PhaseScope phase(Phase::halo);
    pending.wait();
  }
  std::vector<at::Tensor> results;
  const ConvolutionLayer::Padding none = std::array<std::int64_t, 2>{0, 0};
  for (const Rim& rim : halo.rims) {
    TESSERA_EXPECT(!rim.turned || turned,
                   "a strip along columns without its kernel (rows and columns exchanged)");
    const at::Tensor z = (rim.turned ? *turned : convolution).apply(rim.pixels, relu, none);
    results.push_back(rim.turned ? z.transpose(2, 3) : z);
  }
  scope.reset();
  if (side) side->join();
  return results;
}

std::int64_t LayerHalos::bytes_sent() const {
  std::int64_t bytes = 0;
  for (const Halo& halo : halos_)
    bytes += halo.exchange->plan().pixels_sent() * halo.what.channels * buffer_.element_size();
  return bytes;
}

void LayerHalos::sum(at::Tensor& numbers) const {
  const PhaseScope phase(Phase::reduce);
  // Of a volume by planes each plane has its own, of whichever ranks hold parts of it.
  const bool planes = axes_ == Axes::picture;
  const Box& image = levels_[0].image;
  const std::int64_t count = planes ? image.extent(0) : 1,
                     first = block(0).empty() ? 0 : block(0).lo()[0] - image.lo()[0];
  at::Tensor all = at::zeros({count, numbers.numel() / items_}, at::kDouble);
  const at::Tensor here = planes ? all.narrow(0, first, items_) : all;
  here.copy_(numbers.view({items_, -1}));
  communicator(*transport_)
      .all_reduce({all.data_ptr<double>(), static_cast<std::size_t>(all.numel())}, Reduce::sum);
  numbers.copy_(here.view(numbers.sizes()));
}

void LayerHalos::skip() {
  const PhaseScope phase(Phase::halo);
  auto next = sums_.begin();
  const auto sums_before = [&](std::size_t step) {  // in the others' order
    for (; next != sums_.end() && next->step < step; ++next) {
      at::Tensor nothing = at::zeros({1, next->numbers}, at::kDouble);
      sum(nothing);
    }
  };
  for (Halo& halo : halos_) {
    sums_before(halo.what.step);
    const ArrayView nothing{.data = nullptr,
                            .box = {},
                            .channels = halo.what.channels,
                            .type = halo.views.front().type,
                            .device = halo.views.front().device};
    halo.exchange->begin(nothing, halo.views).wait();
  }
  sums_before(std::numeric_limits<std::size_t>::max());
}

// Sums are the host's.
bool LayerHalos::recordable() const { return sums_.empty() && tessera::recordable(*transport_); }

bool LayerHalos::everywhere(bool here) const {
  double all = here;
  communicator(*transport_).all_reduce(std::span<double>(&all, 1), Reduce::min);
  return all > 0;
}

void LayerHalos::count_pass() const {
  const PhaseScope phase(Phase::halo);
  for (const Halo& halo : halos_) {
    const ExchangePlan& plan = halo.exchange->plan();
    const std::int64_t bytes = halo.what.channels * buffer_.element_size();
    count_sent(plan.pixels_sent() * bytes, static_cast<std::int64_t>(plan.sends().size()));
    count_received(plan.pixels_received() * bytes);
  }
}

}  // namespace tessera
