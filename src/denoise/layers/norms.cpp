// SPDX-License-Identifier: BSD-3-Clause
// batch_norm in evaluation form; layer_norm over the channels of each pixel; scale_norm, the same without taking
// the mean away and without bias: x / sqrt(var + eps) weight. All with eps 1e-5.
#include <ATen/TensorOperators.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/native_layer_norm.h>
#include <ATen/ops/sqrt.h>
#include <ATen/ops/var.h>

#include <algorithm>

#include "layers/rows.hpp"
#include "tessera/core/error.hpp"
#include "tessera/denoise/layer_step.hpp"

namespace tessera {
namespace {

constexpr double kEps = 1e-5;

/// Folded into the convolution before it where a network is run (fold_batch_norm).
class BatchNorm final : public Layer {
 public:
  const char* name() const override { return "batch_norm"; }
  std::vector<NamedShape> weights(const Node& node, const Inputs&) const override {
    std::vector<NamedShape> all;
    for (const char* part : {".weight", ".bias", ".running_mean", ".running_var"})
      all.push_back({node.weight + part, {node.channels}});
    return all;
  }
  at::Tensor evaluate(const Node& node, const std::vector<at::Tensor>& in,
                      const Evaluation& e) const override {
    const auto part = [&](const char* name) { return e.weight(node.weight + name); };
    return at::batch_norm(in[0], part(".weight"), part(".bias"), part(".running_mean"), part(".running_var"),
                          /*training=*/false, /*momentum=*/0, kEps, /*cudnn_enabled=*/false);
  }
  std::unique_ptr<LayerStep> prepare(const Node&, const StepSettings&) const override {
    throw ContractError("a batch norm reached the runner (it computes none) fold it");
  }
};

class ChannelNorm : public Layer {
 public:
  /// Mean and deviation of each pixel.
  std::vector<std::int64_t> scratch(const Node& node, const StepSizes& s) const override {
    const std::int64_t bytes = s.samples / node.channels * std::max<std::int64_t>(s.element(), 4);
    return {bytes, bytes};
  }
};

class LayerNorm final : public ChannelNorm {
 public:
  const char* name() const override { return "layer_norm"; }
  std::vector<NamedShape> weights(const Node& node, const Inputs&) const override {
    return {{node.weight + ".weight", {node.channels}}, {node.weight + ".bias", {node.channels}}};
  }
  at::Tensor evaluate(const Node& node, const std::vector<at::Tensor>& in,
                      const Evaluation& e) const override {
    return normalized(node, in[0], e.weight(node.weight + ".weight"), e.weight(node.weight + ".bias"));
  }
  std::unique_ptr<LayerStep> prepare(const Node& node, const StepSettings& settings) const override {
    return make_step([node, weight = settings.parameter(node.weight + ".weight"),
                      bias = settings.parameter(node.weight + ".bias")](const StepCall& call) {
      return normalized(node, call.in[0], weight, bias);
    });
  }

 private:
  static at::Tensor normalized(const Node& node, const at::Tensor& x, const at::Tensor& weight,
                               const at::Tensor& bias) {
    return at::layer_norm(x.movedim(1, -1), {node.channels}, weight, bias, kEps).movedim(-1, 1);
  }
};

class ScaleNorm final : public ChannelNorm {
 public:
  const char* name() const override { return "scale_norm"; }
  std::vector<NamedShape> weights(const Node& node, const Inputs&) const override {
    return {{node.weight + ".weight", {node.channels}}};
  }
  at::Tensor evaluate(const Node& node, const std::vector<at::Tensor>& in,
                      const Evaluation& e) const override {
    std::vector<std::int64_t> channels(static_cast<std::size_t>(in[0].dim()), 1);
    channels[1] = -1;
    return in[0] / at::sqrt(at::var(in[0], {1}, /*unbiased=*/false, /*keepdim=*/true) + kEps) *
           e.weight(node.weight + ".weight").view(channels);
  }
  std::unique_ptr<LayerStep> prepare(const Node& node, const StepSettings& settings) const override {
    return make_step([node, weight = settings.parameter(node.weight + ".weight")](const StepCall& call) {
      // The mean, which a layer norm takes away, given back.
      auto [y, mean, rate] =
          at::native_layer_norm(call.in[0].movedim(1, -1), {node.channels}, weight, {}, kEps);
      return y.addcmul_(mean.mul_(rate), weight).movedim(-1, 1);
    });
  }
};

}  // namespace

std::unique_ptr<const Layer> batch_norm_layer() { return std::make_unique<BatchNorm>(); }
std::unique_ptr<const Layer> layer_norm_layer() { return std::make_unique<LayerNorm>(); }
std::unique_ptr<const Layer> scale_norm_layer() { return std::make_unique<ScaleNorm>(); }

}  // namespace tessera
