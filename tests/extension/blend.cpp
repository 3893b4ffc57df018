// SPDX-License-Identifier: BSD-3-Clause
#include <ATen/TensorOperators.h>
#include <ATen/ops/constant_pad_nd.h>

#include <memory>

#include "tessera/denoise/denoiser_table.hpp"
#include "tessera/denoise/layer.hpp"

namespace tessera {
namespace {

/// x + w / 4 (x one slice above - 2 x + x one slice below), w per channel: a blend of three slices of a volume.
class Blend final : public Layer {
 public:
  const char* name() const override { return "blend"; }
  Interval reads(const Node&, const Interval& out, std::size_t axis) const override {
    return axis == 0 ? Interval{out.lo - 1, out.hi + 1} : out;
  }
  std::vector<NamedShape> weights(const Node& node, const Inputs&) const override {
    return {{node.weight + ".weight", {node.channels}}};
  }
  at::Tensor evaluate(const Node& node, const std::vector<at::Tensor>& in,
                      const Evaluation& e) const override {
    const at::Tensor& x = in[0];  // (N, C, D, H, W)
    const at::Tensor wide = at::constant_pad_nd(x, {0, 0, 0, 0, 1, 1});
    const at::Tensor around = wide.narrow(2, 0, x.size(2)) + wide.narrow(2, 2, x.size(2));
    return x + e.weight(node.weight + ".weight").view({1, -1, 1, 1, 1}) / 4 * (around - 2 * x);
  }
};

Graph make_blended(const NetworkOptions& options) {
  Graph g;
  const int image = g.add({.op = Op::input, .channels = options.channels, .axes = Axes::volume});
  const int blended = g.add({.op = *op_named("blend"), .inputs = {image}, .weight = "blend"});
  g.add({.op = Op::relu, .inputs = {blended}});
  return g;
}

}  // namespace

DenoiserRow blend() {
  add_layer(std::make_unique<Blend>());
  return {.name = "blended", .takes_sigma = false, .graph = make_blended};
}

}  // namespace tessera
