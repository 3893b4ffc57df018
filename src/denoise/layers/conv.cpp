// SPDX-License-Identifier: BSD-3-Clause
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/conv3d.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <optional>

#include "engines/convolution.hpp"
#include "engines/features.hpp"
#include "layers/convolutions.hpp"
#include "layers/layer_halos.hpp"
#include "layers/rows.hpp"
#include "tessera/core/error.hpp"

namespace tessera {
namespace {

// The weight (out, in, [k,] k, k) of what a convolution computes: `weight` as the state dict has it, or of its transpose.
at::Tensor applied_weight(const Node& node, const at::Tensor& weight) {
  if (!node.adjoint) return weight;
  const at::Tensor w = weight.narrow(1, 0, node.channels).transpose(0, 1);
  return w.dim() == 5 ? w.flip({2, 3, 4}) : w.flip({2, 3});
}

bool winograd(const Node& node, std::int64_t inputs, at::ScalarType type) {
  return Winograd::suits(type, inputs, node.kernel) && Winograd::runs(type);
}

class ConvStep final : public LayerStep {
 public:
  ConvStep(const Node& node, const StepSettings& settings, const RimForm& rim) : tensor_(settings.tensor) {
    const at::Tensor weight =
        applied_weight(node, settings.weight(node.weight)).to(settings.tensor).contiguous();
    const std::optional<at::Tensor> bias = bias_of(node, settings);
    const ConvolutionLayer::Shape shape{
        .stride = 1, .padding = node.kernel / 2, .groups = node.depthwise ? node.channels : 1};
    straight_.emplace(settings.library, weight, bias, shape);
    if (settings.turned && rim.turned) turned_.emplace(settings.library, weight.transpose(2, 3), bias, shape);
  }

  at::Tensor run(const StepCall& call) override {
    const Step& step = call.step;
    if (call.halos && call.halos->exchanges(call.index))
      return call.halos->convolve(call.index, *straight_, turned_ ? &*turned_ : nullptr, call.in[0],
                                  step.relu, call.other, step.into_other);
    if (call.in_part) return part(call);
    if (call.other.defined()) return straight_->add(call.in[0], call.other, step.into_other);
    return straight_->apply(call.in[0], step.relu);
  }

 private:
  // Exactly the part of the result that is wanted; zeros where the image ends.
  at::Tensor part(const StepCall& call) const {
    const Box& out = call.out;
    const at::Tensor& sum = call.other;
    at::Tensor y = call.step.into_other
                       ? sum
                       : at::empty({call.items, straight_->outputs(), out.extent(1), out.extent(2)},
                                   tensor_.memory_format(at::MemoryFormat::ChannelsLast));
    const std::array<std::int64_t, 2> zeros{out.lo()[1] == 0, out.lo()[2] == 0};
    straight_->part(call.in[0], zeros, sum.defined() ? &sum : nullptr, call.step.relu, y);
    return y;
  }

