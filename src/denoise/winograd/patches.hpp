// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "winograd/winograd.hpp"

namespace tessera {

/// A 2x2 convolution of stride 2, or its transpose, on a CPU: matrix products straight from the feature and into the
/// result, which oneDNN writes twice. Features of 16 bits are gathered as the products want them, a part of a row at a
/// time; so are those of a 3x3 convolution of few inputs in 16 bits, a network's first. The bits do not depend on the
/// number of threads, nor on where a pixel lies. Thread safe.
class Patches {
 public:
  using Instructions = Winograd::Instructions;
  using Products = WinogradProducts;
  /// Whether it is for 2x2 layers of this type: in float32, those whose results fill whole registers on every CPU.
  static bool suits(at::ScalarType type, std::int64_t outputs, bool up) {
    return type == at::kFloat ? (up ? 2 : 1) * outputs % 16 == 0 : Winograd::takes_type(type);
  }
  /// Whether it is for 3x3 layers of this type.
  static bool suits_first(at::ScalarType type, std::int64_t inputs) {
    return type != at::kFloat && Winograd::takes_type(type) && inputs < 16;
  }

  /// `weight` (outputs, inputs, 2, 2) or (outputs, inputs, 3, 3), or up (inputs, outputs, 2, 2); `bias` (outputs) if any;
  /// of the features' type. Pairs are for bfloat16.
  Patches(const at::Tensor& weight, const std::optional<at::Tensor>& bias, bool up, Instructions instructions,
          Products products);
  Patches(const at::Tensor& weight, const std::optional<at::Tensor>& bias, bool up, Instructions instructions)
      : Patches(weight, bias, up, instructions, Winograd::products(weight.scalar_type(), instructions)) {}

  /// y = relu(x * w + bias), relu where asked for; both channels last, y dense; x may be a part of a larger
  /// feature, of even sides for a 2x2 layer unless up. `before`: of a 3x3 layer, as Winograd::run() says.
  void run(const at::Tensor& x, bool relu, const at::Tensor& y,
           const Winograd::Padding& before = {0, 0}) const;
  std::int64_t outputs() const { return outputs_; }

 private:
  Instructions instructions_;
  Products products_;
  at::ScalarType type_;
  bool up_;
  std::int64_t side_, inputs_, outputs_;
  at::Tensor weight_, bias_;  // packed; bias_ undefined: none
};

}  // namespace tessera
