// SPDX-License-Identifier: BSD-3-Clause
// What is right for a layer that says nothing else.
#include "tessera/denoise/layer.hpp"

#include <algorithm>
#include <map>

#include "layer/layer_halos.hpp"
#include "layers/features.hpp"
#include "layers/on_block.hpp"
#include "tessera/core/error.hpp"
#include "tessera/denoise/layer_step.hpp"

namespace tessera {
namespace {

class FunctionStep final : public LayerStep {
 public:
  explicit FunctionStep(std::function<at::Tensor(const StepCall&)> run) : run_(std::move(run)) {}
  at::Tensor run(const StepCall& call) override { return run_(call); }

 private:
  std::function<at::Tensor(const StepCall&)> run_;
};

}  // namespace

std::unique_ptr<LayerStep> make_step(std::function<at::Tensor(const StepCall&)> run) {
  return std::make_unique<FunctionStep>(std::move(run));
}

std::int64_t StepSizes::pixels(int below) const {
  std::int64_t pixels = 1;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    const int by = axis < first_axis(axes) ? 0 : below;
    pixels *= by >= 0 ? block[axis] >> by : block[axis] << -by;
  }
  return pixels;
}

std::string Layer::complete(Node& node, const Inputs& in) const {
  if (!in.empty()) node.channels = in[0]->channels;
  return {};
}

void Layer::transpose(const Transposing&) const {
  throw ContractError(concat("the transpose of a ", name(), " (there is none) write it first"));
}

bool Layer::in_parts(const Node&, std::int64_t, at::ScalarType, ConvolutionLibrary) const { return false; }

StepWork Layer::work(const Node& node, const Inputs& in, at::ScalarType, bool) const {
  StepWork work;
  for (const Node* input : in) work.in += input->channels;
  work.passed = static_cast<double>(work.in) + static_cast<double>(node.channels);
  return work;
}

std::int64_t Layer::reach(const Node& node) const {
  if (level_change() != 0) return 0;
  std::int64_t reach = 0;
  const std::int64_t side = unit(node);
  for (std::size_t axis = first_axis(node.axes); axis < 3; ++axis) {
    const Interval in = reads(node, {0, side}, axis);
    reach = std::max({reach, -in.lo, in.hi - side});
  }
  return reach;
}

std::unique_ptr<LayerStep> Layer::prepare(const Node& node, const StepSettings& settings) const {
  std::map<std::string, at::Tensor> weights;
  const Node before{.channels = node.channels};  // names do not depend on it
  for (const auto& [name, shape] : this->weights(node, Inputs{&before}))
    weights[name] = settings.parameter(name);
  return make_step([this, node, weights](const StepCall& call) {
    const at::Tensor sigma = call.level.tensor.defined() ? call.level.tensor.view({1})
                                                         : call.in[0].new_full({1}, call.level.sigma);
    const auto compute = [&](std::vector<at::Tensor> in) {
      return evaluate(node, in, {in[0], sigma, [&](const std::string& name) { return weights.at(name); }});
    };
    if (level_change() != 0) return with_margin(call, compute({block_of_input(call)}));
    if (!call.halos || !call.halos->exchanges(call.index)) return compute(call.in);
    return call.halos->compute(call.index, node.level, node.channels, call.in[0],
                               [&](const at::Tensor& x, const Box& have, const Box& wanted,
                                   const at::Tensor& y) { y.copy_(narrowed(compute({x}), have, wanted)); });
  });
}

}  // namespace tessera
