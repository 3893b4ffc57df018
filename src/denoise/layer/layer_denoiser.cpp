// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/denoise/layer_traffic.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "executors.hpp"
#include "layers/layer_halos.hpp"
#include "symmetries.hpp"
#include "tessera/core/error.hpp"
#include "tessera/core/phase.hpp"
#include "tessera/core/units.hpp"
#include "tessera/denoise/layer.hpp"
#include "tessera/denoise/layer_schedule.hpp"
#include "tessera/denoise/memory_model.hpp"
#include "tessera/denoise/network_denoiser.hpp"
#include "tessera/denoise/runner.hpp"
#include "tessera/denoise/windows.hpp"
#include "tessera/domain/tensor.hpp"

namespace tessera {
namespace {

at::ScalarType image_type(const ExecutionOptions& options) {
  return options.type == at::kDouble ? at::kDouble : at::kFloat;
}

at::TensorOptions feature_options(const ExecutionOptions& options) {
  const c10::Device device =
      options.device.is_cuda() ? c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(options.device.index))
                               : c10::Device(c10::kCPU);
  return at::TensorOptions().dtype(options.type).device(device);
}

// T^-1 D T for a symmetry T, as a network: the same layers with turned kernels. Networks on even sides commute with
// turns otherwise, so the distributed image can stay as it is.
Network turned(const Network& network, int symmetry) {
  Network other = network;
  for (auto& [name, weight] : other.weights)
    if (weight.dim() >= 4) weight = turn_back(weight, symmetry).contiguous();
  return other;
}

/// The network ready to run, by symmetry; each is made when it is first used. Those of the square stay; of the 40
/// others of a cube, whose kernels would fill the memory, the last one does.
class TurnedRunners {
 public:
  TurnedRunners(const Network& network, const RunnerOptions& options)
      : network_(network), options_(options) {}
  Runner& of(int symmetry) {
    const bool stays = symmetry < kStay;
    std::optional<Runner>& runner = stays ? runners_[static_cast<std::size_t>(symmetry)] : other_;
    if (!stays && symmetry != other_symmetry_) runner.reset();
    if (!runner) runner.emplace(symmetry == 0 ? network_ : turned(network_, symmetry), options_);
    if (!stays) other_symmetry_ = symmetry;
    return *runner;
  }
  void release() {
    for (std::optional<Runner>& runner : runners_)
      if (runner) runner->release();
    if (other_) other_->release();
  }

 private:
  static constexpr int kStay = 8;
  Network network_;
  RunnerOptions options_;
  std::array<std::optional<Runner>, kStay> runners_;
  std::optional<Runner> other_;
  int other_symmetry_ = 0;
};

/// D on the block as a whole, layer by layer; every convolution gets its own thin halo.
///
/// No pixel but the rims is computed twice, whatever the network's reach; messages are many and small, and
/// they travel while the convolution that wants them computes its inside. Averaging turns the kernels. Of a
/// volume by planes the block's planes are a batch of pictures.
class LayerDenoiser final : public Denoiser {
 public:
  LayerDenoiser(const Network& network, std::shared_ptr<TurnedRunners> runners,
                const ExecutionOptions& options, const DenoiserContext& context)
      : options_(options),
        name_(network.options.name),
        network_channels_(network.channels()),
        axes_(context.image.axes),
        by_planes_(by_planes(network, context.image)),
        image_channels_(context.image.planes()),
        own_(context.decomposition.block(context.comm.rank())),
        symmetries_(options.averaging, options.turns),
        potential_(network, context.image.planes()),
        runners_(std::move(runners)) {
    const Decomposition& d = context.decomposition;
    const int rank = context.comm.rank();
    depth_ = layer_halo_depth(network.graph, d, options);
    halos_.emplace(
        make_layer_schedule(runners_->of(0).plan(), depth_, options.type, options.device.is_cuda()), d, rank,
        context.transport, feature_options(options));
    if (options.memory_bytes > 0) validate_memory(network, d);
    bytes_sent_ = passes(options.averaging, options.turns) * halos_->bytes_sent();
    if (d.image() != d.padded()) {
      ExchangePlan plan = network_plan(d, {}, rank);
      bytes_sent_ += plan.pixels_sent() * image_channels_ * element_bytes(element_type(image_type(options)));
      padding_.emplace(std::move(plan), context.transport, image_channels_,
                       element_type(image_type(options)));
    }
  }

