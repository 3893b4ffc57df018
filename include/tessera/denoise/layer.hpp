// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/denoise/graph.hpp"

namespace tessera {

class LayerStep;
struct StepSettings;

/// Which kernels run the convolutions: plain at:: operators, oneDNN with packed weights, cuDNN's own graphs.
enum class ConvolutionLibrary { plain, onednn, cudnn };

/// How the rim of a layer's result, which reads remote pixels, is cut off and computed in mode layer.
struct RimForm {
  std::int64_t tile = 1;  // in multiples of so many pixels
  bool turned = false;    // columns with rows and columns exchanged
};

/// What evaluate() has beside a layer's inputs.
struct Evaluation {
  const at::Tensor& image;                               // (N, C, [D,] H, W)
  const at::Tensor& sigma;                               // one value per item (N)
  std::function<at::Tensor(const std::string&)> weight;  // by name, in the image's type, on its device
};

/// One layer on the way back through a derivative, see append_adjoint().
struct Transposing {
  Graph& graph;                                      // grows
  const std::vector<Node>& nodes;                    // as they were
  int node, gradient;                                // the layer, and what its readers ask of it
  std::function<bool(int)> depends;                  // whether a node depends on what the derivative is by
  std::function<void(int node, int gradient)> give;  // adds to what is asked of an input
};

/// Sizes of one step of a pass, for its memory.
struct StepSizes {
  std::int64_t items = 1, inputs = 0;  // channels of the first input
  std::int64_t samples = 0;            // of the result: channels x pixels x items
  Index3 block{};                      // pixels of its level, without margins
  Axes axes = Axes::picture;
  at::ScalarType type = at::kFloat;
  ConvolutionLibrary library = ConvolutionLibrary::plain;
  std::int64_t element() const { return static_cast<std::int64_t>(c10::elementSize(type)); }
  bool on_device() const { return library == ConvolutionLibrary::cudnn; }
  /// Pixels of a level that lies so many levels below this one (negative: above).
  std::int64_t pixels(int below = 0) const;
};

/// What a step costs, per output pixel.
struct StepWork {
  std::int64_t in = 0;    // channels read
  double passed = 0;      // values read + written by a step that is no convolution; 0: it is one
  std::int64_t tile = 1;  // side of the tiles of its output, which are computed whole
  double packed = 0;      // bytes of its weights as a float32 convolution on a CPU wants them
};

/// A kind of layer: all that is asked of it, in one place; a row of the table of layers.
///
/// A layer is its name and evaluate(); what it reads where it reads more than its own pixel; its weights where
/// it has some. All else has a form that is right for it: the fast form is then evaluate(), on whole features,
/// and in mode layer on blocks with their neighbors' pixels around them. `in`: the nodes that it reads. Pure
/// but for prepare(); not collective.
class Layer {
 public:
  using Inputs = std::vector<const Node*>;
  using NamedShape = std::pair<std::string, std::vector<std::int64_t>>;
  virtual ~Layer() = default;
  /// Its word in files.
  virtual const char* name() const = 0;

  // In a list of layers.
  static constexpr std::size_t kMany = 1 << 20;
  virtual std::size_t least_inputs() const { return 1; }
  virtual std::size_t most_inputs() const { return 1; }
  /// Sets the channels where they follow from the inputs; says what is wrong with the node, or nothing.
  virtual std::string complete(Node& node, const Inputs& in) const;
  /// Levels between its input and its output: 1 down, -1 up, else 0.
  virtual int level_change() const { return 0; }
  /// Pixels along an axis of the image (0: depth, 1: rows, 2: columns) that the pixels `out` of the result depend on, image's end or
  /// not.
  virtual Interval reads(const Node&, const Interval& out, std::size_t axis) const { return out; }
  /// Sides of its features along the axes of the image are multiples of this, in pixels of its level.
  virtual std::int64_t unit(const Node&) const { return 1; }
  /// Names and shapes of its weights, in state-dict order.
  virtual std::vector<NamedShape> weights(const Node&, const Inputs&) const { return {}; }
  /// Whether it sums products with its weight over neighbors, which a library for convolutions does.
  virtual bool convolution() const { return false; }

  // Its definition.
  /// Plain operations, any device, differentiable, on whole zero-padded images.
  virtual at::Tensor evaluate(const Node&, const std::vector<at::Tensor>& in, const Evaluation&) const = 0;
  /// Appends its transpose. ContractError where there is none.
  virtual void transpose(const Transposing&) const;

  // In a pass.
  /// Whether a relu or a sum behind it may be done in its pass.
  virtual bool absorbs() const { return false; }
  /// Pixel by pixel: the result may take the place of the first input.
  virtual bool overwrites() const { return false; }
  /// Whether it reads features of any type and layout.
  virtual bool converts() const { return false; }
  /// Whether it computes no more of its result than is asked for.
  virtual bool in_parts(const Node&, std::int64_t inputs, at::ScalarType, ConvolutionLibrary) const;
  /// Bytes that it makes beside its result, piece by piece, at most three.
  virtual std::vector<std::int64_t> scratch(const Node&, const StepSizes&) const { return {}; }
  /// Bytes that a library takes and gives back inside it, and that the process keeps for all such layers.
  virtual std::int64_t inside(const Node&, const StepSizes&) const { return 0; }
  virtual std::int64_t kept(const Node&, const StepSizes&) const { return 0; }
  /// Its fast form, with its weights as that wants them.
  virtual std::unique_ptr<LayerStep> prepare(const Node&, const StepSettings&) const;

  // What it costs.
  /// Multiply-adds per output pixel.
  virtual double products(const Node&, const Inputs&) const { return 0; }
  virtual StepWork work(const Node&, const Inputs&, at::ScalarType, bool on_device) const;

  // In mode layer.
  /// Pixels beyond its own that it reads, per side.
  std::int64_t reach(const Node&) const;
  /// Whether it sees and makes blocks without margins.
  virtual bool on_blocks(const Node& node) const { return level_change() != 0 || reach(node) > 0; }
  virtual RimForm rim(const Node&, std::int64_t inputs, at::ScalarType, bool on_device) const { return {}; }
  /// Numbers that it adds up over all pixels of the image, on which each pixel then depends; 0: none.
  virtual std::int64_t sums(const Node&) const { return 0; }
};

const Layer& layer_of(Op op);
/// Adds a layer of a program's own, before its first job; its Op. ContractError for a name that is taken.
Op add_layer(std::unique_ptr<const Layer> layer);
/// None: no layer has this name.
std::optional<Op> op_named(std::string_view name);
/// All of them, a program's own last.
std::vector<Op> all_ops();

}  // namespace tessera
