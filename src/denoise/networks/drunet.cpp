// SPDX-License-Identifier: BSD-3-Clause
#include "networks/drunet.hpp"

#include <string>
#include <vector>

#include "tessera/core/error.hpp"
#include "tessera/denoise/denoiser_table.hpp"

namespace tessera {
namespace {

/// x + conv(activation(conv(x))); `name` is the block's prefix.
int residual_block(Graph& g, int x, std::int64_t width, const std::string& name, Op activation) {
  const auto conv = [&](int from, const char* weight) {
    return g.add({.op = Op::conv, .inputs = {from}, .channels = width, .kernel = 3, .weight = name + weight});
  };
  const int inner = conv(x, ".res.0.weight");
  const int active = g.add({.op = activation, .inputs = {inner}});
  return g.add({.op = Op::add, .inputs = {x, conv(active, ".res.2.weight")}});
}

template <Axes axes>
Graph make_drunet(const NetworkOptions& options) {
  Graph g;
  add_drunet(g, options, Op::relu, axes);
  return g;
}

}  // namespace

DrunetEnds add_drunet(Graph& g, const NetworkOptions& options, Op activation, Axes axes) {
  std::vector<std::int64_t> w = options.widths;
  if (w.empty()) w = {64, 128, 256, 512};
  TESSERA_VALIDATE(2 <= w.size() && w.size() <= 6, options.name, " with ", w.size(),
                   " widths (one per scale, 2 to 6 scales) give for example [64, 128, 256, 512]");
  TESSERA_VALIDATE(options.blocks >= 1, options.name, " with ", options.blocks,
                   " blocks per stage (at least one) use 2 or 4");
  const std::size_t last = w.size() - 1;  // the deepest scale

  const int image = g.add({.op = Op::input, .channels = options.channels, .axes = axes});
  const int sigma = g.add({.op = Op::sigma_map});
  const int in = g.add({.op = Op::concat, .inputs = {image, sigma}});
  int x = g.add({.op = Op::conv, .inputs = {in}, .channels = w[0], .kernel = 3, .weight = "m_head.weight"});
  std::vector<int> skips{x};
  for (std::size_t s = 0; s < last; ++s) {
    const std::string stage = "m_down" + std::to_string(s + 1) + ".";
    for (std::int64_t b = 0; b < options.blocks; ++b)
      x = residual_block(g, x, w[s], stage + std::to_string(b), activation);
    x = g.add({.op = Op::conv_down,
               .inputs = {x},
               .channels = w[s + 1],
               .weight = stage + std::to_string(options.blocks) + ".weight"});
    skips.push_back(x);
  }
  for (std::int64_t b = 0; b < options.blocks; ++b)
    x = residual_block(g, x, w[last], "m_body." + std::to_string(b), activation);
  for (std::size_t s = last; s-- > 0;) {
    const std::string stage = "m_up" + std::to_string(s + 1) + ".";
    x = g.add({.op = Op::add, .inputs = {x, skips[s + 1]}});
    x = g.add({.op = Op::conv_up, .inputs = {x}, .channels = w[s], .weight = stage + "0.weight"});
    for (std::int64_t b = 0; b < options.blocks; ++b)
      x = residual_block(g, x, w[s], stage + std::to_string(b + 1), activation);
  }
  x = g.add({.op = Op::add, .inputs = {x, skips[0]}});
  x = g.add(
      {.op = Op::conv, .inputs = {x}, .channels = options.channels, .kernel = 3, .weight = "m_tail.weight"});
  return {image, x};
}

void infer_drunet(const WeightShapes& shapes, NetworkOptions& options) {
  const auto head = shapes.find("m_head.weight");
  if (head == shapes.end() || head->second.size() < 4) return;
  options.channels = head->second[1] - 1;
  TESSERA_VALIDATE(
      shapes.count("m_body.res.0.weight") == 0, "the block of its body has no number (", options.name,
      " of one block per scale, as DPIR and deepinv save it) convert the file with jobs/convert_weights.py");
  std::int64_t blocks = 0;
  while (shapes.count("m_body." + std::to_string(blocks) + ".res.0.weight")) ++blocks;
  options.blocks = blocks;
  options.widths = {head->second[0]};
  for (int scale = 1;; ++scale) {
    const auto down =
        shapes.find("m_down" + std::to_string(scale) + "." + std::to_string(blocks) + ".weight");
    if (down == shapes.end() || down->second.empty()) break;
    options.widths.push_back(down->second[0]);
  }
}

DenoiserRow drunet_row() {
  return {.name = "drunet",
          .options = {widths_option(), blocks_option()},
          .graph = make_drunet<Axes::picture>,
          .infer = infer_drunet,
          .saved = {"blocks"},
          .shipped = [](std::int64_t channels) {
            return std::string(channels == 1 ? "drunet_small_gray" : "drunet_small_color");
          }};
}

DenoiserRow drunet3d_row() {
  return {.name = "drunet3d",
          .options = {widths_option(), blocks_option()},
          .graph = make_drunet<Axes::volume>,
          .infer = infer_drunet,
          .saved = {"blocks"},
          .shipped = [](std::int64_t) { return std::string("drunet3d_small"); }};
}

}  // namespace tessera
