// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "winograd/winograd.hpp"

namespace tessera {

/// A 2x2 convolution of stride 2, or its transpose, in float32 on a CPU: matrix products straight from the
/// feature and into the result, which oneDNN writes twice. The bits do not depend on the number of threads, nor
/// on where a pixel lies. Thread safe.
class Patches {
 public:
  using Instructions = Winograd::Instructions;
  /// Whether results fill whole registers on every CPU.
  static bool suits(at::ScalarType type, std::int64_t outputs, bool up) {
    return type == at::kFloat && (up ? 2 : 1) * outputs % 16 == 0;
  }

  /// `weight` (outputs, inputs, 2, 2), or up (inputs, outputs, 2, 2); `bias` (outputs) if any; float32.
  Patches(const at::Tensor& weight, const std::optional<at::Tensor>& bias, bool up,
          Instructions instructions);

  /// y = relu(x * w + bias), relu where asked for; both channels last, y dense; x may be a part of a larger
  /// feature, of even sides unless up.
  void run(const at::Tensor& x, bool relu, const at::Tensor& y) const;
  std::int64_t outputs() const { return outputs_; }

 private:
  Instructions instructions_;
  bool up_;
  std::int64_t inputs_, outputs_;
  at::Tensor weight_, bias_;  // packed; bias_ undefined: none
};

}  // namespace tessera