  void apply(const at::Tensor& in, double sigma, at::Tensor& out) override {
    TESSERA_EXPECT(in.dim() == (axes_ == Axes::volume ? 4 : 3) && in.scalar_type() == image_type(options_) &&
                       !out.is_same(in),
                   "a denoiser was given ", in.dim(), " axes of ", c10::toString(in.scalar_type()),
                   " (wanted channels, [depth,] height, width of ", c10::toString(image_type(options_)),
                   ", and another tensor for the result) convert it first");
    const PhaseScope phase(Phase::denoise);
    const at::NoGradGuard no_grad;
    const at::Tensor block = with_padding(in);
    at::Tensor x = by_planes_ ? block.transpose(0, 1) : block.unsqueeze(0);
    if (image_channels_ != network_channels_) {
      std::vector<std::int64_t> sizes = x.sizes().vec();
      sizes[1] = network_channels_;
      x = x.expand(sizes);
    }

    const std::vector<int> symmetries = symmetries_.next();
    potential_.begin(symmetries.size());
    at::Tensor result;
    for (const int symmetry : symmetries) {
      const at::Tensor pass = runners_->of(symmetry).run(x, sigma, {}, &*halos_);
      if (!own_.empty()) potential_.add(crop(block_of(pass), halos_->region(0), own_));
      const at::Tensor one = potential_.image(pass);
      result = result.defined() ? result.add_(one) : one;
    }
    if (own_.empty()) return;
    if (symmetries.size() > 1) result.div_(static_cast<double>(symmetries.size()));
    if (image_channels_ != network_channels_) result = result.mean(1, /*keepdim=*/true);
    out.copy_(crop(block_of(result), halos_->region(0), own_));
  }

  at::Tensor potential() const override { return potential_.value(); }
  std::int64_t bytes_sent() const override { return bytes_sent_; }

  std::string description() const override {
    return concat(name_, ", layer, halo depth ", depth_, ", ", halos_->count(), " exchanges per pass, ",
                  c10::toString(options_.type), options_.tf32 ? " as tf32" : "",
                  runners_->of(0).fused() ? ", fused" : "", runners_->of(0).graphs() > 0 ? ", replayed" : "");
  }
  void release() override {
    if (options_.device.is_cuda()) return;  // recorded passes hold messages that all ranks agreed on
    runners_->release();
    region_.reset();
  }
  std::vector<StateField> state() override { return symmetries_.state(); }
  std::vector<std::pair<std::string, std::int64_t>> choices() const override {
    return {{"halo_depth", depth_}};
  }
  std::string notice() const override { return gray_notice(image_channels_, network_channels_); }

 private:
  at::Tensor block_of(const at::Tensor& pass) const { return by_planes_ ? pass.transpose(0, 1) : pass[0]; }

  void validate_memory(const Network& network, const Decomposition& d) const {
    int largest = 0;
    for (int r = 0; r < d.ranks(); ++r)
      if (d.padded_block(r).pixels() > d.padded_block(largest).pixels()) largest = r;
    const MemoryModel model(network, options_.type, options_.fused, options_.device);
    const auto needed = static_cast<double>(model.layer_bytes(d, largest, depth_));
    TESSERA_VALIDATE(needed <= static_cast<double>(options_.memory_bytes), "the memory for the denoiser is ",
                     format_bytes(static_cast<double>(options_.memory_bytes)),
                     " (layer mode keeps the features of a whole block, ", format_bytes(needed),
                     ") raise memory", network.graph.global() ? " or " : ", ", "start more ranks",
                     network.graph.global() ? "" : ", or write 'mode: patch'");
  }

  // The block with the padding at the image's end, and room for margins where the depth wants it.
  at::Tensor with_padding(const at::Tensor& in) {
    const Box& block = halos_->block(0);
    const Box& region = halos_->region(0);
    if (!padding_ && region == block) return in;
    if (!region_.defined()) region_ = empty_block(image_channels_, region, in.options(), axes_).zero_();
    const at::Tensor inside = region == block ? region_ : crop(region_, region, block);
    if (!padding_) {
      inside.copy_(in);
    } else {
      const PhaseScope phase(Phase::halo);
      padding_->begin(view(in, own_), view(inside, block)).wait();
    }
    return region_;
  }

  ExecutionOptions options_;
  std::string name_;
  std::int64_t network_channels_;
  Axes axes_;
  bool by_planes_;
  std::int64_t image_channels_;
  Box own_;  // image pixels of this rank
  Symmetries symmetries_;
  PotentialSum potential_;
  int depth_ = 1;
  std::int64_t bytes_sent_ = 0;
  std::optional<LayerHalos> halos_;
  std::optional<Exchange> padding_;  // the image's own pixels -> padded blocks; none where nothing is padded
  at::Tensor region_;                // persistent
  std::shared_ptr<TurnedRunners>
      runners_;  // last: recorded passes hold buffers and messages of the exchanges
};

}  // namespace

