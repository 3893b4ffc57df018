// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <cstddef>
#include <vector>

#include "tessera/core/error.hpp"
#include "tessera/denoise/graph.hpp"

namespace tessera {

int append_adjoint(Graph& graph, int from, int to, int v) {
  const std::vector<Node> nodes = graph.nodes();  // as they were: the graph grows
  std::vector<bool> depends(nodes.size(), false);
  depends[from] = true;
  for (int i = from + 1; i <= to; ++i)
    depends[i] =
        std::any_of(nodes[i].inputs.begin(), nodes[i].inputs.end(), [&](int k) { return depends[k]; });
  TESSERA_EXPECT(depends[to], "the derivative of node ", to, " by node ", from,
                 " (it does not depend on it) name another");

  // The sum so far of what a node's readers ask of it. Two by two: a convolution adds in its own pass.
  std::vector<int> gradient(nodes.size(), -1);
  const auto give = [&](int node, int g) {
    if (!depends[node]) return;
    int& sum = gradient[node];
    sum = sum < 0 ? g : graph.add({.op = Op::add, .inputs = {sum, g}});
  };
  give(to, v);
  for (int i = to; i > from; --i) {
    const Node& node = nodes[i];
    const int g = gradient[i];
    if (g < 0) continue;
    int in = node.inputs[0];
    switch (node.op) {
      case Op::conv:
        TESSERA_EXPECT(!node.depthwise, "the transpose of a depthwise conv (there is none) write it first");
        if (nodes[in].op == Op::concat) {
          const std::vector<int>& parts = nodes[in].inputs;
          TESSERA_EXPECT(std::none_of(parts.begin() + 1, parts.end(), [&](int k) { return depends[k]; }),
                         "the transpose of a concat (its first input alone is followed) write it first");
          in = parts[0];
        }
        if (!depends[in]) break;
        give(in, graph.add({.op = Op::conv,
                            .inputs = {g},
                            .channels = nodes[in].channels,
                            .kernel = node.kernel,
                            .weight = node.weight,
                            .adjoint = true}));
        break;
      case Op::conv_down:
      case Op::conv_up:
        if (!depends[in]) break;
        give(in, graph.add({.op = node.op == Op::conv_up ? Op::conv_down : Op::conv_up,
                            .inputs = {g},
                            .channels = nodes[in].channels,
                            .weight = node.weight}));
        break;
      case Op::elu:
        give(in, graph.add({.op = Op::elu_gradient, .inputs = {g, i}}));
        break;
      case Op::add:
        for (const int k : node.inputs) give(k, g);
        break;
      default:
        TESSERA_EXPECT(false, "the transpose of a ", word(node.op), " (there is none) write it first");
    }
  }
  return gradient[from];
}

}  // namespace tessera
