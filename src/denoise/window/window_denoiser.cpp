// SPDX-License-Identifier: BSD-3-Clause
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "executors.hpp"
#include "symmetries.hpp"
#include "tessera/core/error.hpp"
#include "tessera/core/memory.hpp"
#include "tessera/core/phase.hpp"
#include "tessera/core/units.hpp"
#include "tessera/denoise/network_denoiser.hpp"
#include "tessera/denoise/planes.hpp"
#include "tessera/denoise/runner.hpp"
#include "tessera/denoise/windows.hpp"
#include "tessera/domain/tensor.hpp"
#include "tessera/domain/tensor_memory.hpp"

namespace tessera {
namespace {

bool same_shape(const Box& a, const Box& b) { return a.extents() == b.extents(); }

// `box` in pixels of a window, which begins at the origin.
Box within(const Box& box, const Box& window) { return box.shift(Index3{} - window.lo()); }

Index3 clipped_halo(const Network& network, const ExecutionOptions& options, const Decomposition& d) {
  Index3 halo = network.halo();
  const Index3 alignment = network.alignment();
  for (std::size_t axis = first_axis(network.graph.axes()); axis < 3; ++axis) {
    const std::int64_t a = alignment[axis], most = (longest(d.padded().extents()) + a - 1) / a * a;
    halo[axis] = std::min(options.halo >= 0 ? options.halo : halo[axis], most);
  }
  return halo;
}

std::string halo_text(const Index3& halo, const Network& network) {
  const auto& [depth, rows, columns] = halo;
  if (network.graph.axes() == Axes::volume) return concat(depth, " x ", rows, " x ", columns);
  return rows == columns ? std::to_string(rows) : concat(rows, " x ", columns);
}

/// What the passes over an image's windows take, and how they are cut; equal on all ranks.
struct Passes {
  Passes(const Network& network, const ExecutionOptions& o, const ImageSpace& image)
      : options(o),
        by_planes(tessera::by_planes(network, image)),
        image_channels(image.planes()),
        network_channels(network.channels()),
        result_channels(network.graph.output().channels),
        runner(network, RunnerOptions{.type = o.type,
                                      .tf32 = o.tf32,
                                      .deterministic = o.deterministic,
                                      .fused = o.fused,
                                      .in_turn = true,
                                      .device = o.device}) {}

  // What run() takes for so many windows of this shape: the network's features, and the copies around them. Of
  // a volume by planes each plane is an item.
  std::int64_t bytes(std::int64_t items, const Box& window) const {
    Index3 extents = window.extents();
    const bool joined = items > 1;
    if (by_planes) items *= std::exchange(extents[0], 1);
    const std::int64_t image = items * image_channels * extents[0] * extents[1] * extents[2] * element_size();
    const std::int64_t turned = image / image_channels * network_channels;
    const std::int64_t back = turned / network_channels * result_channels;
    std::int64_t copies = joined ? image : 0;
    if (options.averaging != Averaging::none) copies += turned + back;
    if (options.averaging == Averaging::flips || options.averaging == Averaging::all) copies += back;
    if (image_channels != network_channels) copies += image;
    return runner.bytes(items, extents) + copies;
  }
  std::int64_t element_size() const { return options.type == at::kDouble ? 8 : 4; }

  // Patch and batch: what is asked for, else the largest patch that the memory allows and windows enough for it.
  CutSize choose(const Network& network, const Decomposition& d) const {
    const Index3 a = network.alignment(), halo = clipped_halo(network, options, d);
    std::vector<Box> blocks;
    for (int r = 0; r < d.ranks(); ++r) blocks.push_back(d.padded_block(r));
    std::int64_t most = longest(a);
    for (const Box& b : blocks)
      most = std::max({most, by_planes ? 1 : b.extent(0), b.extent(1), b.extent(2)});

    CutSize cut{.patch = most};
    if (options.mode != ExecutionMode::whole && options.patch > 0) {
      cut.patch = std::min(options.patch, most);
    } else if (options.mode != ExecutionMode::whole && options.memory_bytes > 0) {
      const std::int64_t budget = options.memory_bytes;
      cut.patch = fitting_patch(
          blocks, d.padded(), a, halo, [&](const Box& window) { return bytes(1, window) <= budget; },
          by_planes);
      Box block = window_region(d.padded_block(0), d.padded(), halo);
      if (by_planes) block = Box({0, block.lo()[1], block.lo()[2]}, {1, block.hi()[1], block.hi()[2]});
      TESSERA_VALIDATE(cut.patch > 0, "the memory for the denoiser is ",
                       format_bytes(static_cast<double>(budget)), " (one window of ", network.options.name,
                       " with its exact halo of ", halo_text(halo, network), " pixels takes more; a whole ",
                       by_planes ? "plane of a block " : "block ",
                       format_bytes(static_cast<double>(bytes(1, block))),
                       ") raise memory, or use a network with a shorter reach");
    }

    Box largest({0, 0, 0}, {1, 1, 1});
    std::int64_t deepest = 1;
    for (const Box& b : blocks) {
      deepest = std::max(deepest, b.extent(0));
      for (const Window& w : cut_windows(b, d.padded(), a, cut.patch, halo, by_planes ? 1 : 0))
        if (w.box.pixels() > largest.pixels()) largest = w.box;
    }
    // A CPU fills its cores with one window; a GPU is full from about a million pixels on.
    const std::int64_t full = options.device.is_cuda() ? std::int64_t{1} << 20 : 1;
    cut.batch = options.batch > 0 ? options.batch
                : by_planes       ? usual_batch(largest.pixels(), options.device.is_cuda())
                                  : std::clamp<std::int64_t>(full / largest.pixels(), 1, 64);
    if (by_planes) cut.batch = std::min(cut.batch, deepest);
    if (options.memory_bytes > 0 && options.batch == 0)
      while (cut.batch > 1 && bytes(cut.batch, largest) > options.memory_bytes) --cut.batch;
    return cut;
  }

