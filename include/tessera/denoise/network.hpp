// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tessera/denoise/graph.hpp"

namespace tessera {

/// Widths and depths; the defaults are those of the published networks.
struct NetworkOptions {
  std::string name = "drunet";         // of a row of denoiser_table()
  std::int64_t channels = 3;           // of the image
  std::vector<std::int64_t> widths{};  // per scale; empty: 64, 128, 256, 512, or 64 where all are equal
  std::int64_t blocks = 4;             // residual blocks per stage
  std::int64_t depth = 20;             // convolutions
  std::int64_t head = 0;               // channels of an attention head at most; 0: as published
  std::vector<std::int64_t> stages{};  // restormer: blocks of each scale and of the end; empty: `blocks`
  double expansion = 2.66;             // restormer: channels between the two ends of a feed-forward part
  bool norm_bias = false;              // restormer: norms with mean and bias
  std::string layers{};                // traced: its list, as the weights file has it
  bool batch_norm = true;
  bool residual = true;  // output + input
  /// Behind the channels of D(x) those of r, where D(x) = x - grad g(x) with g(x) = |r|^2 / 2.
  bool potential = false;
};

/// Layer graph + weights (float32, on the CPU, as in the state dict).
struct Network {
  NetworkOptions options;
  Graph graph;
  std::map<std::string, at::Tensor> weights;
  std::optional<std::pair<double, double>> sigma_range;  // trained noise levels, range [0, 1]
  bool takes_sigma() const;

  std::int64_t channels() const { return options.channels; }
  Index3 alignment() const { return graph.alignment(); }
  Index3 halo() const { return graph.halo(); }
};

/// Name -> graph. InputError for an unknown name or an impossible option.
Graph make_graph(const NetworkOptions& options);
std::vector<std::string> network_names();

/// Every name and shape that the graph wants, once each, in state-dict order.
std::vector<std::pair<std::string, std::vector<std::int64_t>>> weight_shapes(const Graph& graph);

/// The file that `weights` names: a path (it has a / or ends in .safetensors), or a shipped name, looked for
/// in $TESSERA_WEIGHTS, share/tessera/weights beside the program, and data/weights of the source tree.
/// InputError with the places and names that exist.
std::string find_weights(const std::string& weights);

/// Reads weights from safetensors (find_weights). Options (network, channels, widths, blocks, depth,
/// batch_norm, residual, sigma_range) come from the file's metadata where it has them, else they are inferred
/// from the shapes. F64, F16 and BF16 become float32. InputError with the lists of missing, extra and
/// misshapen tensors, and for weights that cannot take an image of `image_channels` (a color network takes
/// gray images; 0: any).
Network load_network(const std::string& name, const std::string& weights, std::int64_t image_channels);
/// Seeded random weights (Kaiming normal), for tests and benchmarks.
Network random_network(const NetworkOptions& options, std::uint64_t seed);
/// Writes the weights with their options, sigma_range and `metadata`; whole or absent.
void save_network(const Network& network, const std::string& path,
                  const std::map<std::string, std::string>& metadata);

/// The same network with its potential beside the image.
Network with_potential(Network network);

/// Batch norms folded into the convolution before them; the graph without them.
Network fold_batch_norm(const Network& network);

/// Plain evaluation with at:: operators, any device, differentiable; the definition that the fast runner is
/// tested against and that training uses. x (N, C, [D,] H, W) with sides multiples of the alignment; sigma: one
/// value per item (N).
at::Tensor evaluate(const Graph& graph, const std::map<std::string, at::Tensor>& weights, const at::Tensor& x,
                    const at::Tensor& sigma);

}  // namespace tessera
