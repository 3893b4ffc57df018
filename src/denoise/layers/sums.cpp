// SPDX-License-Identifier: BSD-3-Clause
// What joins features: add, subtract, concat.
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include "engines/features.hpp"
#include "layers/rows.hpp"
#include "tessera/core/error.hpp"
#include "tessera/denoise/layer_step.hpp"

namespace tessera {
namespace {

class Sum final : public Layer {
 public:
  const char* name() const override { return "add"; }
  std::size_t least_inputs() const override { return 2; }
  std::size_t most_inputs() const override { return kMany; }
  std::string complete(Node& node, const Inputs& in) const override { return alike(node, in, *this); }
  at::Tensor evaluate(const Node&, const std::vector<at::Tensor>& in, const Evaluation&) const override {
    at::Tensor sum = in[0] + in[1];
    for (std::size_t k = 2; k < in.size(); ++k) sum = sum + in[k];
    return sum;
  }
  void transpose(const Transposing& t) const override {
    for (const int input : t.nodes[t.node].inputs) t.give(input, t.gradient);
  }
  bool overwrites() const override { return true; }
  bool in_parts(const Node&, std::int64_t, at::ScalarType, ConvolutionLibrary) const override { return true; }
  std::unique_ptr<LayerStep> prepare(const Node&, const StepSettings&) const override {
    return make_step([](const StepCall& call) {
      at::Tensor sum = call.step.into_other ? call.in[0].add_(call.in[1]) : call.in[0] + call.in[1];
      for (std::size_t k = 2; k < call.in.size(); ++k) sum.add_(call.in[k]);
      return sum;
    });
  }
};

class Difference final : public Layer {
 public:
  const char* name() const override { return "subtract"; }
  std::size_t least_inputs() const override { return 2; }
  std::size_t most_inputs() const override { return 2; }
  std::string complete(Node& node, const Inputs& in) const override { return alike(node, in, *this); }
  at::Tensor evaluate(const Node&, const std::vector<at::Tensor>& in, const Evaluation&) const override {
    return in[0] - in[1];
  }
  bool overwrites() const override { return true; }
  bool in_parts(const Node&, std::int64_t, at::ScalarType, ConvolutionLibrary) const override { return true; }
  std::unique_ptr<LayerStep> prepare(const Node&, const StepSettings&) const override {
    return make_step([](const StepCall& call) {
      return call.step.into_other ? call.in[0].sub_(call.in[1]) : call.in[0] - call.in[1];
    });
  }
};

class Concat final : public Layer {
 public:
  const char* name() const override { return "concat"; }
  std::size_t most_inputs() const override { return kMany; }
  std::string complete(Node& node, const Inputs& in) const override {
    node.channels = 0;
    for (const Node* input : in) node.channels += input->channels;
    return {};
  }
  at::Tensor evaluate(const Node&, const std::vector<at::Tensor>& in, const Evaluation&) const override {
    return at::cat(in, 1);
  }
  bool converts() const override { return true; }
  bool in_parts(const Node&, std::int64_t, at::ScalarType, ConvolutionLibrary) const override { return true; }
  std::unique_ptr<LayerStep> prepare(const Node& node, const StepSettings& settings) const override {
    const at::TensorOptions like = settings.tensor.memory_format(channels_last(node.axes));
    return make_step([channels = node.channels, like](const StepCall& call) {
      std::vector<std::int64_t> sizes = call.in[0].sizes().vec();
      sizes[1] = channels;
      at::Tensor joined = at::empty(sizes, like);
      std::int64_t at = 0;  // copies convert type and layout on the way, a cat would not
      for (const at::Tensor& piece : call.in) {
        joined.narrow(1, at, piece.size(1)).copy_(piece);
        at += piece.size(1);
      }
      return joined;
    });
  }
};

}  // namespace

std::unique_ptr<const Layer> sum_layer() { return std::make_unique<Sum>(); }
std::unique_ptr<const Layer> subtract_layer() { return std::make_unique<Difference>(); }
std::unique_ptr<const Layer> concat_layer() { return std::make_unique<Concat>(); }

}  // namespace tessera