  ExecutionOptions options;
  bool by_planes;
  std::int64_t image_channels, network_channels;
  std::int64_t result_channels;  // the image's, and those of a potential
  Runner runner;
};

/// D on windows of this rank's block.
///
/// One exchange brings the halo and the padding; windows inside the own block run while it is in flight.
/// Averaging turns each window, which gives the average over turns of the whole padded image: windows are
/// aligned from either end, and halos are symmetric. Of a volume by planes a window is of some planes, which
/// go through the network as a batch of pictures.
class WindowDenoiser final : public Denoiser {
 public:
  WindowDenoiser(const Network& network, std::shared_ptr<Passes> passes, const CutSize& cut_size,
                 const DenoiserContext& context)
      : passes_(std::move(passes)),
        options_(passes_->options),
        by_planes_(passes_->by_planes),
        name_(network.options.name),
        axes_(context.image.axes),
        graph_axes_(network.graph.axes()),
        image_channels_(passes_->image_channels),
        network_channels_(passes_->network_channels),
        rank_(context.comm.rank()),
        own_(context.decomposition.block(rank_)),
        alignment_(network.alignment()),
        halo_(clipped_halo(network, options_, context.decomposition)),
        halo_text_(tessera::halo_text(halo_, network)),
        patch_(cut_size.patch),
        batch_(cut_size.batch),
        alone_(context.decomposition.ranks() == 1),
        symmetries_(options_.averaging, options_.turns),
        potential_(network, context.image.planes()) {
    const Decomposition& d = context.decomposition;
    ExchangePlan plan = network_plan(d, halo_, rank_);
    region_box_ = plan.need();
    element_ = options_.type == at::kDouble ? at::kDouble : at::kFloat;
    bytes_sent_ =
        plan.pixels_sent() * image_channels_ * static_cast<std::int64_t>(c10::elementSize(element_));
    exchange_.emplace(std::move(plan), context.transport, image_channels_, element_type(element_));

    block_ = d.padded_block(rank_);
    padded_ = d.padded();
    whole_ =
        alone_ &&
        cut_windows(padded_, padded_, alignment_, patch_, halo_, by_planes_ ? padded_.extent(0) : 0).size() ==
            1;
    cut();
  }

  void cut() {
    windows_ = cut_windows(block_, padded_, alignment_, patch_, halo_, by_planes_ ? batch_ : 0);
    // First those that need nothing from outside; within both, equal shapes side by side, for batches.
    const auto inner = std::stable_partition(windows_.begin(), windows_.end(),
                                             [&](const Window& w) { return own_.contains(w.box); });
    inside_ = static_cast<std::size_t>(inner - windows_.begin());
    const auto by_shape = [](const Window& a, const Window& b) { return a.box.extents() < b.box.extents(); };
    std::stable_sort(windows_.begin(), inner, by_shape);
    std::stable_sort(inner, windows_.end(), by_shape);
  }

