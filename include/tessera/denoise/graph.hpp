// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tessera/core/box.hpp"
#include "tessera/core/image_space.hpp"

namespace tessera {

/// Kinds of layers that networks are made of: rows of the table of layers (layer.hpp, src/denoise/layers), which
/// say the rest. All on zero-padded images, (N, C, [D,] H, W). Those that a program adds come behind these.
enum class Op {
  input,
  sigma_map,
  conv,
  conv_down,
  conv_up,
  batch_norm,
  relu,
  elu,
  elu_gradient,
  add,
  subtract,
  concat,
  max_pool,
  upsample,
  layer_norm,
  scale_norm,
  gelu,
  gelu_gate,
  window_attention,
  channel_attention,
};
/// Its word in files.
const char* word(Op op);
bool is_convolution(Op op);
/// Levels between a layer's input and its output: 1 down, -1 up, else 0.
int level_change(Op op);

/// Pixels [lo, hi) along one axis, of one level; empty: lo >= hi.
struct Interval {
  std::int64_t lo = 0, hi = 0;
  bool empty() const { return lo >= hi; }
  std::int64_t extent() const { return empty() ? 0 : hi - lo; }
  Interval hull(const Interval& other) const;
  Interval intersect(const Interval& other) const;
  bool operator==(const Interval&) const = default;
};

/// One layer; inputs are indices of earlier nodes.
struct Node {
  Op op = Op::input;
  std::vector<int> inputs{};
  std::int64_t channels = 0;     // of the output
  int level = 0;                 // sides of the image along its axes are divided by 2^level here
  int kernel = 1;                // conv only: its width along each axis of the image
  std::string weight{}, bias{};  // state-dict names; empty: none. Norms: `weight` is the prefix
  int window = 1;  // window_attention: side of a window; they begin `shift` pixels before the image
  int shift = 0;   // 0 or half a window
  int heads = 1;
  bool depthwise = false;  // conv: each channel by itself; weight (channels, 1, k, k)
  /// conv: the transpose of the convolution with this weight (in, out, k, k), on the first `channels` of what
  /// that one reads. Those of conv_down and conv_up are each other, with the same weight.
  bool adjoint = false;
  Axes axes = Axes::picture;  // of the image: read for input, the others have those of what they read

  /// Channels that one output channel of a convolution reads, of an input of `channels`.
  std::int64_t reads(std::int64_t channels) const { return depthwise ? 1 : channels; }
  /// Pixels of its inputs that the pixels `out` of its output depend on, image's end or not.
  Box reads(const Box& out) const;
};

/// The first axis that blocks have: 1 of a picture, whose depth is 1 throughout.
inline std::size_t first_axis(Axes axes) { return axes == Axes::volume ? 0 : 1; }
/// A box of the image in the pixels of a level, of which all axes of the image are halved at each.
Box at_level(const Box& box, int level, Axes axes = Axes::picture);
/// The largest of three.
inline std::int64_t longest(const Index3& sides) { return std::max({sides[0], sides[1], sides[2]}); }

/// A network as a list of layers in order of evaluation; the last node is the output. No tensors in it.
///
/// What every executor runs: one definition of a network, whoever computes it.
class Graph {
 public:
  /// Appends a layer and returns its index. Channels and level are filled in where they follow from the
  /// inputs: `channels` is read for input, conv, conv_down and conv_up only, `axes` for input. ContractError for inputs that do
  /// not fit together (channels or level of an add, a level below the image).
  int add(Node node);
  /// Fills in what add() does and says what it would refuse; empty: nothing. For lists that come from files.
  std::string complete(Node& node) const;
  const std::vector<Node>& nodes() const { return nodes_; }
  const Node& output() const { return nodes_.back(); }

  /// Axes of the image.
  Axes axes() const { return nodes_.empty() ? Axes::picture : nodes_.front().axes; }
  /// Image sides must be multiples of this, per axis (depth, rows, columns): 2^deepest level, or times a window's
  /// side; 1 along the depth of pictures.
  Index3 alignment() const;
  /// Whether a pixel depends on all pixels: then a window is the whole image, and mode layer sums over ranks.
  bool global() const;
  /// Pixels needed around an alignment-aligned core per axis, on either side, not rounded: exact for layers
  /// without zero taps, by walking the graph backward with boxes (DRUNet 185, UNet 54, DnCNN 20, SCUNet 305
  /// along rows and columns). More than any image has where global().
  Index3 reach() const;
  /// reach() rounded up to the alignment (DRUNet 192, UNet 56, DnCNN 20).
  Index3 halo() const;
  /// Multiply-adds of the convolutions per pixel of the image.
  double macs_per_pixel() const;

 private:
  std::vector<Node> nodes_;
};

/// Appends J^T v, where J is the derivative of node `to` by node `from`, and returns its index: each layer's
/// transpose, from behind. A convolution of a concat passes on what belongs to its first input. ContractError
/// for layers that have no transpose here (all but convolutions, elu and add), and where nothing depends on
/// `from`.
int append_adjoint(Graph& graph, int from, int to, int v);

}  // namespace tessera
