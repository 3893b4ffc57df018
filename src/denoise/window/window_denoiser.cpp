// SPDX-License-Identifier: BSD-3-Clause
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "executors.hpp"
#include "symmetries.hpp"
#include "tessera/core/error.hpp"
#include "tessera/core/memory.hpp"
#include "tessera/core/phase.hpp"
#include "tessera/core/units.hpp"
#include "tessera/denoise/runner.hpp"
#include "tessera/denoise/windows.hpp"
#include "tessera/domain/tensor.hpp"

namespace tessera {
namespace {

bool same_shape(const Box& a, const Box& b) { return a.extents() == b.extents(); }

// `box` in pixels of a window, which begins at the origin.
Box within(const Box& box, const Box& window) { return box.shift(Index3{} - window.lo()); }

/// D on windows of this rank's block.
///
/// One exchange brings the halo and the padding; windows inside the own block run while it is in flight.
/// Averaging turns each window, which gives the average over turns of the whole padded image: windows are
/// aligned from either end, and halos are symmetric.
class WindowDenoiser final : public Denoiser {
 public:
  WindowDenoiser(const Network& network, const ExecutionOptions& options, const DenoiserContext& context)
      : options_(options),
        name_(network.options.name),
        axes_(context.image.axes),
        image_channels_(context.image.planes()),
        network_channels_(network.channels()),
        rank_(context.comm.rank()),
        own_(context.decomposition.block(rank_)),
        symmetries_(options.averaging),
        result_channels_(network.graph.output().channels),
        potential_(network, context.image.planes()) {
    const Decomposition& d = context.decomposition;
    alignment_ = network.alignment();
    halo_ = network.halo();
    for (std::size_t axis = first_axis(axes_); axis < 3; ++axis) {
      const std::int64_t a = alignment_[axis], most = (longest(d.padded().extents()) + a - 1) / a * a;
      halo_[axis] = std::min(options.halo >= 0 ? options.halo : halo_[axis], most);
    }
    runner_.emplace(network, RunnerOptions{.type = options.type,
                                           .tf32 = options.tf32,
                                           .deterministic = options.deterministic,
                                           .fused = options.fused,
                                           .in_turn = true,
                                           .device = options.device});
    choose(context);

    ExchangePlan plan = network_plan(d, halo_, rank_);
    region_box_ = plan.need();
    element_ = options.type == at::kDouble ? at::kDouble : at::kFloat;
    bytes_sent_ =
        plan.pixels_sent() * image_channels_ * static_cast<std::int64_t>(c10::elementSize(element_));
    exchange_.emplace(std::move(plan), context.transport, image_channels_, element_type(element_));

    block_ = d.padded_block(rank_);
    padded_ = d.padded();
    cut();
  }

  void cut() {
    windows_ = cut_windows(block_, padded_, alignment_, patch_, halo_);
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
    const at::TensorOptions options = in.options();
    if (alone_ && inside_ == windows_.size()) {  // the image is its own window: nothing to move or to fill
      while (!attempt(0, inside_, in, own_, sigma, symmetries, {}, out)) {
      }
      return;
    }
    if (!region_.defined()) region_ = empty_block(image_channels_, region_box_, options, axes_);

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
                  " without remote pixels), halo ", halo_text(), ", ", c10::toString(options_.type),
                  options_.tf32 ? " as tf32" : "", runner_->fused() ? ", fused" : "");
  }
  std::vector<StateField> state() override { return symmetries_.state(); }
  std::vector<std::pair<std::string, std::int64_t>> choices() const override {
    return {{"patch", patch_}, {"batch", batch_}};
  }
  std::string notice() const override { return gray_notice(image_channels_, network_channels_); }

 private:
  std::string halo_text() const {
    const auto& [depth, rows, columns] = halo_;
    if (axes_ == Axes::volume) return concat(depth, " x ", rows, " x ", columns);
    return rows == columns ? std::to_string(rows) : concat(rows, " x ", columns);
  }

  Exchange::Pending begin_halo(const at::Tensor& in) {
    const PhaseScope phase(Phase::halo);
    return exchange_->begin(view(in, own_), view(region_, region_box_));
  }

  // Patch, batch and mode, from numbers that are equal on all ranks.
  void choose(const DenoiserContext& context) {
    const Decomposition& d = context.decomposition;
    const Index3& a = alignment_;
    std::vector<Box> blocks;
    for (int r = 0; r < d.ranks(); ++r) blocks.push_back(d.padded_block(r));
    std::int64_t most = longest(a);
    for (const Box& b : blocks) most = std::max(most, longest(b.extents()));

    patch_ = most;
    if (options_.mode != ExecutionMode::whole && options_.patch > 0) {
      patch_ = std::min(options_.patch, most);
    } else if (options_.mode != ExecutionMode::whole && options_.memory_bytes > 0) {
      const std::int64_t budget = options_.memory_bytes;
      patch_ = fitting_patch(blocks, d.padded(), a, halo_,
                             [&](const Box& window) { return bytes(1, window) <= budget; });
      TESSERA_VALIDATE(
          patch_ > 0, "the memory for the denoiser is ", format_bytes(static_cast<double>(budget)),
          " (one window of ", name_, " with its exact halo of ", halo_text(),
          " pixels takes more; a whole block ",
          format_bytes(static_cast<double>(bytes(1, window_region(d.padded_block(0), d.padded(), halo_)))),
          ") raise memory, or use a network with a shorter reach");
    }
    alone_ = d.ranks() == 1;
    whole_ = alone_ && cut_windows(d.padded(), d.padded(), a, patch_, halo_).size() == 1;

    Box largest({0, 0, 0}, {1, 1, 1});
    for (const Box& b : blocks)
      for (const Window& w : cut_windows(b, d.padded(), a, patch_, halo_))
        if (w.box.pixels() > largest.pixels()) largest = w.box;
    // A CPU fills its cores with one window; a GPU is full from about a million pixels on.
    const std::int64_t full = options_.device.is_cuda() ? std::int64_t{1} << 20 : 1;
    batch_ = options_.batch > 0 ? options_.batch : std::clamp<std::int64_t>(full / largest.pixels(), 1, 64);
    if (options_.memory_bytes > 0 && options_.batch == 0)
      while (batch_ > 1 && bytes(batch_, largest) > options_.memory_bytes) --batch_;
  }