  void apply(const at::Tensor& in, double sigma, at::Tensor& out) override {
    TESSERA_EXPECT(
        in.dim() == (axes_ == Axes::volume ? 4 : 3) && in.scalar_type() == element_ && !out.is_same(in),
        "a denoiser was given ", in.dim(), " axes of ", c10::toString(in.scalar_type()),
        " (wanted channels, ", axes_ == Axes::volume ? "depth, " : "", "height, width of ",
        c10::toString(element_), ", and another tensor for the result) convert it first");
    const PhaseScope phase(Phase::denoise);
    const at::NoGradGuard no_grad;
    const std::vector<int> symmetries = symmetries_.next();
    potential_.begin(symmetries.size());
    overwritten_soon(out);
    const at::TensorOptions options = in.options();
    if (alone_ && inside_ == windows_.size()) {  // the image is its own window: nothing to move or to fill
      while (!attempt(0, inside_, in, own_, sigma, symmetries, {}, out)) {
      }
      return;
    }
    if (!region_.defined()) region_ = empty_block(image_channels_, region_box_, options, axes_);

    overwritten_soon(region_);
    Exchange::Pending halo = begin_halo(in);
    const std::function<void()> move = [&] { halo.progress(); };
    bool fits = attempt(0, inside_, in, own_, sigma, symmetries, move, out);
    {
      const PhaseScope phase_halo(Phase::halo);
      halo.wait();
    }
    fits = fits && attempt(inside_, windows_.size(), region_, region_box_, sigma, symmetries, {}, out);
    while (!fits) fits = attempt(0, windows_.size(), region_, region_box_, sigma, symmetries, {}, out);
  }

  at::Tensor potential() const override { return potential_.value(); }
  std::int64_t bytes_sent() const override { return bytes_sent_; }

  std::string description() const override {
    return concat(name_, ", ", whole_ ? "whole" : "patch", ", patch ", patch_, ", batch ", batch_, ", ",
                  windows_.size(), windows_.size() == 1 ? " window" : " windows", " (", inside_,
                  " without remote pixels), halo ", halo_text_, ", ", c10::toString(options_.type),
                  options_.tf32 ? " as tf32" : "", passes_->runner.fused() ? ", fused" : "");
  }
  void release() override {
    passes_->runner.release();
    region_.reset();
  }
  std::vector<StateField> state() override { return symmetries_.state(); }
  std::vector<std::pair<std::string, std::int64_t>> choices() const override {
    return {{"patch", patch_}, {"batch", batch_}};
  }
  std::string notice() const override { return gray_notice(image_channels_, network_channels_); }

 private:
  Exchange::Pending begin_halo(const at::Tensor& in) {
    const PhaseScope phase(Phase::halo);
    return exchange_->begin(view(in, own_), view(region_, region_box_));
  }

  // run(); where the device's memory does not suffice, makes windows smaller and says false: they are all to
  // be run again. Other processes may hold what the plan counted on, and pieces may be scattered.
  bool attempt(std::size_t begin, std::size_t end, const at::Tensor& pixels, const Box& box, double sigma,
               const std::vector<int>& symmetries, const std::function<void()>& between, at::Tensor& out) {
    try {
      run(begin, end, pixels, box, sigma, symmetries, between, out);
      return true;
    } catch (const c10::OutOfMemoryError&) {  // a CPU's memory never fails in this way
      const CutSize before{patch_, batch_}, next = smaller_cut(before, longest(alignment_), graph_axes_);
      passes_->runner.release();
      const auto text = [](const CutSize& c) { return concat("patch ", c.patch, ", batch ", c.batch); };
      if (next == before)
        throw RunError(concat(
            "rank ", rank_, " is out of device memory (a window of ", patch_, " pixels and its halo of ",
            halo_text_, " takes ", format_bytes(static_cast<double>(passes_->bytes(1, windows_.front().box))),
            ") free the GPU of other programs, use more ranks, or a network with a shorter reach"));
      std::fprintf(stderr, "warning: rank %d is out of device memory with %s, goes on with %s\n", rank_,
                   text(before).c_str(), text(next).c_str());
      patch_ = next.patch;
      batch_ = next.batch;
      cut();
      potential_.begin(symmetries.size());
      return false;
    }
  }

  // A window of pixels as the network takes it: one item, or by planes as many as it has planes.
  at::Tensor items(const at::Tensor& window) const {
    return by_planes_ ? window.transpose(0, 1) : window.unsqueeze(0);
  }
  // Of a result, what belongs to the k-th window that went in.
  at::Tensor window(const at::Tensor& result, std::size_t k) const {
    return by_planes_ ? result.transpose(0, 1) : result[static_cast<std::int64_t>(k)];
  }

