// SPDX-License-Identifier: BSD-3-Clause
// The fast form of a layer that has none of its own: its definition, on blocks where it has to be.
#include <map>

#include "engines/features.hpp"
#include "layers/layer_halos.hpp"
#include "layers/on_block.hpp"
#include "tessera/denoise/layer.hpp"
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
