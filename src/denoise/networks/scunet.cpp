// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "tessera/core/error.hpp"
#include "tessera/denoise/denoiser_table.hpp"

namespace tessera {
namespace {

constexpr int kWindow = 8;
constexpr std::int64_t kHead = 32;  // channels

std::int64_t head_of(const NetworkOptions& options) { return options.head > 0 ? options.head : kHead; }

/// x + its two halves through convolutions and through a transformer of windows, mixed before and behind.
///
/// Each half has its own convolutions for the mixing where the paper splits and joins the channels: the same
/// sums, without a copy. jobs/convert_weights.py cuts the weights accordingly.
int mixed_block(Graph& g, int x, const NetworkOptions& options, std::int64_t width, bool shifted,
                const std::string& name) {
  const std::int64_t half = width / 2;
  const auto conv = [&](int from, std::int64_t channels, int kernel, const std::string& weight, bool bias) {
    return g.add({.op = Op::conv,
                  .inputs = {from},
                  .channels = channels,
                  .kernel = kernel,
                  .weight = name + weight + ".weight",
                  .bias = bias ? name + weight + ".bias" : ""});
  };
  const auto norm = [&](int from, const char* weight) {
    return g.add({.op = Op::layer_norm, .inputs = {from}, .weight = name + weight});
  };
  const auto add = [&](int a, int b) { return g.add({.op = Op::add, .inputs = {a, b}}); };

  const int c = conv(x, half, 1, ".conv1_1.conv", true);
  const int inner = g.add({.op = Op::relu, .inputs = {conv(c, half, 3, ".conv_block.0", false)}});
  const int convolved = add(c, conv(inner, half, 3, ".conv_block.2", false));

  const std::string block = ".trans_block.", msa = block + "msa.";
  int t = conv(x, half, 1, ".conv1_1.trans", true);
  const int qkv = conv(norm(t, ".trans_block.ln1"), 3 * half, 1, msa + "embedding_layer", true);
  const int attended =
      g.add({.op = Op::window_attention,
             .inputs = {qkv},
             .weight = name + msa + "relative_position_params",
             .window = kWindow,
             .shift = shifted ? kWindow / 2 : 0,
             .heads = static_cast<int>(half <= head_of(options) ? 1 : half / head_of(options))});
  t = add(t, conv(attended, half, 1, msa + "linear", true));
  const int wide = conv(norm(t, ".trans_block.ln2"), 4 * half, 1, block + "mlp.0", true);
  t = add(t, conv(g.add({.op = Op::gelu, .inputs = {wide}}), half, 1, block + "mlp.2", true));

  const int sum = add(x, conv(convolved, width, 1, ".conv1_2.conv", false));
  return add(sum, conv(t, width, 1, ".conv1_2.trans", true));
}

/// A U-shaped network of such blocks, windows shifted by half in every second one; blind.
///
/// Source: Zhang et al., "Practical blind image denoising via Swin-Conv-UNet and data synthesis", Machine
/// Intelligence Research 20 (2023) 822.
Graph make_scunet(const NetworkOptions& options) {
  std::vector<std::int64_t> w = options.widths;
  if (w.empty()) w = {64, 128, 256, 512};
  TESSERA_VALIDATE(2 <= w.size() && w.size() <= 4, "scunet with ", w.size(),
                   " widths (one per scale, 2 to 4 scales) give for example [64, 128, 256, 512]");
  TESSERA_VALIDATE(options.blocks >= 1, "scunet with ", options.blocks,
                   " blocks per stage (at least one) use 2 or 4");
  for (const std::int64_t width : w)
    TESSERA_VALIDATE(width % 2 == 0 && (width / 2 <= head_of(options) || width / 2 % head_of(options) == 0),
                     "scunet with width ", width, " (half of it is divided among heads of ", head_of(options),
                     " channels) use a multiple of ", 2 * head_of(options));
  const std::size_t last = w.size() - 1;  // the deepest scale

  Graph g;
  const auto stage = [&](int x, std::size_t scale, const std::string& name, std::int64_t first) {
    for (std::int64_t b = 0; b < options.blocks; ++b)
      x = mixed_block(g, x, options, w[scale], b % 2 == 1, name + std::to_string(first + b));
    return x;
  };
  const int image = g.add({.op = Op::input, .channels = options.channels});
  int x =
      g.add({.op = Op::conv, .inputs = {image}, .channels = w[0], .kernel = 3, .weight = "m_head.0.weight"});
  std::vector<int> skips{x};
  for (std::size_t s = 0; s < last; ++s) {
    const std::string name = "m_down" + std::to_string(s + 1) + ".";
    x = g.add({.op = Op::conv_down,
               .inputs = {stage(x, s, name, 0)},
               .channels = w[s + 1],
               .weight = name + std::to_string(options.blocks) + ".weight"});
    skips.push_back(x);
  }
  x = stage(x, last, "m_body.", 0);
  for (std::size_t s = last; s-- > 0;) {
    const std::string name = "m_up" + std::to_string(s + 1) + ".";
    x = g.add({.op = Op::add, .inputs = {x, skips[s + 1]}});
    x = g.add({.op = Op::conv_up, .inputs = {x}, .channels = w[s], .weight = name + "0.weight"});
    x = stage(x, s, name, 1);
  }
  x = g.add({.op = Op::add, .inputs = {x, skips[0]}});
  g.add({.op = Op::conv,
         .inputs = {x},
         .channels = options.channels,
         .kernel = 3,
         .weight = "m_tail.0.weight"});
  return g;
}

void infer_scunet(const WeightShapes& shapes, NetworkOptions& options) {
  const auto head = shapes.find("m_head.0.weight");
  if (head == shapes.end() || head->second.size() != 4) return;
  options.channels = head->second[1];
  const auto block = [](std::int64_t b) { return "m_body." + std::to_string(b); };
  options.blocks = 0;
  while (shapes.count(block(options.blocks) + ".conv1_1.conv.weight")) ++options.blocks;
  options.widths = {head->second[0]};
  for (int scale = 1;; ++scale) {
    const auto down =
        shapes.find("m_down" + std::to_string(scale) + "." + std::to_string(options.blocks) + ".weight");
    if (down == shapes.end() || down->second.empty()) break;
    options.widths.push_back(down->second[0]);
  }
  const auto positions = shapes.find(block(0) + ".trans_block.msa.relative_position_params");
  if (positions == shapes.end() || positions->second.empty() || positions->second[0] < 1) return;
  options.head = std::max<std::int64_t>(1, options.widths.back() / 2 / positions->second[0]);
}

}  // namespace

DenoiserRow scunet_row() {
  return {.name = "scunet",
          .takes_sigma = false,
          .options = {widths_option(), blocks_option()},
          .graph = make_scunet,
          .infer = infer_scunet,
          .saved = {"blocks"}};
}

}  // namespace tessera