  // Windows [begin, end) of `pixels`, which holds `box`; results go to the cores in `out`.
  void run(std::size_t begin, std::size_t end, const at::Tensor& pixels, const Box& box, double sigma,
           const std::vector<int>& symmetries, const std::function<void()>& between, at::Tensor& out) {
    const MemoryScope memory(MemoryUse::activations);
    const std::int64_t together = by_planes_ ? 1 : batch_;
    for (std::size_t first = begin; first < end;) {
      std::size_t last = first + 1;
      while (last < end && last - first < static_cast<std::size_t>(together) &&
             same_shape(windows_[last].box, windows_[first].box))
        ++last;
      await(std::array{crop(pixels, box, windows_[first].box)},
            crop(out, own_, windows_[first].core.intersect(own_)));
      at::Tensor batch = items(crop(pixels, box, windows_[first].box));
      if (last - first > 1) {
        std::vector<at::Tensor> parts;
        for (std::size_t w = first; w < last; ++w) parts.push_back(items(crop(pixels, box, windows_[w].box)));
        batch = at::cat(parts, 0);
      }
      if (last < end) {
        fetch_ahead(crop(pixels, box, windows_[last].box));
        fetch_ahead(crop(out, own_, windows_[last].core.intersect(own_)));
      }
      if (image_channels_ != network_channels_) {
        std::vector<std::int64_t> sizes = batch.sizes().vec();
        sizes[1] = network_channels_;
        batch = batch.expand(sizes);
      }

      // What is kept of any of them; nothing where they hold the padding alone.
      Box kept;
      for (std::size_t w = first; w < last; ++w)
        kept = kept.hull(within(windows_[w].core.intersect(own_), windows_[w].box));
      const Box whole = within(windows_[first].box, windows_[first].box);
      if (kept.empty()) kept = whole;
      const auto made = [&](std::size_t w) { return kept.shift(windows_[w].box.lo()); };
      const Box picture = by_planes_ ? Box({0, 0, 0}, {1, whole.extent(1), whole.extent(2)}) : whole;

      at::Tensor result;
      for (const int symmetry : symmetries) {
        const at::Tensor pass = turn_back(passes_->runner.run(turn(batch, symmetry), sigma, between, nullptr,
                                                              turn(in_plane(kept), picture, symmetry)),
                                          symmetry);
        for (std::size_t w = first; w < last; ++w)
          if (const Box core = windows_[w].core.intersect(own_); !core.empty())
            potential_.add(crop(window(pass, w - first), made(w), core));
        const at::Tensor one = potential_.image(pass);
        result = result.defined() ? result.add_(one) : one;
      }
      if (symmetries.size() > 1) result.div_(static_cast<double>(symmetries.size()));
      if (image_channels_ != network_channels_) result = result.mean(1, /*keepdim=*/true);

      for (std::size_t w = first; w < last; ++w) {
        const Box core = windows_[w].core.intersect(own_);  // without the padding
        if (core.empty()) continue;
        crop(out, own_, core).copy_(crop(window(result, w - first), made(w), core));
      }
      first = last;
    }
  }
  // By planes, of which all are kept, the part of each.
  Box in_plane(const Box& part) const {
    if (!by_planes_) return part;
    return {{0, part.lo()[1], part.lo()[2]}, {1, part.hi()[1], part.hi()[2]}};
  }

  std::shared_ptr<Passes> passes_;
  const ExecutionOptions& options_;  // theirs
  bool by_planes_;
  std::string name_;
  Axes axes_, graph_axes_;
  std::int64_t image_channels_, network_channels_;
  int rank_;
  Box own_;         // image pixels of this rank
  Box region_box_;  // what its windows need, padding included
  Box block_, padded_;
  Index3 alignment_, halo_;
  std::string halo_text_;
  std::int64_t patch_, batch_;
  bool alone_;          // one rank
  bool whole_ = false;  // one window, the padded image, or planes of it
  at::ScalarType element_ = at::kFloat;
  std::int64_t bytes_sent_ = 0;
  Symmetries symmetries_;
  PotentialSum potential_;
  std::optional<Exchange> exchange_;
  std::vector<Window> windows_;
  std::size_t inside_ = 0;  // the first windows_ need no remote pixels
  at::Tensor region_;       // region_box_, persistent
};

}  // namespace

std::vector<std::unique_ptr<Denoiser>> make_window_denoisers(const Network& network,
                                                             const ExecutionOptions& options,
                                                             const std::vector<DenoiserContext>& contexts) {
  const auto passes = std::make_shared<Passes>(network, options, contexts[0].image);
  // One cut for all, with which all fit. A patch that holds whole planes of its kind is no limit for the others.
  constexpr std::int64_t kAny = std::numeric_limits<std::int64_t>::max();
  std::int64_t least = kAny, largest = 0, batch = kAny;
  for (const DenoiserContext& context : contexts) {
    const CutSize one = passes->choose(network, context.decomposition);
    std::int64_t plane = 0;
    for (int r = 0; r < context.decomposition.ranks(); ++r) {
      const Box block = context.decomposition.padded_block(r);
      plane = std::max(plane, block.extent(1) * block.extent(2));
    }
    if (one.patch * one.patch < plane) least = std::min(least, one.patch);
    largest = std::max(largest, one.patch);
    batch = std::min(batch, one.batch);
  }
  const CutSize cut{least < kAny ? least : largest, batch};
  std::vector<std::unique_ptr<Denoiser>> all;
  for (const DenoiserContext& context : contexts)
    all.push_back(std::make_unique<WindowDenoiser>(network, passes, cut, context));
  return all;
}

}  // namespace tessera
