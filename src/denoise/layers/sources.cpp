// SPDX-License-Identifier: BSD-3-Clause
// input: the image. sigma_map: one channel, constant, the noise level.
#include <ATen/ops/full.h>

#include "engines/features.hpp"
#include "layers/rows.hpp"
#include "tessera/denoise/layer_step.hpp"

namespace tessera {
namespace {

class Source : public Layer {
 public:
  std::size_t least_inputs() const override { return 0; }
  std::size_t most_inputs() const override { return 0; }
};

class InputLayer final : public Source {
 public:
  const char* name() const override { return "input"; }
  at::Tensor evaluate(const Node&, const std::vector<at::Tensor>&, const Evaluation& e) const override {
    return e.image;
  }
  /// In, and the result out again, each to another layout.
  StepWork work(const Node& node, const Inputs&, at::ScalarType, bool) const override {
    return {.in = node.channels, .passed = 4 * static_cast<double>(node.channels)};
  }
};

class SigmaMap final : public Source {
 public:
  const char* name() const override { return "sigma_map"; }
  std::string complete(Node& node, const Inputs&) const override {
    node.channels = 1;
    return {};
  }
  at::Tensor evaluate(const Node&, const std::vector<at::Tensor>&, const Evaluation& e) const override {
    const at::Tensor& x = e.image;
    std::vector<std::int64_t> one(static_cast<std::size_t>(x.dim()), 1), all = x.sizes().vec();
    one[0] = -1;
    all[1] = 1;
    return e.sigma.to(x.options()).view(one).expand(all);
  }
  bool in_parts(const Node&, std::int64_t, at::ScalarType, ConvolutionLibrary) const override { return true; }
  std::unique_ptr<LayerStep> prepare(const Node& node, const StepSettings& settings) const override {
    return make_step([axes = node.axes, tensor = settings.tensor](const StepCall& call) {
      const at::Tensor one =
          call.level.tensor.defined() ? call.level.tensor : at::full({1, 1, 1, 1}, call.level.sigma, tensor);
      return one.view(feature_sizes(1, 1, Box::image2d(1, 1), axes))
          .expand(feature_sizes(call.items, 1, call.out, axes));
    });
  }
  /// A view of one number.
  StepWork work(const Node&, const Inputs&, at::ScalarType, bool) const override { return {}; }
};

}  // namespace

std::unique_ptr<const Layer> input_layer() { return std::make_unique<InputLayer>(); }
std::unique_ptr<const Layer> sigma_map_layer() { return std::make_unique<SigmaMap>(); }

}  // namespace tessera
