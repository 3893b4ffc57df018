// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "tessera/comm/array.hpp"
#include "tessera/denoise/network.hpp"
#include "tessera/denoise/pass_plan.hpp"

namespace tessera {

struct RunnerOptions {
  at::ScalarType type = at::kFloat;  // of the arithmetic: float, double, bfloat16, half
  bool tf32 = false;                 // CUDA only: float32 products rounded to 10 bits
  bool deterministic = false;        // CUDA only: kernels that give the same bits, chosen without trials
  bool fused = true;                 // fused and packed convolutions where the library has them
  bool turned = false;               // also keep kernels with rows and columns exchanged, see LayerHalos
  bool device_form = false;  // layers as a device runs them (additions fused, thin rims), on a CPU too
  bool graphs = true;        // CUDA only: replays passes as graphs from a shape's second call on
  // Windows of several sizes come in turn: the arena stays as large as the largest, else it is taken anew,
  // page by page, with every change.
  bool in_turn = false;
  Device device{};
};

/// How the blocks of a distributed image's features hang together; null: x is all there is.
class LayerHalos;

/// A network made ready to run, many times, on windows of any aligned size; what evaluate() computes, faster.
///
/// Batch norms are folded, relu and add ride on the convolution before them, features are channels_last, the
/// weights are converted and packed once. Features lie in one arena that is kept for the next call (a fresh
/// 64 MB buffer per layer costs a tenth of the time in page faults), each where a plan made from sizes and
/// lifetimes puts it; the arena is exactly as large as the last call's sizes need (`in_turn`: as the largest
/// call's). No gradients. Not thread safe; not collective. Errors: a type that the device cannot compute in
/// is an InputError. Equals evaluate() to rounding: 1e-12 in double, about 1e-6 in float32.
class Runner {
 public:
  Runner(const Network& network, const RunnerOptions& options);
  Runner(Runner&&) noexcept;
  Runner& operator=(Runner&&) noexcept;
  ~Runner();

  /// x (N, C, [D,] H, W), any strides, sides multiples of the alignment -> a new tensor of x's sizes and type, any
  /// strides. sigma: for every item. `between` is called after each layer, for messages that wait to be
  /// moved. With `halos` (collective then), x and the result are one block with its margin, N = 1, and the
  /// result's block is that of the whole image. With `core`, pixels of x, which begins at the origin, the
  /// result is that part alone, and in float32 on a CPU no layer computes more than it needs.
  at::Tensor run(const at::Tensor& x, double sigma, const std::function<void()>& between = {},
                 LayerHalos* halos = nullptr, const std::optional<Box>& core = {});

  const PassPlan& plan() const;

  /// Bytes that a call on `items` windows takes, without the weights: memory_model.hpp.
  std::int64_t bytes(std::int64_t items, const Index3& window) const;
  /// Shapes whose passes are replayed as CUDA graphs.
  std::size_t graphs() const;
  /// Gives back what is kept between calls: graphs, buffers, a device's unused memory.
  void release();
  /// Whether the fused library kernels are in use.
  bool fused() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tessera