  at::TensorOptions tensor_;
  std::optional<ConvolutionLayer> straight_, turned_;  // turned: with rows and columns exchanged
};

/// Kernel k x k (x k; odd), stride 1, padding k/2; weight (out, in, [k,] k, k), of a depthwise one
/// (channels, 1, [k,] k, k); optional bias.
class Conv final : public ConvolutionalLayer {
 public:
  const char* name() const override { return "conv"; }
  std::string complete(Node& node, const Inputs& in) const override {
    if (node.depthwise && (node.channels != in[0]->channels || node.adjoint))
      return concat("a conv of each channel by itself, from ", in[0]->channels, " to ", node.channels,
                    " channels (only a conv of as many is one) use a full one");
    if (node.kernel % 2 != 1)
      return concat("a convolution of width ", node.kernel,
                    " (padding k/2 keeps the size for odd k only) use an odd kernel");
    return {};
  }
  Interval reads(const Node& node, const Interval& out, std::size_t) const override {
    return {out.lo - node.kernel / 2, out.hi + node.kernel / 2};
  }
  std::vector<NamedShape> weights(const Node& node, const Inputs& in) const override {
    return with_bias(node, kernel_shape(node.channels, node.reads(in[0]->channels), node.kernel, node.axes));
  }
  at::Tensor evaluate(const Node& node, const std::vector<at::Tensor>& in,
                      const Evaluation& e) const override {
    if (node.axes == Axes::volume)
      return at::conv3d(in[0], applied_weight(node, e.weight(node.weight)), bias(node, e), /*stride=*/1,
                        /*padding=*/node.kernel / 2, /*dilation=*/1,
                        /*groups=*/node.depthwise ? node.channels : 1);
    return at::conv2d(in[0], applied_weight(node, e.weight(node.weight)), bias(node, e), /*stride=*/1,
                      /*padding=*/node.kernel / 2, /*dilation=*/1,
                      /*groups=*/node.depthwise ? node.channels : 1);
  }
  void transpose(const Transposing& t) const override {
    const Node& node = t.nodes[t.node];
    int in = node.inputs[0];
    TESSERA_EXPECT(!node.depthwise, "the transpose of a depthwise conv (there is none) write it first");
    if (t.nodes[in].op == Op::concat) {
      const std::vector<int>& parts = t.nodes[in].inputs;
      TESSERA_EXPECT(std::none_of(parts.begin() + 1, parts.end(), t.depends),
                     "the transpose of a concat (its first input alone is followed) write it first");
      in = parts[0];
    }
    if (!t.depends(in)) return;
    t.give(in, t.graph.add({.op = Op::conv,
                            .inputs = {t.gradient},
                            .channels = t.nodes[in].channels,
                            .kernel = node.kernel,
                            .weight = node.weight,
                            .adjoint = true}));
  }
  bool absorbs() const override { return true; }
  bool in_parts(const Node& node, std::int64_t inputs, at::ScalarType type,
                ConvolutionLibrary library) const override {
    return node.axes == Axes::picture && ConvolutionLayer::computes_parts(library, type, node, inputs);
  }
  std::int64_t kept(const Node& node, const StepSizes& s) const override {
    if (s.axes == Axes::volume)
      return node.depthwise || !volume_by_winograd(s.type, s.on_device(), s.inputs, node.kernel)
                 ? 0
                 : at::get_num_threads() * Winograd::scratch_bytes(s.inputs, 3, Winograd::available());
    return ConvolutionLayer::scratch_bytes(s.library, s.type, node.reads(s.inputs), node.kernel);
  }
  std::unique_ptr<LayerStep> prepare(const Node& node, const StepSettings& settings) const override {
    if (node.axes == Axes::volume)
      return volume_step(
          applied_weight(node, settings.parameter(node.weight)), bias_of(node, settings),
          {.stride = 1, .padding = node.kernel / 2, .groups = node.depthwise ? node.channels : 1});
    const std::int64_t inputs = applied_weight(node, settings.weight(node.weight)).size(1);
    const bool on_device = settings.tensor.device().is_cuda() || settings.device_form;
    return std::make_unique<ConvStep>(
        node, settings, rim(node, inputs, c10::typeMetaToScalarType(settings.tensor.dtype()), on_device));
  }
  double products(const Node& node, const Inputs& in) const override {
    return static_cast<double>(taps(node)) * static_cast<double>(node.reads(in[0]->channels) * node.channels);
  }
  StepWork work(const Node& node, const Inputs& in, at::ScalarType type, bool on_device) const override {
    if (node.depthwise)
      return {.in = 1, .passed = 2 * static_cast<double>(node.channels)};  // as fast as memory
    const std::int64_t inputs = in[0]->channels;
    const bool fast = winograd(node, inputs, on_device ? at::kFloat : type);
    // 36 transformed numbers for 9 of a kernel where the library is Winograd's.
    const double kernel = static_cast<double>(fast ? 4 * taps(node) : taps(node));
    return {.in = inputs,
            .tile = fast && !on_device ? Winograd::kTile : 1,
            .packed = 4 * kernel * static_cast<double>(inputs * node.channels)};
  }
  /// Of volumes, whose convolutions have no form for margins and strips, blocks alone.
  bool on_blocks(const Node& node) const override { return node.axes == Axes::volume; }
  /// Whole tiles of Winograd's where it runs, so that nothing is computed twice; elsewhere as thin as can be,
  /// and, on a CPU, never in calls with columns of a few pixels, which its libraries are slow at.
  RimForm rim(const Node& node, std::int64_t inputs, at::ScalarType type, bool on_device) const override {
    if (on_device || node.axes == Axes::volume) return {};
    const bool elsewhere = type != at::kFloat && !Winograd::runs(type);
    if (Winograd::suits(type, inputs, node.kernel) && !elsewhere) return {.tile = Winograd::kTile};
    return {.turned = node.kernel > 1};
  }

 private:
  std::int64_t taps(const Node& node) const override { return kernel_taps(node.kernel, node.axes); }
};

}  // namespace

std::unique_ptr<const Layer> conv_layer() { return std::make_unique<Conv>(); }

}  // namespace tessera
