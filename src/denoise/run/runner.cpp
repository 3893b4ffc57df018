// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/denoise/runner.hpp"

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/elu.h>
#include <ATen/ops/elu_backward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/native_layer_norm.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/upsample_nearest2d.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "layer/layer_halos.hpp"
#include "run/channel_attention.hpp"
#include "run/convolution.hpp"
#include "run/feature_layout.hpp"
#include "run/window_attention.hpp"
#include "tessera/core/error.hpp"
#include "tessera/core/memory.hpp"
#include "tessera/core/phase.hpp"
#include "tessera/denoise/cuda_graph.hpp"
#include "tessera/domain/precision.hpp"
#include "tessera/domain/tensor_memory.hpp"
#include "tessera/domain/torch_cuda.hpp"

namespace tessera {
namespace {

constexpr std::int64_t kLeastScratch = std::int64_t{1} << 12;  // bytes; below, malloc is as good
constexpr auto kLast = at::MemoryFormat::ChannelsLast;

// The view of a feature that has the part `have` of its level.
at::Tensor cut(const at::Tensor& feature, const Box& have, const Box& wanted) {
  if (wanted == have) return feature;
  return feature.narrow(2, wanted.lo()[1] - have.lo()[1], wanted.extent(1))
      .narrow(3, wanted.lo()[2] - have.lo()[2], wanted.extent(2));
}

ConvolutionLayer::Shape shape(const Node& node) {
  if (node.op == Op::conv)
    return {.stride = 1, .padding = node.kernel / 2, .groups = node.depthwise ? node.channels : 1};
  return {.stride = 2, .padding = 0, .transposed = node.op == Op::conv_up};
}

}  // namespace

struct Runner::Impl {
  RunnerOptions options;
  at::TensorOptions tensor;
  ConvolutionLibrary library;
  std::int64_t alignment = 1;
  RunPlan plan;
  struct Kernel {
    std::optional<ConvolutionLayer> straight, turned;  // turned: with rows and columns exchanged
  };
  struct Norm {
    at::Tensor weight, bias;
  };
  std::vector<Kernel> kernels;  // by step, as the next two
  std::vector<Norm> norms;
  std::vector<std::optional<WindowAttention>> attentions;
  std::vector<std::optional<ChannelAttention>> channel_attentions;
  std::vector<bool> in_parts;                 // by step, whether it can compute a part of its result alone
  std::vector<std::int64_t> sizes;            // of the last x
  std::optional<Box> core;              // what was wanted of it
  std::vector<Box> parts;                     // by slot, what is computed then; empty: all of it
  FeatureLayout layout;                       // for x of these sizes
  Arena arena;                                // host only; a device's allocator keeps by itself
  std::set<std::vector<std::int64_t>> tried;  // shapes for which cuDNN may try its kernels out
  std::optional<GraphedPasses> graphs;        // on a device; made last, since graphs hold what is above
  int empty_calls = 0;                        // with nothing to do here, but exchanges of the others