std::vector<std::unique_ptr<Denoiser>> make_layer_denoisers(const Network& network,
                                                            const ExecutionOptions& options,
                                                            const std::vector<DenoiserContext>& contexts) {
  bool columns = false;  // neighbors to the left or right
  for (const DenoiserContext& context : contexts) {
    const Box block = context.decomposition.padded_block(context.comm.rank());
    columns = columns || (!block.empty() && block.extent(2) < context.decomposition.padded().extent(2));
  }
  const auto runners =
      std::make_shared<TurnedRunners>(network, RunnerOptions{.type = options.type,
                                                             .tf32 = options.tf32,
                                                             .deterministic = options.deterministic,
                                                             .fused = options.fused,
                                                             .turned = columns,
                                                             .in_turn = contexts.size() > 1,
                                                             .device = options.device});
  std::vector<std::unique_ptr<Denoiser>> all;
  for (const DenoiserContext& context : contexts)
    all.push_back(std::make_unique<LayerDenoiser>(network, runners, options, context));
  return all;
}

int layer_halo_depth(const Graph& graph, const Decomposition& decomposition,
                     const ExecutionOptions& options) {
  if (options.halo_depth > 0) return options.halo_depth;
  if (graph.axes() == Axes::volume) return 1;  // each exchange serves one layer
  // An exchange hides behind its convolution while that takes longer than a message. Mean over the layers, on
  // the largest block; rates and latencies of the right order of magnitude are enough to choose between 1,
  // 2 and 4.
  double pixels = 0, exchanges = 0;
  for (int r = 0; r < decomposition.ranks(); ++r)
    pixels = std::max(pixels, static_cast<double>(decomposition.padded_block(r).pixels()));
  for (const Node& node : graph.nodes())
    exchanges += is_convolution(node.op) && layer_of(node.op).reach(node) > 0;
  const bool cuda = options.device.is_cuda();
  const double rate = cuda ? 1e13 : 3e10;       // multiply-adds per second of a rank
  const double message = cuda ? 60e-6 : 20e-6;  // seconds, with packing and, on a device, kernel launches
  const double layer = graph.macs_per_pixel() * pixels / std::max(1.0, exchanges) / rate;
  return layer >= message ? 1 : layer >= message / 4 ? 2 : 4;
}

struct LayerTraffic::Impl {
  struct Kind {
    LayerLayouts layouts;
    std::int64_t bytes;  // per pixel and exchange
    std::int64_t count;  // exchanges of this kind in one call
  };
  Decomposition decomposition;
  std::vector<Kind> kinds;
  std::int64_t padding_bytes = 0;  // per pixel; 0: no padding
};

LayerTraffic::LayerTraffic(const Graph& graph, const Decomposition& decomposition,
                           const ExecutionOptions& options, std::int64_t channels)
    : impl_(std::make_unique<Impl>()) {
  impl_->decomposition = decomposition;
  if (decomposition.image() != decomposition.padded())
    impl_->padding_bytes = channels * element_bytes(element_type(image_type(options)));
  const LayerSchedule schedule = make_layer_schedule(make_pass_plan(without_batch_norms(graph), true),
                                                     layer_halo_depth(graph, decomposition, options),
                                                     options.type, options.device.is_cuda());
  const std::int64_t turns = passes(options.averaging, options.turns);
  std::vector<LayerExchange> seen;  // of the kinds
  for (const LayerExchange& e : schedule.exchanges) {
    const auto same = std::find_if(seen.begin(), seen.end(),
                                   [&](const LayerExchange& known) { return same_pixels(known, e); });
    if (same != seen.end()) {
      impl_->kinds[static_cast<std::size_t>(same - seen.begin())].count += turns;
      continue;
    }
    seen.push_back(e);
    impl_->kinds.push_back(
        {LayerLayouts(decomposition, e), e.channels * element_bytes(element_type(options.type)), turns});
  }
}
LayerTraffic::LayerTraffic(LayerTraffic&&) noexcept = default;
LayerTraffic& LayerTraffic::operator=(LayerTraffic&&) noexcept = default;
LayerTraffic::~LayerTraffic() = default;

std::vector<LayerTraffic::Exchanges> LayerTraffic::of(int rank) const {
  std::vector<Exchanges> all;
  const auto add = [&](const ExchangePlan& plan, std::int64_t bytes, std::int64_t count) {
    all.push_back({count, plan.pixels_sent() * bytes, static_cast<std::int64_t>(plan.sends().size())});
  };
  if (impl_->padding_bytes > 0) add(network_plan(impl_->decomposition, {}, rank), impl_->padding_bytes, 1);
  for (const Impl::Kind& kind : impl_->kinds) add(kind.layouts.plan(rank), kind.bytes, kind.count);
  return all;
}

std::int64_t LayerTraffic::exchanges() const {
  std::int64_t count = impl_->padding_bytes > 0;
  for (const Impl::Kind& kind : impl_->kinds) count += kind.count;
  return count;
}

std::int64_t LayerTraffic::bytes_sent(int rank) const {
  std::int64_t bytes = 0;
  for (const Exchanges& e : of(rank)) bytes += e.count * e.bytes;
  return bytes;
}

std::int64_t LayerTraffic::messages(int rank) const {
  std::int64_t messages = 0;
  for (const Exchanges& e : of(rank)) messages += e.count * e.messages;
  return messages;
}

}  // namespace tessera
