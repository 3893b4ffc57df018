// SPDX-License-Identifier: BSD-3-Clause
#include <string>

#include "tessera/core/error.hpp"
#include "tessera/denoise/denoiser_table.hpp"

namespace tessera {
namespace {

/// A chain of convolutions, 3 x 3, of volumes 3 x 3 x 3; blind.
/// Source: Zhang, Zuo, Chen, Meng, Zhang, "Beyond a Gaussian denoiser", IEEE Trans. Image Process. 26 (2017)
/// 3142.
template <Axes axes>
Graph make_dncnn(const NetworkOptions& options) {
  TESSERA_VALIDATE(options.widths.size() <= 1, options.name, " with ", options.widths.size(),
                   " widths (all its layers have the same) give one");
  TESSERA_VALIDATE(options.depth >= 2, options.name, " with depth ", options.depth,
                   " (it has a first and a last convolution) use at least 2");
  const std::int64_t width = options.widths.empty() ? 64 : options.widths[0];

  Graph g;
  const int image = g.add({.op = Op::input, .channels = options.channels, .axes = axes});
  const auto conv = [&](int from, std::int64_t channels, const std::string& name) {
    return g.add({.op = Op::conv,
                  .inputs = {from},
                  .channels = channels,
                  .kernel = 3,
                  .weight = name + ".weight",
                  .bias = name + ".bias"});
  };
  int x = g.add({.op = Op::relu, .inputs = {conv(image, width, "in_conv")}});
  for (std::int64_t i = 0; i < options.depth - 2; ++i)
    x = g.add({.op = Op::relu, .inputs = {conv(x, width, "conv_list." + std::to_string(i))}});
  x = conv(x, options.channels, "out_conv");
  if (options.residual) g.add({.op = Op::add, .inputs = {x, image}});
  return g;
}

void infer_dncnn(const WeightShapes& shapes, NetworkOptions& options) {
  const auto first = shapes.find("in_conv.weight");
  if (first == shapes.end() || first->second.size() < 4) return;
  options.channels = first->second[1];
  options.residual =
      true;  // deepinv's, whose names these are, adds the image; other files say what theirs does
  options.widths = {first->second[0]};
  options.depth = 2;
  while (shapes.count("conv_list." + std::to_string(options.depth - 2) + ".weight")) ++options.depth;
}

}  // namespace

DenoiserRow dncnn_row() {
  return {.name = "dncnn",
          .takes_sigma = false,
          .options = {widths_option(), depth_option()},
          .graph = make_dncnn<Axes::picture>,
          .infer = infer_dncnn,
          .saved = {"depth", "residual"}};
}

DenoiserRow dncnn3d_row() {
  return {.name = "dncnn3d",
          .takes_sigma = false,
          .options = {widths_option(), depth_option()},
          .graph = make_dncnn<Axes::volume>,
          .infer = infer_dncnn,
          .saved = {"depth", "residual"}};
}

}  // namespace tessera
