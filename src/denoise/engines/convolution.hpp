// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <optional>

#include "engines/cudnn_graph.hpp"
#include "tessera/denoise/layer.hpp"
#include "winograd/patches.hpp"
#include "winograd/winograd.hpp"

namespace tessera {

/// Whether an addition is done in the convolution's pass.
inline bool fuses_add(ConvolutionLibrary library) { return library != ConvolutionLibrary::plain; }

/// The best one that works here for this type; probed with a small run. oneDNN's entry points are private to
/// torch and the CPU decides about the types; cuDNN's results are compared with torch's. Where `on_cuda` is
/// pretended, without a device, cuDNN is trusted.
ConvolutionLibrary probe_convolutions(at::ScalarType type, bool on_cuda, bool fused);
/// The same of a network: volumes go through plain operators.
inline ConvolutionLibrary library_for(const Graph& graph, at::ScalarType type, bool on_cuda, bool fused) {
  return graph.axes() == Axes::volume ? ConvolutionLibrary::plain : probe_convolutions(type, on_cuda, fused);
}

/// One layer's convolution with its weight in the form that the library wants.
class ConvolutionLayer {
 public:
  struct Shape {
    std::int64_t stride = 1;
    std::int64_t padding = 0;
    bool transposed = false;
    std::int64_t groups = 1;  // 1, or as many as channels
    bool winograd = true;     // where it is faster; false: to compare
  };
  /// `weight`, and `bias` if any, have their final type and device already.
  ConvolutionLayer(ConvolutionLibrary library, const at::Tensor& weight,
                   const std::optional<at::Tensor>& bias, const Shape& shape);

  /// Scratch that this process keeps for layers of stride 1 like this one; layers share it, the largest
  /// counts.
  static std::int64_t scratch_bytes(ConvolutionLibrary library, at::ScalarType type, std::int64_t inputs,
                                    std::int64_t kernel);

  /// Whether torch's own kernels write out all taps of every pixel first: on a CPU, of a type that oneDNN does
  /// not take there (double; 16 bits without their instructions).
  static bool unfolds(ConvolutionLibrary library, at::ScalarType type);

  /// Whether a transposed layer makes its result a second time, in another layout.
  static bool writes_twice(ConvolutionLibrary library, at::ScalarType type, std::int64_t outputs);

  /// Zeros around x on both sides, (rows, columns): each 0 or half the kernel's width. None: as the shape
  /// says. For strips that bring their neighbors' pixels along.
  using Padding = std::optional<std::array<std::int64_t, 2>>;

  /// relu(x * w + b), or without the relu; x channels_last.
  at::Tensor apply(const at::Tensor& x, bool relu, const Padding& padding = {});
  /// x * w + b + other; written over `other` when `overwrite`.
  at::Tensor add(const at::Tensor& x, const at::Tensor& other, bool overwrite);

  /// What cuDNN is asked for an input of these sizes (channels filled up) and the weight's type.
  ConvolutionProblem problem(const std::array<std::int64_t, 4>& x, bool other, bool relu,
                             const Padding& padding = {}, bool tf32 = false,
                             bool deterministic = false) const;

  /// Whether part() works: x and results may be parts of larger features.
  bool in_parts() const { return winograd_.has_value(); }
  /// Whether a layer like this one will take parts of features without copies: by part(), where the stride is 1,
  /// else by apply().
  static bool computes_parts(ConvolutionLibrary library, at::ScalarType type, const Node& node,
                             std::int64_t inputs);
  /// Channels of the input that a layer like this one makes floats of, as its result, beside the features; 0: none.
  static std::int64_t widened(ConvolutionLibrary library, at::ScalarType type, const Node& node,
                              std::int64_t inputs);
  std::int64_t outputs() const { return outputs_; }
  /// y = relu(x * w + b + other), where relu and `other` (may be y) are asked for. Zeros before x: as
  /// Winograd::run() says.
  void part(const at::Tensor& x, const std::array<std::int64_t, 2>& zeros_before, const at::Tensor* other,
            bool relu, const at::Tensor& y) const;
  /// Whether add() with `overwrite` really does so: else the other operand stays as it was.
  bool overwrites() const { return library_ == ConvolutionLibrary::onednn; }

 private:
  using Extent = std::array<std::int64_t, 2>;
  at::Tensor run_cudnn(const at::Tensor& x, const at::Tensor& other, bool relu, const Extent& padding) const;
  at::Tensor run_winograd(const at::Tensor& x, const at::Tensor* other, bool relu, bool overwrite,
                          const Extent& padding) const;
  at::Tensor run_patches(const at::Tensor& x, bool relu, const Extent& padding) const;
  at::Tensor run_onednn(const at::Tensor& x, bool relu, const Extent& padding) const;

  ConvolutionLibrary library_;
  Shape shape_;
  std::int64_t outputs_;
  at::Tensor
      weight_;  // dense (cuDNN: channels filled up to eights), or oneDNN's opaque form, or none (Winograd)
  std::optional<at::Tensor> bias_;
  at::Tensor no_bias_;  // zeros, for cuDNN's kernels that want one
  std::optional<Winograd> winograd_;
  std::optional<Patches> patches_;
};

}  // namespace tessera
