// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>

namespace tessera {

class WinogradScratch;

/// Whether a feature is too large for the caches: its pixels are asked for ahead, and results written past them.
/// 24 channels of 1024 x 1024 take 0.7 to 0.85 of the time so, 48 of 512 x 512 0.85; what fits would take 1.03.
bool comes_from_memory(const at::Tensor& feature);

/// What products are made of: floats, or pairs of neighboring channels rounded to bfloat16, for which some processors
/// have an instruction that is worth two. Both are summed in floats.
enum class WinogradProducts { floats, pairs };

/// A 3x3 convolution of stride 1 on a CPU by Winograd's F(4x4, 3x3): a quarter of the direct sum's
/// multiplications, at an error of about 1e-6 of the output's scale (the direct sum's: 2e-7). One of a volume, 3x3x3,
/// does the same in rows and columns; its three taps along the depth are as three times the channels: each slice is
/// transformed once and multiplied into three slices of the result, 6.75 multiplications in place of 27, at an error of
/// about 2e-6. Features of 16 bits are widened as they are read and rounded as they are written; all between is of
/// floats, unless products are of pairs: then transformed inputs and weights are of bfloat16 too. What
/// that costs a picture: tests/bench/winograd_rounding.py.
///
/// Inputs, products and outputs of a block of tiles stay in the cache: input transform, 36 matrix products
/// and output transform (with bias, sum and relu) follow each other for a few dozen tiles at a time, of a volume slice
/// after slice. The result's bits do not depend on the number of threads, nor on what else is in the batch. Thread safe; runs
/// that overlap wait for each other, since they share the scratch memory. Up to kDirectOutputs outputs are
/// summed directly.
class Winograd {
 public:
  static constexpr std::int64_t kTile =
      4;  // pixels of the result that are computed together, along each axis
  static constexpr std::int64_t kDirectOutputs = 4;
  enum class Instructions { none, avx2, avx512, avx512_bf16 };
  using Products = WinogradProducts;
  /// The best that this CPU has.
  static Instructions available();
  /// The types of features that the kernels take: of 16 or 32 bits.
  static bool takes_type(at::ScalarType type) {
    return type == at::kFloat || type == at::kBFloat16 || type == at::kHalf;
  }
  /// Layers for which it is faster than oneDNN where the CPU has the instructions; the same on every CPU.
  static bool suits(at::ScalarType type, std::int64_t inputs, std::int64_t kernel) {
    return kernel == 3 && takes_type(type) && inputs >= 16;
  }
  /// Whether a layer of this type runs here: where a CPU multiplies matrices of bfloat16 (AMX), oneDNN is twice as fast.
  static bool runs(at::ScalarType type);
  /// The faster ones for this type.
  static Products products(at::ScalarType type, Instructions instructions) {
    return type == at::kBFloat16 && instructions == Instructions::avx512_bf16 ? Products::pairs
                                                                              : Products::floats;
  }

  /// `weight` (outputs, inputs, [3,] 3, 3), `bias` (outputs) if any, of the features' type. Packs them as floats, in 4
  /// times their number, or half the bytes for pairs, and sees to the scratch memory. `instructions`: not none, at most
  /// what is available. Pairs are for bfloat16.
  Winograd(const at::Tensor& weight, const std::optional<at::Tensor>& bias, Instructions instructions,
           Products products);
  Winograd(const at::Tensor& weight, const std::optional<at::Tensor>& bias, Instructions instructions)
      : Winograd(weight, bias, instructions, products(weight.scalar_type(), instructions)) {}

  /// Rows above x and columns left of it that are taken to be zeros: each 0 or 1. Below and right, as many as
  /// y's size asks for.
  using Padding = std::array<std::int64_t, 2>;
  /// y = relu(x * w + bias + other), `other` and relu where asked for; `other` may be y itself, x may not.
  /// All of them as takes() says; y may be a part of a larger feature. `front`: slices of zeros in front of a volume.
  void run(const at::Tensor& x, const Padding& before, const at::Tensor* other, bool relu,
           const at::Tensor& y, std::int64_t front = 0) const;

  /// Whether it is (N, C, [D,] H, W) of a type for the kernels on a CPU, and the channels lie side by side; other
  /// strides are free. The features of a call are of the weight's type.
  static bool takes(const at::Tensor& x);

  std::int64_t outputs() const { return outputs_; }

  /// Scratch bytes per thread that a layer of so many inputs needs, of `taps` (3 or 1) along the depth; layers share it,
  /// the largest counts.
  static std::int64_t scratch_bytes(std::int64_t inputs, std::int64_t taps, Instructions instructions);

 private:
  void pack_transformed(const at::Tensor& weight);
  void pack_direct(const at::Tensor& weight);

  Instructions instructions_;
  Products products_;
  at::ScalarType type_;
  std::int64_t inputs_, outputs_, taps_;  // taps along the depth
  at::Tensor weight_, bias_;              // packed; bias_ undefined: none
  std::shared_ptr<WinogradScratch> scratch_;
};

}  // namespace tessera
