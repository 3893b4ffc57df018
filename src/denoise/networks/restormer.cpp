// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "tessera/core/error.hpp"
#include "tessera/denoise/denoiser_table.hpp"

namespace tessera {
namespace {

constexpr std::size_t kScales = 4;
constexpr double kMostExpanded = 8;  // of an expansion

/// Appends layers to a chain.
class Chain {
 public:
  Chain(Graph& graph, int begin) : graph_(graph), end_(begin) {}
  operator int() const { return end_; }  // NOLINT: the last layer stands for the chain

  void conv(std::int64_t channels, int kernel, const std::string& weight) {
    end_ = graph_.add(
        {.op = Op::conv, .inputs = {end_}, .channels = channels, .kernel = kernel, .weight = weight});
  }
  void depthwise(const std::string& weight) {
    end_ = graph_.add({.op = Op::conv,
                       .inputs = {end_},
                       .channels = graph_.output().channels,
                       .kernel = 3,
                       .weight = weight,
                       .depthwise = true});
  }
  void level(Op op, std::int64_t channels, const std::string& weight) {
    end_ = graph_.add({.op = op, .inputs = {end_}, .channels = channels, .weight = weight});
  }
  void norm(bool bias, const std::string& name) {
    end_ = graph_.add({.op = bias ? Op::layer_norm : Op::scale_norm, .inputs = {end_}, .weight = name});
  }
  void gate() { end_ = graph_.add({.op = Op::gelu_gate, .inputs = {end_}}); }
  void attention(int heads, const std::string& weight) {
    end_ = graph_.add({.op = Op::channel_attention, .inputs = {end_}, .weight = weight, .heads = heads});
  }
  void add(int other) { end_ = graph_.add({.op = Op::add, .inputs = {other, end_}}); }
  void join(int other) { end_ = graph_.add({.op = Op::concat, .inputs = {end_, other}}); }

