// SPDX-License-Identifier: BSD-3-Clause
#include <ATen/core/Tensor.h>

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "tessera/core/error.hpp"
#include "tessera/denoise/layer.hpp"
#include "tessera/denoise/network.hpp"

namespace tessera {

at::Tensor evaluate(const Graph& graph, const std::map<std::string, at::Tensor>& weights, const at::Tensor& x,
                    const at::Tensor& sigma) {
  const std::vector<Node>& nodes = graph.nodes();
  const std::size_t axes = 3 - first_axis(graph.axes());
  const Index3 unit = graph.alignment();
  TESSERA_EXPECT(x.dim() == static_cast<std::int64_t>(2 + axes), "evaluate() on sizes ", x.sizes(),
                 " (this network takes items, channels and ", axes, " axes of an image) give it those");
  for (std::size_t axis = 3 - axes; axis < 3; ++axis)
    TESSERA_EXPECT(x.size(static_cast<std::int64_t>(axis) - 3) % unit[axis] == 0, "evaluate() on sizes ",
                   x.sizes(), " (sides must be multiples of ", unit[axis], ") pad the image first");
  std::vector<std::size_t> last_reader(nodes.size(), 0);  // features are released behind their last reader
  for (std::size_t i = 0; i < nodes.size(); ++i)
    for (const int from : nodes[i].inputs) last_reader[static_cast<std::size_t>(from)] = i;

  // Weights follow the image's type and device; with gradients they do so inside the graph of derivatives,
  // which is what lets training keep float32 weights and compute in bfloat16.
  const Evaluation evaluation{x, sigma,
                              [&](const std::string& name) { return weights.at(name).to(x.options()); }};
  std::vector<at::Tensor> value(nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    std::vector<at::Tensor> in;
    for (const int from : nodes[i].inputs) in.push_back(value[static_cast<std::size_t>(from)]);
    value[i] = layer_of(nodes[i].op).evaluate(nodes[i], in, evaluation);
    for (const int from : nodes[i].inputs)
      if (last_reader[static_cast<std::size_t>(from)] == i) value[static_cast<std::size_t>(from)].reset();
  }
  return value.back();
}

}  // namespace tessera
