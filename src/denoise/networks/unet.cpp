// SPDX-License-Identifier: BSD-3-Clause
#include <string>
#include <vector>

#include "tessera/core/error.hpp"
#include "tessera/denoise/denoiser_table.hpp"

namespace tessera {
namespace {

/// Convolution, batch norm (if any), ReLU; `index` is the place of the convolution in its sequence, and moves
/// on to the place behind the ReLU.
int layer(Graph& g, int x, std::int64_t width, const std::string& sequence, int& index, bool norm) {
  const std::string name = sequence + "." + std::to_string(index++);
  x = g.add({.op = Op::conv,
             .inputs = {x},
             .channels = width,
             .kernel = 3,
             .weight = name + ".weight",
             .bias = name + ".bias"});
  if (norm)
    x = g.add({.op = Op::batch_norm, .inputs = {x}, .weight = sequence + "." + std::to_string(index++)});
  ++index;
  return g.add({.op = Op::relu, .inputs = {x}});
}

int block(Graph& g, int x, std::int64_t width, const std::string& sequence, bool norm) {
  int index = 0;
  x = layer(g, x, width, sequence, index, norm);
  return layer(g, x, width, sequence, index, norm);
}

/// 2 to 5 scales, max pooling, nearest upsampling, concatenated skips; blind.
/// Source: Ronneberger, Fischer, Brox, "U-Net", MICCAI 2015; Jin, McCann, Froustey, Unser, IEEE Trans. Image
/// Process. 26 (2017) 4509.
Graph make_unet(const NetworkOptions& options) {
  std::vector<std::int64_t> w = options.widths;
  if (w.empty()) w = {64, 128, 256, 512};
  TESSERA_VALIDATE(2 <= w.size() && w.size() <= 5, "unet with ", w.size(),
                   " widths (one per scale, 2 to 5 scales) give for example [64, 128, 256, 512]");
  const bool norm = options.batch_norm;

  Graph g;
  const int image = g.add({.op = Op::input, .channels = options.channels});
  int x = image;
  std::vector<int> skips;
  for (std::size_t s = 0; s < w.size(); ++s) {
    if (s > 0) x = g.add({.op = Op::max_pool, .inputs = {x}});
    x = block(g, x, w[s], "Conv" + std::to_string(s + 1), norm);
    skips.push_back(x);
  }
  for (std::size_t s = w.size() - 1; s-- > 0;) {
    const std::string scale = std::to_string(s + 2);
    x = g.add({.op = Op::upsample, .inputs = {x}});
    int index = 1;  // place 0 of the sequence is the upsampling
    x = layer(g, x, w[s], "Up" + scale, index, norm);
    x = g.add({.op = Op::concat, .inputs = {skips[s], x}});
    x = block(g, x, w[s], "Up_conv" + scale, norm);
  }
  x = g.add({.op = Op::conv,
             .inputs = {x},
             .channels = options.channels,
             .kernel = 1,
             .weight = "Conv_1x1.weight",
             .bias = "Conv_1x1.bias"});
  if (options.residual) g.add({.op = Op::add, .inputs = {x, image}});
  return g;
}

void infer_unet(const WeightShapes& shapes, NetworkOptions& options) {
  const auto first = shapes.find("Conv1.0.weight");
  if (first == shapes.end() || first->second.size() != 4) return;
  options.channels = first->second[1];
  options.batch_norm = shapes.count("Conv1.1.running_mean") > 0;
  options.widths.clear();
  for (int scale = 1;; ++scale) {
    const auto conv = shapes.find("Conv" + std::to_string(scale) + ".0.weight");
    if (conv == shapes.end() || conv->second.empty()) break;
    options.widths.push_back(conv->second[0]);
  }
}

}  // namespace

DenoiserRow unet_row() {
  return {.name = "unet",
          .takes_sigma = false,
          .options = {widths_option()},
          .graph = make_unet,
          .infer = infer_unet,
          .saved = {"batch_norm", "residual"}};
}

}  // namespace tessera
