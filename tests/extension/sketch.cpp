// SPDX-License-Identifier: BSD-3-Clause
#include <string>

#include "tessera/core/error.hpp"
#include "tessera/denoise/denoiser_table.hpp"

namespace tessera {
namespace {

/// Two convolutions around a ReLU, beside the image and its noise level; the image is added again.
Graph make_sketch(const NetworkOptions& options) {
  TESSERA_VALIDATE(options.widths.size() <= 1, "sketch with ", options.widths.size(),
                   " widths (it has one hidden layer) give one");
  const std::int64_t width = options.widths.empty() ? 8 : options.widths[0];

  Graph g;
  const int image = g.add({.op = Op::input, .channels = options.channels});
  const int level = g.add({.op = Op::sigma_map});
  int x = g.add({.op = Op::concat, .inputs = {image, level}});
  x = g.add({.op = Op::conv,
             .inputs = {x},
             .channels = width,
             .kernel = 3,
             .weight = "first.weight",
             .bias = "first.bias"});
  x = g.add({.op = Op::relu, .inputs = {x}});
  x = g.add({.op = Op::conv,
             .inputs = {x},
             .channels = options.channels,
             .kernel = 3,
             .weight = "last.weight",
             .bias = "last.bias"});
  g.add({.op = Op::add, .inputs = {x, image}});
  return g;
}

void infer_sketch(const WeightShapes& shapes, NetworkOptions& options) {
  const auto first = shapes.find("first.weight");
  if (first == shapes.end() || first->second.size() != 4) return;
  options.channels = first->second[1] - 1;  // beside the noise level
  options.widths = {first->second[0]};
}

}  // namespace

DenoiserRow sketch() {
  return {.name = "sketch", .options = {widths_option()}, .graph = make_sketch, .infer = infer_sketch};
}

}  // namespace tessera