  // What run() takes for so many windows of this shape: the network's features, and the copies around them.
  std::int64_t bytes(std::int64_t items, const Box& window) const {
    const std::int64_t image = items * image_channels_ * window.pixels() * element_size();
    const std::int64_t turned = items * network_channels_ * window.pixels() * element_size();
    const std::int64_t back = turned / network_channels_ * result_channels_;
    std::int64_t copies = items > 1 ? image : 0;
    if (options_.averaging != Averaging::none) copies += turned + back;
    if (options_.averaging == Averaging::flips4 || options_.averaging == Averaging::all8) copies += back;
    if (image_channels_ != network_channels_) copies += image;
    return runner_->bytes(items, window.extents()) + copies;
  }
  std::int64_t element_size() const { return options_.type == at::kDouble ? 8 : 4; }

  // run(); where the device's memory does not suffice, makes windows smaller and says false: they are all to
  // be run again. Other processes may hold what the plan counted on, and pieces may be scattered.
  bool attempt(std::size_t begin, std::size_t end, const at::Tensor& pixels, const Box& box, double sigma,
               const std::vector<int>& symmetries, const std::function<void()>& between, at::Tensor& out) {
    try {
      run(begin, end, pixels, box, sigma, symmetries, between, out);
      return true;
    } catch (const c10::OutOfMemoryError&) {  // a CPU's memory never fails in this way
      const CutSize before{patch_, batch_}, next = smaller_cut(before, longest(alignment_), axes_);
      runner_->release();
      const auto text = [](const CutSize& c) { return concat("patch ", c.patch, ", batch ", c.batch); };
      if (next == before)
        throw RunError(concat(
            "rank ", rank_, " is out of device memory (a window of ", patch_, " pixels and its halo of ",
            halo_text(), " takes ", format_bytes(static_cast<double>(bytes(1, windows_.front().box))),
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

  // Windows [begin, end) of `pixels`, which holds `box`; results go to the cores in `out`.
  void run(std::size_t begin, std::size_t end, const at::Tensor& pixels, const Box& box, double sigma,
           const std::vector<int>& symmetries, const std::function<void()>& between, at::Tensor& out) {
    const MemoryScope memory(MemoryUse::activations);
    for (std::size_t first = begin; first < end;) {
      std::size_t last = first + 1;
      while (last < end && last - first < static_cast<std::size_t>(batch_) &&
             same_shape(windows_[last].box, windows_[first].box))
        ++last;
      at::Tensor batch = crop(pixels, box, windows_[first].box).unsqueeze(0);
      if (last - first > 1) {
        std::vector<at::Tensor> parts;
        for (std::size_t w = first; w < last; ++w)
          parts.push_back(crop(pixels, box, windows_[w].box).unsqueeze(0));
        batch = at::cat(parts, 0);
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

      at::Tensor result;
      for (const int symmetry : symmetries) {
        const at::Tensor pass = turn_back(
            runner_->run(turn(batch, symmetry), sigma, between, nullptr, turn(kept, whole, symmetry)),
            symmetry);
        for (std::size_t w = first; w < last; ++w)
          if (const Box core = windows_[w].core.intersect(own_); !core.empty())
            potential_.add(crop(pass[static_cast<std::int64_t>(w - first)], made(w), core));
        const at::Tensor one = potential_.image(pass);
        result = result.defined() ? result.add_(one) : one;
      }
      if (symmetries.size() > 1) result.div_(static_cast<double>(symmetries.size()));
      if (image_channels_ != network_channels_) result = result.mean(1, /*keepdim=*/true);

      for (std::size_t w = first; w < last; ++w) {
        const Box core = windows_[w].core.intersect(own_);  // without the padding
        if (core.empty()) continue;
        crop(out, own_, core).copy_(crop(result[static_cast<std::int64_t>(w - first)], made(w), core));
      }
      first = last;
    }
  }

  ExecutionOptions options_;
  std::string name_;
  Axes axes_;
  std::int64_t image_channels_, network_channels_;
  int rank_;
  Box own_;         // image pixels of this rank
  Box region_box_;  // what its windows need, padding included
  Box block_, padded_;
  Index3 alignment_{1, 1, 1}, halo_{};
  std::int64_t patch_ = 0, batch_ = 1;
  bool alone_ = true;   // one rank
  bool whole_ = false;  // one window, the padded image
  at::ScalarType element_ = at::kFloat;
  std::int64_t bytes_sent_ = 0;
  Symmetries symmetries_;
  std::int64_t result_channels_;  // the image's, and those of a potential
  PotentialSum potential_;
  std::optional<Runner> runner_;
  std::optional<Exchange> exchange_;
  std::vector<Window> windows_;
  std::size_t inside_ = 0;  // the first windows_ need no remote pixels
  at::Tensor region_;       // region_box_, persistent
};

}  // namespace

std::unique_ptr<Denoiser> make_window_denoiser(const Network& network, const ExecutionOptions& options,
                                               const DenoiserContext& context) {
  return std::make_unique<WindowDenoiser>(network, options, context);
}

}  // namespace tessera
