// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tessera {

/// A convolution with what is done to its result in the same pass: y = relu(w * x + b + other).
///
/// cuDNN is asked for exactly this graph. torch's own fused call adds a second operand with factor 0 where
/// there is none, which costs the tensor cores from 2^31 elements on, and 0 * NaN where that memory holds
/// one. All tensors are channels_last and dense; sums are kept in float.
struct ConvolutionProblem {
  std::array<std::int64_t, 4> x{};  // items, channels, height, width
  std::array<std::int64_t, 4>
      w{};  // as torch stores it: (outputs, inputs, h, w); transposed: (inputs, outputs, h, w)
  std::array<std::int64_t, 2> padding{};
  std::int64_t stride = 1;
  bool transposed = false;
  bool bias = false, other = false, relu = false;
  at::ScalarType type = at::kFloat;  // float, bfloat16, half
  bool tf32 = false;                 // float products may be rounded to 10 bits
  bool deterministic = false;

  std::array<std::int64_t, 4> y() const;
  /// Whether tensor cores can be had for this type.
  bool reduced() const { return type != at::kFloat || tf32; }
  auto operator<=>(const ConvolutionProblem&) const = default;
};

/// Bytes that a plan may take beside its tensors; the memory model counts them. Engines of IEEE float32 that
/// change the layout would take twice the feature (8.6 GB for 64 channels of 4096 x 4096).
constexpr std::int64_t kCudnnWorkspace = std::int64_t{1} << 28;

/// Whose kernels: those of the current device through torch's handle, or those of a device that is described
/// by cuDNN's own JSON and need not be there, to be asked about.
class CudnnDevice {
 public:
  static CudnnDevice current();
  static CudnnDevice described(const std::string& json);

 private:
  friend struct CudnnGraph;
  std::shared_ptr<void> description_;  // null: the current device
};

/// A way that cuDNN has for a problem.
struct CudnnEngine {
  std::int64_t index = 0;
  std::int64_t workspace = 0;  // bytes
  bool tensor_cores = false;
  std::shared_ptr<void> config;
};
/// The engines that may run a problem, cuDNN's favorite first: no narrower products than asked for, no sums
/// in 16 bits, the same bits every time where that is asked for, workspace within kCudnnWorkspace. With
/// reduced() those with tensor cores only, where there are any. Where a bias of zeros gets better ones,
/// `problem.bias` is set: a lone relu has no ready-made kernels, a large transposed convolution none with
/// tensor cores. Empty: none. RunError where cuDNN fails.
std::vector<CudnnEngine> cudnn_engines(ConvolutionProblem& problem, const CudnnDevice& device);

/// Runs the problem on the current device and stream; nullopt where no engine can. The first call with a
/// problem chooses the engine for the life of the process: the fastest of a few in a short trial, where torch
/// may try kernels out (Context::benchmarkCuDNN), no graph is being captured and `deterministic` is off; else
/// cuDNN's favorite. `bias`: zeros where the problem has none. Thread safe.
std::optional<at::Tensor> cudnn_convolve(const ConvolutionProblem& problem, const at::Tensor& x,
                                         const at::Tensor& w, const at::Tensor& bias,
                                         const at::Tensor& other);

}  // namespace tessera
