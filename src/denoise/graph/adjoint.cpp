// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <cstddef>
#include <vector>

#include "tessera/core/error.hpp"
#include "tessera/denoise/graph.hpp"
#include "tessera/denoise/layer.hpp"

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
  for (int i = to; i > from; --i)
    if (gradient[i] >= 0)
      layer_of(nodes[i].op)
          .transpose({graph, nodes, i, gradient[i], [&](int k) { return depends[k]; }, give});
  return gradient[from];
}

}  // namespace tessera
