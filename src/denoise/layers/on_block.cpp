// SPDX-License-Identifier: BSD-3-Clause
#include "layers/on_block.hpp"

#include "engines/features.hpp"
#include "layers/layer_halos.hpp"
#include "tessera/domain/tensor_memory.hpp"

namespace tessera {

at::Tensor block_of_input(const StepCall& call) {
  if (!call.halos) return call.in[0];
  const Node& node = call.step.node;
  at::Tensor block =
      call.halos->narrow(call.in[0], node.level - level_change(node.op)).contiguous(channels_last(node.axes));
  forget_places();  // the copy's, which a result of its size would take where none was made
  call.place_result();
  return block;
}

bool has_margin(const StepCall& call) {
  const int level = call.step.node.level;
  return call.halos && call.halos->region(level) != call.halos->block(level);
}

at::Tensor with_margin(const StepCall& call, const at::Tensor& block) {
  return call.halos ? call.halos->widen(block, call.step.node.level) : block;
}

}  // namespace tessera
