// SPDX-License-Identifier: BSD-3-Clause
#include <string>

#include "tessera/core/error.hpp"
#include "tessera/denoise/denoiser_table.hpp"

namespace tessera {
namespace {

/// A chain of 3x3 convolutions on groups of 2x2 pixels, beside a map of the noise level.
///
/// Pixels go into channels and back by 2x2 convolutions of zeros and ones ("unshuffle", "shuffle"), which
/// jobs/convert_weights.py writes: turned kernels stay right with them.
/// Source: Zhang, Zuo, Zhang, "FFDNet: toward a fast and flexible solution for CNN-based image denoising",
/// IEEE Trans. Image Process. 27 (2018) 4608.
Graph make_ffdnet(const NetworkOptions& options) {
  TESSERA_VALIDATE(options.widths.size() <= 1, "ffdnet with ", options.widths.size(),
                   " widths (all its layers have the same) give one");
  TESSERA_VALIDATE(options.depth >= 3, "ffdnet with depth ", options.depth,
                   " (it has a first, an inner and a last convolution) use at least 3");
  const std::int64_t width = options.widths.empty() ? 64 : options.widths[0];

  Graph g;
  const int image = g.add({.op = Op::input, .channels = options.channels});
  const int sigma = g.add({.op = Op::sigma_map});
  int x = g.add({.op = Op::concat, .inputs = {image, sigma}});
  x = g.add({.op = Op::conv_down,
             .inputs = {x},
             .channels = 4 * (options.channels + 1),
             .weight = "unshuffle.weight"});
  const auto conv = [&](std::int64_t channels, const std::string& name) {
    x = g.add({.op = Op::conv,
               .inputs = {x},
               .channels = channels,
               .kernel = 3,
               .weight = name + ".weight",
               .bias = name + ".bias"});
  };
  for (std::int64_t i = 0; i < options.depth - 1; ++i) {
    const std::string block = "blocks." + std::to_string(i);
    conv(width, block + ".0");
    if (i > 0 && options.batch_norm) x = g.add({.op = Op::batch_norm, .inputs = {x}, .weight = block + ".1"});
    x = g.add({.op = Op::relu, .inputs = {x}});
  }
  conv(4 * options.channels, "blocks." + std::to_string(options.depth - 1));
  g.add({.op = Op::conv_up, .inputs = {x}, .channels = options.channels, .weight = "shuffle.weight"});
  return g;
}

void infer_ffdnet(const WeightShapes& shapes, NetworkOptions& options) {
  const auto first = shapes.find("blocks.0.0.weight");
  if (first == shapes.end() || first->second.size() != 4) return;
  options.channels = first->second[1] / 4 - 1;
  options.widths = {first->second[0]};
  options.batch_norm = shapes.count("blocks.1.1.running_mean") > 0;
  options.depth = 2;
  while (shapes.count("blocks." + std::to_string(options.depth - 1) + ".0.weight")) ++options.depth;
}

}  // namespace

DenoiserRow ffdnet_row() {
  return {.name = "ffdnet",
          .options = {widths_option(), depth_option()},
          .graph = make_ffdnet,
          .infer = infer_ffdnet,
          .saved = {"depth", "batch_norm"},
          .published = {.depth = 15, .batch_norm = false}};
}

}  // namespace tessera