  Impl(const Network& network, const RunnerOptions& o) : options(o) {
    use_ieee_products();
    TESSERA_VALIDATE(!o.tf32 || o.device.is_cuda(),
                     "precision tf32 on a CPU (its float32 products are never rounded) write float32, or run "
                     "on a GPU");
    const c10::Device device = o.device.is_cuda()
                                   ? c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(o.device.index))
                                   : c10::Device(c10::kCPU);
    tensor = at::TensorOptions().dtype(o.type).device(device);
    const at::NoGradGuard no_grad;
    const MemoryScope scope(MemoryUse::weights);
    Network exact = network;  // folded in the type of the arithmetic where that is finer than the weights
    if (o.type == at::kDouble)
      for (auto& [key, weight] : exact.weights)
        if (weight.is_floating_point()) weight = weight.to(at::kDouble);
    const Network folded = fold_batch_norm(exact);
    alignment = folded.alignment();
    library = probe_convolutions(o.type, o.device.is_cuda(), o.fused);
    if (o.device.is_cuda() && o.graphs) graphs.emplace(o.device, tensor);
    plan = make_run_plan(folded.graph, o.device_form || fuses_add(library));
    in_parts = tessera::in_parts(plan, o.type, library);
    kernels.resize(plan.steps.size());
    norms.resize(plan.steps.size());
    attentions.resize(plan.steps.size());
    channel_attentions.resize(plan.steps.size());
    for (std::size_t s = 0; s < plan.steps.size(); ++s) {
      const Node& node = plan.steps[s].node;
      const auto parameter = [&](const std::string& name) { return folded.weights.at(name).to(tensor); };
      if (node.op == Op::layer_norm)
        norms[s] = {parameter(node.weight + ".weight"), parameter(node.weight + ".bias")};
      if (node.op == Op::scale_norm) norms[s].weight = parameter(node.weight + ".weight");
      if (node.op == Op::window_attention) attentions[s].emplace(node, parameter(node.weight));
      if (node.op == Op::channel_attention)
        channel_attentions[s].emplace(node, folded.weights.at(node.weight).to(tensor.device()));
      if (!is_convolution(node.op)) continue;
      std::optional<at::Tensor> bias;
      if (!node.bias.empty()) bias = parameter(node.bias);
      const at::Tensor weight = applied_weight(node, folded.weights.at(node.weight)).to(tensor).contiguous();
      kernels[s].straight.emplace(library, weight, bias, shape(node));
      if (!o.turned || node.op != Op::conv ||
          !rim_form(o.type, o.device.is_cuda() || o.device_form, weight.size(1), node.kernel).turned)
        continue;
      kernels[s].turned.emplace(library, weight.transpose(2, 3), bias, shape(node));
    }
  }

  // Layers that change the level see the block alone, since a margin may be odd.
  at::Tensor evaluate_level_change(const Step& step, std::vector<at::Tensor>& slot, LayerHalos* halos) {
    const int level = step.node.level;
    const bool down = level_change(step.node.op) == 1;
    at::Tensor in = input(step, 0, slot);
    if (halos) {
      in = halos->narrow(in, level - level_change(step.node.op)).contiguous(kLast);
      forget_places();  // the copy's, which a result of its size would take where none was made
      place_result(static_cast<std::size_t>(&step - plan.steps.data()));
    }
    if (step.node.op == Op::max_pool || step.node.op == Op::upsample) {
      const at::Tensor y =
          down ? at::max_pool2d(in, 2) : at::upsample_nearest2d(in, {2 * in.size(2), 2 * in.size(3)});
      return halos ? halos->widen(y, level) : y;
    }
    ConvolutionLayer& convolution = *kernels[static_cast<std::size_t>(&step - plan.steps.data())].straight;
    const bool margin = halos && halos->region(level) != halos->block(level);
    if (step.other >= 0 && !margin) return convolution.add(in, other(step, slot), step.into_other);
    at::Tensor y = convolution.apply(in, step.relu);
    if (margin) y = halos->widen(y, level);
    return step.other >= 0 ? y.add_(other(step, slot)) : y;
  }

  // Of a slot, what a step takes where parts are computed: views.
  at::Tensor part(const std::vector<at::Tensor>& slot, int k, const Box& wanted) const {
    return cut(slot[static_cast<std::size_t>(k)], parts[static_cast<std::size_t>(k)], wanted);
  }
  Box level_part(int level) const { return Box::image2d(sizes[2] >> level, sizes[3] >> level); }
  at::Tensor input(const Step& step, std::size_t k, const std::vector<at::Tensor>& slot) const {
    const int from = step.node.inputs[k];
    if (parts.empty()) return slot[static_cast<std::size_t>(from)];
    const Box& out = parts[static_cast<std::size_t>(step.out)];
    return part(slot, from,
                step.node.reads(out).intersect(level_part(step.node.level - level_change(step.node.op))));
  }
  at::Tensor other(const Step& step, const std::vector<at::Tensor>& slot) const {
    return parts.empty() ? slot[static_cast<std::size_t>(step.other)]
                         : part(slot, step.other, parts[static_cast<std::size_t>(step.out)]);
  }

