// SPDX-License-Identifier: BSD-3-Clause
// Changes of level with weights: conv_down and its transpose conv_up.
#include <ATen/Parallel.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/conv3d.h>
#include <ATen/ops/conv_transpose2d.h>
#include <ATen/ops/conv_transpose3d.h>

#include "engines/convolution.hpp"
#include "engines/features.hpp"
#include "layers/convolutions.hpp"
#include "layers/levels.hpp"
#include "layers/on_block.hpp"
#include "layers/rows.hpp"

namespace tessera {
namespace {

// Of oneDNN 3, bytes for each thread, twice what was seen: beside the result of a transposed convolution.
constexpr std::int64_t kBesideUp = std::int64_t{1} << 15, kBesideUp16 = std::int64_t{1} << 18;
constexpr std::int64_t kLanes = 16;   // channels that oneDNN takes as they are
constexpr std::int64_t kFilled = 64;  // channels that it fills weights up to

class LevelStep final : public LayerStep {
 public:
  LevelStep(const Node& node, const StepSettings& settings, bool up)
      : convolution_(settings.library, settings.weight(node.weight).to(settings.tensor).contiguous(),
                     bias_of(node, settings), {.stride = 2, .padding = 0, .transposed = up}) {}

  at::Tensor run(const StepCall& call) override {
    const at::Tensor in = block_of_input(call);
    const bool margin = has_margin(call);
    if (call.other.defined() && !margin) return convolution_.add(in, call.other, call.step.into_other);
    at::Tensor y = convolution_.apply(in, call.step.relu);
    if (margin) y = with_margin(call, y);
    return call.other.defined() ? y.add_(call.other) : y;
  }

 private:
  ConvolutionLayer convolution_;
};

class ConvLevel : public ConvolutionalLayer {
 public:
  bool in_parts(const Node& node, std::int64_t inputs, at::ScalarType type,
                ConvolutionLibrary library) const override {
    return node.axes == Axes::picture && ConvolutionLayer::computes_parts(library, type, node, inputs);
  }
  std::unique_ptr<LayerStep> prepare(const Node& node, const StepSettings& settings) const override {
    const bool up = level_change() < 0;
    if (node.axes == Axes::volume)
      return volume_step(settings.parameter(node.weight), bias_of(node, settings),
                         {.stride = 2, .transposed = up});
    return std::make_unique<LevelStep>(node, settings, up);
  }
  StepWork work(const Node& node, const Inputs& in, at::ScalarType, bool) const override {
    const std::int64_t inputs = in[0]->channels;
    return {.in = inputs,
            .packed = 4 * static_cast<double>(taps(node)) * static_cast<double>(inputs * node.channels)};
  }

 protected:
  void transposed_by(Op op, const Transposing& t) const {
    const Node& node = t.nodes[t.node];
    const int in = node.inputs[0];
    if (!t.depends(in)) return;
    t.give(in,
           t.graph.add(
               {.op = op, .inputs = {t.gradient}, .channels = t.nodes[in].channels, .weight = node.weight}));
  }
  std::int64_t taps(const Node& node) const override { return kernel_taps(2, node.axes); }
};

/// 2 x 2 (x 2), stride 2, no padding; weight (out, in, [2,] 2, 2).
class ConvDown final : public ConvLevel {
 public:
  const char* name() const override { return "conv_down"; }
  int level_change() const override { return 1; }
  Interval reads(const Node&, const Interval& out, std::size_t) const override { return coarse_reads(out); }
  std::vector<NamedShape> weights(const Node& node, const Inputs& in) const override {
    return with_bias(node, kernel_shape(node.channels, in[0]->channels, 2, node.axes));
  }
  at::Tensor evaluate(const Node& node, const std::vector<at::Tensor>& in,
                      const Evaluation& e) const override {
    if (node.axes == Axes::volume)
      return at::conv3d(in[0], e.weight(node.weight), bias(node, e), /*stride=*/2);
    return at::conv2d(in[0], e.weight(node.weight), bias(node, e), /*stride=*/2);
  }
  void transpose(const Transposing& t) const override { transposed_by(Op::conv_up, t); }
  bool absorbs() const override { return true; }
  double products(const Node& node, const Inputs& in) const override {
    return static_cast<double>(taps(node)) * static_cast<double>(in[0]->channels * node.channels);
  }
};

/// Transposed 2 x 2 (x 2), stride 2; weight (in, out, [2,] 2, 2).
class ConvUp final : public ConvLevel {
 public:
  const char* name() const override { return "conv_up"; }
  int level_change() const override { return -1; }
  Interval reads(const Node&, const Interval& out, std::size_t) const override { return fine_reads(out); }
  std::vector<NamedShape> weights(const Node& node, const Inputs& in) const override {
    return with_bias(node, kernel_shape(in[0]->channels, node.channels, 2, node.axes));
  }
  at::Tensor evaluate(const Node& node, const std::vector<at::Tensor>& in,
                      const Evaluation& e) const override {
    if (node.axes == Axes::volume)
      return at::conv_transpose3d(in[0], e.weight(node.weight), bias(node, e), /*stride=*/2);
    return at::conv_transpose2d(in[0], e.weight(node.weight), bias(node, e), /*stride=*/2);
  }
  void transpose(const Transposing& t) const override { transposed_by(Op::conv_down, t); }
  /// The result a second time, inputs that fill no registers too, and something for each thread.
  std::vector<std::int64_t> scratch(const Node& node, const StepSizes& s) const override {
    if (!ConvolutionLayer::writes_twice(s.library, s.type, node.channels)) return {};
    const std::int64_t made = s.items * node.channels * s.pixels(),
                       copied = s.inputs % kLanes == 0 ? 0 : s.items * s.inputs * s.pixels(1);
    return {(made + copied) * s.element() +
            (s.element() < 4 ? kBesideUp16 : kBesideUp) * at::get_num_threads()};
  }
  /// A sample lies under one of the taps.
  double products(const Node& node, const Inputs& in) const override {
    return static_cast<double>(in[0]->channels * node.channels);
  }
};

}  // namespace

std::int64_t ConvolutionalLayer::inside(const Node& node, const StepSizes& s) const {
  if (s.axes == Axes::volume) return inside_volume(node, s);
  const std::int64_t in = node.reads(s.inputs);
  const bool plain = s.library == ConvolutionLibrary::plain;
  if (!plain && s.element() == 4) {  // those of 1 x 1 are ordered anew where an image is small
    if (s.library == ConvolutionLibrary::cudnn || taps(node) != 1) return 0;
    return 4 * in * ((node.channels + kFilled - 1) / kFilled * kFilled);
  }
  if (ConvolutionLayer::computes_parts(s.library, s.type, node, in)) return 0;
  std::int64_t taken = in * taps(node) * node.channels;
  if (const std::int64_t wide = ConvolutionLayer::widened(s.library, s.type, node, in); wide > 0)
    return 4 * (taken + s.samples / node.channels * wide + s.samples);
  if (plain) taken += taken + 2 * s.samples;
  if (ConvolutionLayer::unfolds(s.library, s.type)) taken += 2 * s.samples / node.channels * in * taps(node);
  return taken * s.element();
}

std::unique_ptr<const Layer> conv_down_layer() { return std::make_unique<ConvDown>(); }
std::unique_ptr<const Layer> conv_up_layer() { return std::make_unique<ConvUp>(); }

}  // namespace tessera
