// SPDX-License-Identifier: BSD-3-Clause
// One line per layer, in the order of Op.
#include <array>
#include <utility>

#include "layers/rows.hpp"
#include "tessera/core/error.hpp"

namespace tessera {
namespace {

std::vector<std::unique_ptr<const Layer>>& table() {
  static std::vector<std::unique_ptr<const Layer>> rows = [] {
    std::array all = {input_layer(),
                      sigma_map_layer(),
                      conv_layer(),
                      conv_down_layer(),
                      conv_up_layer(),
                      batch_norm_layer(),
                      relu_layer(),
                      elu_layer(),
                      elu_gradient_layer(),
                      sum_layer(),
                      subtract_layer(),
                      concat_layer(),
                      max_pool_layer(),
                      upsample_layer(),
                      layer_norm_layer(),
                      scale_norm_layer(),
                      gelu_layer(),
                      gelu_gate_layer(),
                      window_attention_layer(),
                      channel_attention_layer()};
    std::vector<std::unique_ptr<const Layer>> list;
    for (auto& row : all) list.push_back(std::move(row));
    return list;
  }();
  return rows;
}

}  // namespace

const Layer& layer_of(Op op) { return *table()[static_cast<std::size_t>(op)]; }

Op add_layer(std::unique_ptr<const Layer> layer) {
  TESSERA_EXPECT(!op_named(layer->name()), "a second layer named ", layer->name(),
                 " (files could not tell them apart) name it otherwise");
  table().push_back(std::move(layer));
  return static_cast<Op>(table().size() - 1);
}

std::optional<Op> op_named(std::string_view name) {
  for (const Op op : all_ops())
    if (name == layer_of(op).name()) return op;
  return std::nullopt;
}

std::vector<Op> all_ops() {
  std::vector<Op> ops;
  for (std::size_t i = 0; i < table().size(); ++i) ops.push_back(static_cast<Op>(i));
  return ops;
}

const char* word(Op op) { return layer_of(op).name(); }
bool is_convolution(Op op) { return layer_of(op).convolution(); }
int level_change(Op op) { return layer_of(op).level_change(); }

}  // namespace tessera