  // Exactly the part of the result that is wanted; zeros where the image ends.
  at::Tensor convolve_part(const Step& step, const ConvolutionLayer& layer, const at::Tensor& x,
                           const std::vector<at::Tensor>& slot) const {
    const Box& out = parts[static_cast<std::size_t>(step.out)];
    const at::Tensor sum = step.other >= 0 ? other(step, slot) : at::Tensor();
    at::Tensor y = step.into_other
                       ? sum
                       : at::empty({x.size(0), layer.outputs(), out.extent(1), out.extent(2)},
                                   tensor.memory_format(kLast));
    const std::array<std::int64_t, 2> zeros{out.lo()[1] == 0, out.lo()[2] == 0};
    layer.part(x, zeros, sum.defined() ? &sum : nullptr, step.relu, y);
    return y;
  }

  /// The noise level: a number, or a tensor on the device, whose value a graph reads anew at each replay.
  struct Level {
    double sigma = 0;
    at::Tensor tensor = {};
  };

  at::Tensor evaluate(std::size_t index, std::vector<at::Tensor>& slot, const at::Tensor& x,
                      const Level& level, LayerHalos* halos) {
    const Step& step = plan.steps[index];
    const auto in = [&](std::size_t k) { return input(step, k, slot); };
    switch (step.node.op) {
      case Op::sigma_map: {
        const Box part = parts.empty() ? level_part(0) : parts[static_cast<std::size_t>(step.out)];
        return (level.tensor.defined() ? level.tensor : at::full({1, 1, 1, 1}, level.sigma, tensor))
            .expand({x.size(0), 1, part.extent(1), part.extent(2)});
      }
      case Op::conv: {
        Kernel& kernel = kernels[index];
        if (halos && halos->exchanges(index))
          return halos->convolve(index, *kernel.straight, kernel.turned ? &*kernel.turned : nullptr, in(0),
                                 step.relu, step.other >= 0 ? slot[step.other] : at::Tensor(),
                                 step.into_other);
        if (!parts.empty() && in_parts[index]) return convolve_part(step, *kernel.straight, in(0), slot);
        if (step.other >= 0) return kernel.straight->add(in(0), other(step, slot), step.into_other);
        return kernel.straight->apply(in(0), step.relu);
      }
      case Op::conv_down:
      case Op::conv_up:
      case Op::max_pool:
      case Op::upsample:
        return evaluate_level_change(step, slot, halos);
      case Op::relu:
        return step.into_other ? in(0).relu_() : at::relu(in(0));
      case Op::elu:
        if (at::Tensor x0 = in(0); step.into_other) return at::elu_(x0);
        return at::elu(in(0));
      case Op::elu_gradient:
        if (at::Tensor g = in(0); step.into_other)
          return at::elu_backward_out(g, g, 1, 1, 1, /*is_result=*/true, in(1));
        return at::elu_backward(in(0), 1, 1, 1, /*is_result=*/true, in(1));
      case Op::gelu:
        if (at::Tensor x0 = in(0); step.into_other) return at::gelu_(x0);
        return at::gelu(in(0));
      case Op::layer_norm:
        return at::layer_norm(in(0).permute({0, 2, 3, 1}), {step.node.channels}, norms[index].weight,
                              norms[index].bias, /*eps=*/1e-5)
            .permute({0, 3, 1, 2});
      case Op::scale_norm: {  // the mean, which a layer norm takes away, given back
        auto [y, mean, rate] = at::native_layer_norm(in(0).permute({0, 2, 3, 1}), {step.node.channels},
                                                     norms[index].weight, {}, /*eps=*/1e-5);
        return y.addcmul_(mean.mul_(rate), norms[index].weight).permute({0, 3, 1, 2});
      }
      case Op::gelu_gate: {
        const std::int64_t half = step.node.channels;
        return at::gelu(in(0).narrow(1, 0, half)).mul_(in(0).narrow(1, half, half));
      }
      case Op::channel_attention: {
        const ChannelAttention& attention = *channel_attentions[index];
        at::Tensor sums = attention.sums(halos ? halos->narrow(in(0), step.node.level) : in(0));
        if (halos) halos->sum(sums);
        return attention.apply(in(0), sums);
      }
      case Op::window_attention:
        return halos ? halos->attend(index, step.node.level, *attentions[index], in(0))
                     : attentions[index]->apply(in(0));
      case Op::subtract:
        return step.into_other ? in(0).sub_(in(1)) : in(0) - in(1);
      case Op::add: {
        at::Tensor sum = step.into_other ? in(0).add_(in(1)) : in(0) + in(1);
        for (std::size_t k = 2; k < step.node.inputs.size(); ++k) sum.add_(in(k));
        return sum;
      }
      case Op::concat: {
        std::int64_t channels = 0;
        for (const int i : step.node.inputs) channels += slot[i].size(1);
        const at::Tensor first = in(0);
        at::Tensor joined =
            at::empty({first.size(0), channels, first.size(2), first.size(3)}, tensor.memory_format(kLast));
        std::int64_t at = 0;  // copies convert type and layout on the way, a cat would not
        for (std::size_t k = 0; k < step.node.inputs.size(); ++k) {
          const at::Tensor piece = in(k);
          joined.narrow(1, at, piece.size(1)).copy_(piece);
          at += piece.size(1);
        }
        return joined;
      }
      case Op::input:  // pass() puts it there
      case Op::batch_norm:
        break;
    }
    throw ContractError(concat("the runner met a ", word(step.node.op), " (it has no way to compute one)"));
  }

