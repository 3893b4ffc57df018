// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engines/convolution.hpp"
#include "tessera/denoise/layer_step.hpp"

namespace tessera {

/// What convolutions have in common; `channels` of the node are given, not derived.
class ConvolutionalLayer : public Layer {
 public:
  std::string complete(Node&, const Inputs&) const override { return {}; }
  bool convolution() const override { return true; }
  /// Weights in another order (16 bits, plain), the unfolded input (double), and, plain, a product that is added
  /// afterwards; beside what a library's threads take.
  std::int64_t inside(const Node& node, const StepSizes& sizes) const override;

 protected:
  /// Products per output pixel and pair of channels that a library lays out.
  virtual std::int64_t taps(const Node& node) const = 0;
  std::int64_t inside_volume(const Node& node, const StepSizes& sizes) const;
  static std::vector<NamedShape> with_bias(const Node& node, std::vector<std::int64_t> shape) {
    std::vector<NamedShape> all{{node.weight, std::move(shape)}};
    if (!node.bias.empty()) all.push_back({node.bias, {node.channels}});
    return all;
  }
  static std::optional<at::Tensor> bias(const Node& node, const Evaluation& e) {
    return node.bias.empty() ? std::nullopt : std::optional<at::Tensor>(e.weight(node.bias));
  }
};

inline std::optional<at::Tensor> bias_of(const Node& node, const StepSettings& settings) {
  return node.bias.empty() ? std::nullopt : std::optional<at::Tensor>(settings.parameter(node.bias));
}

/// Whether Winograd's kernels compute a convolution of volumes here, of stride 1 and not depthwise: in float32 on a CPU
/// that has them. Elsewhere torch's do.
bool volume_by_winograd(at::ScalarType type, bool on_device, std::int64_t inputs, std::int64_t kernel);

/// A convolution of a volume; weight (out, in, k, k, k), transposed (in, out, k, k, k), of the type and on the device of
/// the arithmetic.
std::unique_ptr<LayerStep> volume_step(const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                                       const ConvolutionLayer::Shape& shape);

}  // namespace tessera