 private:
  Graph& graph_;
  int end_;
};

/// x + attention(norm(x)), then x + feed-forward(norm(x)).
void block(Chain& x, const NetworkOptions& options, std::int64_t width, int heads, const std::string& name) {
  int begin = x;
  x.norm(options.norm_bias, name + ".norm1.body");
  x.conv(3 * width, 1, name + ".attn.qkv.weight");
  x.depthwise(name + ".attn.qkv_dwconv.weight");
  x.attention(heads, name + ".attn.temperature");
  x.conv(width, 1, name + ".attn.project_out.weight");
  x.add(begin);

  begin = x;
  const auto inner = static_cast<std::int64_t>(static_cast<double>(width) * options.expansion);
  x.norm(options.norm_bias, name + ".norm2.body");
  x.conv(2 * inner, 1, name + ".ffn.project_in.weight");
  x.depthwise(name + ".ffn.dwconv.weight");
  x.gate();
  x.conv(width, 1, name + ".ffn.project_out.weight");
  x.add(begin);
}

/// Four scales of such blocks; blind. The last scale keeps the channels of both ends of its skip.
///
/// Pixels go into channels and back by 2x2 convolutions of zeros and ones (body.1), which
/// jobs/convert_weights.py writes.
/// Source: Zamir et al., "Restormer: efficient transformer for high-resolution image restoration", CVPR 2022.
Graph make_restormer(const NetworkOptions& options) {
  std::vector<std::int64_t> w = options.widths, stages = options.stages;
  if (w.empty()) w = {48, 96, 192, 384};
  if (stages.empty()) stages.assign(kScales + 1, options.blocks);
  TESSERA_VALIDATE(
      w.size() == kScales && w[0] % 2 == 0 && w[1] == 2 * w[0] && w[2] == 4 * w[0] && w[3] == 8 * w[0],
      "restormer with ", w.size(), " widths from ", w[0],
      " (four scales, each twice as wide as the one before) give for example [48, 96, 192, 384]");
  TESSERA_VALIDATE(stages.size() == kScales + 1, "restormer with ", stages.size(),
                   " numbers of blocks (four scales and the end) give 5");
  for (const std::int64_t blocks : stages)
    TESSERA_VALIDATE(blocks >= 1, "restormer with ", blocks, " blocks (at least one) use 1 or more");
  TESSERA_VALIDATE(1.0 / static_cast<double>(w[0]) <= options.expansion && options.expansion <= kMostExpanded,
                   "restormer with an expansion of ", options.expansion,
                   " (a feed-forward part has a channel at least, and at most 8 times its width) use 2.66");
  const std::int64_t head = options.head > 0 ? options.head : w[0];
  for (const std::int64_t width : w)
    TESSERA_VALIDATE(width <= head || width % head == 0, "restormer with width ", width,
                     " (it is divided among heads of ", head, " channels) use a multiple");
  const auto heads = [&](std::size_t scale) {
    return static_cast<int>(w[scale] <= head ? 1 : w[scale] / head);
  };

  Graph g;
  const int image = g.add({.op = Op::input, .channels = options.channels});
  Chain x(g, image);
  const auto stage = [&](std::size_t scale, std::size_t blocks, std::int64_t width, const std::string& name) {
    for (std::int64_t b = 0; b < stages[blocks]; ++b)
      block(x, options, width, heads(scale), name + "." + std::to_string(b));
  };
  const auto number = [](std::size_t scale) { return std::to_string(scale + 1); };

  x.conv(w[0], 3, "patch_embed.proj.weight");
  std::array<int, kScales - 1> skips{};
  for (std::size_t s = 0; s + 1 < kScales; ++s) {
    stage(s, s, w[s], "encoder_level" + number(s));
    skips[s] = x;
    const std::string down = "down" + number(s) + "_" + number(s + 1) + ".body.";
    x.conv(w[s] / 2, 3, down + "0.weight");
    x.level(Op::conv_down, 2 * w[s], down + "1.weight");
  }
  stage(kScales - 1, kScales - 1, w[kScales - 1], "latent");
  for (std::size_t s = kScales - 1; s-- > 0;) {
    const std::string up = "up" + number(s + 1) + "_" + number(s) + ".body.";
    x.conv(2 * w[s + 1], 3, up + "0.weight");
    x.level(Op::conv_up, w[s], up + "1.weight");
    x.join(skips[s]);
    if (s > 0) x.conv(w[s], 1, "reduce_chan_level" + number(s) + ".weight");
    stage(s, s, s > 0 ? w[s] : 2 * w[0], "decoder_level" + number(s));
  }
  stage(0, kScales, 2 * w[0], "refinement");
  x.conv(options.channels, 3, "output.weight");
  x.add(image);
  return g;
}

void infer_restormer(const WeightShapes& shapes, NetworkOptions& options) {
  const auto first = shapes.find("patch_embed.proj.weight");
  if (first == shapes.end() || first->second.size() != 4) return;
  options.channels = first->second[1];
  options.widths.clear();
  options.stages.clear();
  const std::array<const char*, kScales + 1> names = {"encoder_level1", "encoder_level2", "encoder_level3",
                                                      "latent", "refinement"};
  const auto shape = [&](const std::string& name) {
    const auto found = shapes.find(name);
    return found == shapes.end() ? std::vector<std::int64_t>{} : found->second;
  };
  for (std::size_t s = 0; s < names.size(); ++s) {
    std::int64_t blocks = 0;
    while (shapes.count(std::string(names[s]) + "." + std::to_string(blocks) + ".attn.temperature")) ++blocks;
    options.stages.push_back(blocks);
    if (s < kScales) options.widths.push_back(first->second[0] << s);
  }
  options.norm_bias = shapes.count("latent.0.norm1.body.bias") > 0;
  // The deepest scale tells both best: the factor that its channels were rounded down from, and the heads.
  const std::int64_t widest = options.widths.back();
  const auto inner = shape("latent.0.ffn.project_out.weight"), heads = shape("latent.0.attn.temperature");
  if (inner.size() == 4 && widest > 0)
    options.expansion = (static_cast<double>(inner[1]) + 0.5) / static_cast<double>(widest);
  if (heads.size() == 3 && heads[0] > 0) options.head = std::max<std::int64_t>(1, widest / heads[0]);
}

}  // namespace

DenoiserRow restormer_row() {
  return {.name = "restormer",
          .takes_sigma = false,
          .options = {widths_option(), blocks_option()},
          .graph = make_restormer,
          .infer = infer_restormer,
          .published = {.stages = {4, 6, 6, 8, 4}}};
}

}  // namespace tessera