  // cuDNN tries its kernels out at the first call with a shape and keeps the fastest: worth it for the few
  // shapes of a run's windows, not for many.
  void choose_kernels(at::IntArrayRef x) {
    if (!options.device.is_cuda()) return;
    constexpr std::size_t kShapes = 32;
    if (tried.size() < kShapes) tried.insert(x.vec());
    at::globalContext().setBenchmarkCuDNN(!options.deterministic && tried.count(x.vec()) > 0);
    at::globalContext().setDeterministicCuDNN(options.deterministic);
  }
  CallShape call(std::int64_t items, std::int64_t height, std::int64_t width) const {
    return {items, height, width, options.type, library, {}, {}};
  }
  CallShape call(const LayerHalos& halos) const {
    CallShape shape = call(1, halos.block(0).extent(1), halos.block(0).extent(2));
    if (halos.margins())
      for (int level = 0; level < halos.levels(); ++level)
        shape.regions.push_back({halos.region(level).extent(1), halos.region(level).extent(2)});
    return shape;
  }
  // What is computed where a part is wanted.
  void divide() {
    parts.clear();
    const auto some = [&](const Step& step) {
      return is_convolution(step.node.op) && in_parts[static_cast<std::size_t>(&step - plan.steps.data())];
    };
    if (core && std::any_of(plan.steps.begin(), plan.steps.end(), some))
      parts = computed_parts(plan, level_part(0), *core, in_parts);
  }
  // Of the last step's result.
  at::Tensor wanted(const at::Tensor& result) const {
    if (!core) return result;
    const Box have = parts.empty() ? level_part(0) : parts[static_cast<std::size_t>(plan.output)];
    return cut(result, have, *core);
  }
  // All steps, from x to a result of x's type.
  at::Tensor pass(const at::Tensor& x, const Level& level, const std::function<void()>& between,
                  LayerHalos* halos) {
    place(layout.image, layout.image.bytes);
    const bool fits = !plan.converts || (x.scalar_type() == options.type && x.is_contiguous(kLast));
    at::Tensor image = fits ? x : at::empty(x.sizes(), tensor.memory_format(kLast)).copy_(x);
    forget_places();
    std::vector<at::Tensor> slot(static_cast<std::size_t>(plan.output) + 1);
    for (std::size_t s = 0; s < plan.steps.size(); ++s) {
      place_step(s);
      const Step& step = plan.steps[s];
      slot[step.out] =
          step.node.op == Op::input ? std::exchange(image, {}) : evaluate(s, slot, x, level, halos);
      forget_places();
      for (const int done : step.released) slot[done].reset();
      beat();
      if (between) between();
    }
    return slot[plan.output].to(x.scalar_type());
  }

