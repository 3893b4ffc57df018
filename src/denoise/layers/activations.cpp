// SPDX-License-Identifier: BSD-3-Clause
// Functions of one pixel's channels: relu, elu, elu_gradient, gelu, gelu_gate.
#include <ATen/TensorOperators.h>
#include <ATen/ops/elu.h>
#include <ATen/ops/elu_backward.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/relu.h>

#include "layers/rows.hpp"
#include "tessera/core/error.hpp"
#include "tessera/denoise/layer_step.hpp"

namespace tessera {
namespace {

/// Written over its input, where nobody else reads that; on parts of any strides.
class Activation : public Layer {
 public:
  bool overwrites() const override { return true; }
  bool in_parts(const Node&, std::int64_t, at::ScalarType, ConvolutionLibrary) const override { return true; }
};

class Relu final : public Activation {
 public:
  const char* name() const override { return "relu"; }
  at::Tensor evaluate(const Node&, const std::vector<at::Tensor>& in, const Evaluation&) const override {
    return at::relu(in[0]);
  }
  std::unique_ptr<LayerStep> prepare(const Node&, const StepSettings&) const override {
    return make_step([](const StepCall& call) {
      return call.step.into_other ? call.in[0].relu_() : at::relu(call.in[0]);
    });
  }
};

class Elu final : public Activation {
 public:
  const char* name() const override { return "elu"; }
  at::Tensor evaluate(const Node&, const std::vector<at::Tensor>& in, const Evaluation&) const override {
    return at::elu(in[0]);
  }
  void transpose(const Transposing& t) const override {
    t.give(t.nodes[t.node].inputs[0], t.graph.add({.op = Op::elu_gradient, .inputs = {t.gradient, t.node}}));
  }
  std::unique_ptr<LayerStep> prepare(const Node&, const StepSettings&) const override {
    return make_step([](const StepCall& call) {
      at::Tensor x = call.in[0];
      return call.step.into_other ? at::elu_(x) : at::elu(x);
    });
  }
};

class EluGradient final : public Activation {
 public:
  const char* name() const override { return "elu_gradient"; }
  std::size_t least_inputs() const override { return 2; }
  std::size_t most_inputs() const override { return 2; }
  std::string complete(Node& node, const Inputs& in) const override { return alike(node, in, *this); }
  at::Tensor evaluate(const Node&, const std::vector<at::Tensor>& in, const Evaluation&) const override {
    return in[0] * (in[1].clamp_max(0) + 1);  // exp(x) = y + 1 where x is not positive
  }
  std::unique_ptr<LayerStep> prepare(const Node&, const StepSettings&) const override {
    return make_step([](const StepCall& call) -> at::Tensor {
      at::Tensor g = call.in[0];
      if (call.step.into_other) return at::elu_backward_out(g, g, 1, 1, 1, /*is_result=*/true, call.in[1]);
      return at::elu_backward(g, 1, 1, 1, /*is_result=*/true, call.in[1]);
    });
  }
};

class Gelu final : public Activation {
 public:
  const char* name() const override { return "gelu"; }
  at::Tensor evaluate(const Node&, const std::vector<at::Tensor>& in, const Evaluation&) const override {
    return at::gelu(in[0]);
  }
  std::unique_ptr<LayerStep> prepare(const Node&, const StepSettings&) const override {
    return make_step([](const StepCall& call) {
      at::Tensor x = call.in[0];
      return call.step.into_other ? at::gelu_(x) : at::gelu(x);
    });
  }
};

class GeluGate final : public Layer {
 public:
  const char* name() const override { return "gelu_gate"; }
  std::string complete(Node& node, const Inputs& in) const override {
    node.channels = in[0]->channels / 2;
    if (in[0]->channels % 2 == 0) return {};
    return concat("a gate of ", in[0]->channels, " channels (one half opens the other) use an even number");
  }
  at::Tensor evaluate(const Node& node, const std::vector<at::Tensor>& in, const Evaluation&) const override {
    return at::gelu(in[0].narrow(1, 0, node.channels)) * in[0].narrow(1, node.channels, node.channels);
  }
  std::unique_ptr<LayerStep> prepare(const Node& node, const StepSettings&) const override {
    return make_step([half = node.channels](const StepCall& call) {
      return at::gelu(call.in[0].narrow(1, 0, half)).mul_(call.in[0].narrow(1, half, half));
    });
  }
};

}  // namespace

std::string alike(Node& node, const Layer::Inputs& in, const Layer& layer) {
  node.channels = in[0]->channels;
  for (const Node* input : in)
    if (input->channels != node.channels)
      return concat("inputs of ", layer.name(), " with ", node.channels, " and ", input->channels,
                    " channels (they must be equal) use a convolution between");
  return {};
}

std::unique_ptr<const Layer> relu_layer() { return std::make_unique<Relu>(); }
std::unique_ptr<const Layer> elu_layer() { return std::make_unique<Elu>(); }
std::unique_ptr<const Layer> elu_gradient_layer() { return std::make_unique<EluGradient>(); }
std::unique_ptr<const Layer> gelu_layer() { return std::make_unique<Gelu>(); }
std::unique_ptr<const Layer> gelu_gate_layer() { return std::make_unique<GeluGate>(); }

}  // namespace tessera