  // Before step s: its result, and what the library makes on the way.
  void place(const FeatureLayout::Piece& piece, std::int64_t least) {
    if (piece.bytes > 0 && arena.bytes() > 0)
      arena.place_next(piece.offset, std::min(least, piece.bytes), piece.bytes);
  }
  void place_step(std::size_t s) {
    if (layout.copies[s].bytes > 0)
      place(layout.copies[s], layout.copies[s].bytes);
    else
      place_result(s);
  }
  void place_result(std::size_t s) {
    place(layout.results[s], layout.results[s].bytes);
    for (const FeatureLayout::Piece& piece : layout.scratch[s]) place(piece, kLeastScratch);
    for (const FeatureLayout::Piece& piece : layout.inside) place(piece, kLeastScratch);
  }
};

Runner::Runner(const Network& network, const RunnerOptions& options)
    : impl_(std::make_unique<Impl>(network, options)) {}
Runner::Runner(Runner&&) noexcept = default;
Runner& Runner::operator=(Runner&&) noexcept = default;
Runner::~Runner() {
  if (impl_) release_kept_tensors();
}

at::Tensor Runner::run(const at::Tensor& x, double sigma, const std::function<void()>& between,
                       LayerHalos* halos, const std::optional<Box>      & core) {
  Impl& m = *impl_;
  const auto aligned = [&](std::int64_t side) { return side % m.alignment == 0; };
  TESSERA_EXPECT(x.dim() == 4 && (halos || (aligned(x.size(2)) && aligned(x.size(3)))), "a window of sizes ",
                 x.sizes(), " (sides must be multiples of ", m.alignment, ") cut it on the alignment");
  if (x.numel() == 0) {
    if (halos) halos->skip();
    // The others record their second pass and ask for everybody's consent.
    if (halos && m.graphs && halos->recordable() && ++m.empty_calls == 2) halos->everywhere(true);
    return at::empty(x.sizes(), x.options());
  }
  const at::NoGradGuard no_grad;
  const MemoryScope memory(MemoryUse::activations);
  const Tf32Scope tf32(m.options.tf32);
  m.choose_kernels(x.sizes());
  if (x.sizes() != at::IntArrayRef(m.sizes) || core != m.core) {
    release_kept_tensors();  // else buffers of every shape pile up
    m.sizes = x.sizes().vec();
    m.core = core;
    m.divide();
    CallShape call = halos ? m.call(*halos) : m.call(x.size(0), x.size(2), x.size(3));
    call.parts = m.parts;
    m.layout = lay_out(m.plan, call);
    const std::int64_t wanted = m.options.device.is_cuda() ? 0 : m.layout.bytes;
    if (!m.options.in_turn || wanted > m.arena.bytes()) m.arena.resize(wanted);
  }
  const ReuseScope pool;

  if (!m.graphs || (halos && !halos->recordable()))
    return m.wanted(m.pass(x, {.sigma = sigma}, between, halos));
  // Messages move before and after a replay: it takes the host no longer than a layer.
  if (between) between();
  bool replayed = true;
  const auto pass = [&](const at::Tensor& in, const at::Tensor& level) {
    replayed = false;
    return m.pass(in, {.tensor = level}, {}, halos);
  };
  GraphedPasses::Agree agree;
  if (halos) agree = [&](bool here) { return halos->everywhere(here); };
  const at::Tensor out = m.graphs->run(x, sigma, pass, agree);
  if (halos && replayed) halos->count_pass();
  if (between) between();
  return m.wanted(out);
}

std::int64_t Runner::bytes(std::int64_t items, std::int64_t height, std::int64_t width) const {
  return call_bytes(impl_->plan, impl_->call(items, height, width), impl_->options.device.is_cuda());
}
const RunPlan& Runner::plan() const { return impl_->plan; }
std::size_t Runner::graphs() const { return impl_->graphs ? impl_->graphs->captured() : 0; }
void Runner::release() {
  Impl& m = *impl_;
  if (m.graphs) m.graphs.emplace(m.options.device, m.tensor);
  m.sizes.clear();
  release_kept_tensors();
  if (m.options.device.is_cuda()) release_device_memory();
}
bool Runner::fused() const { return impl_->library != ConvolutionLibrary::plain; }

}  // namespace tessera
