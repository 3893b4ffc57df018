// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "tessera/core/words.hpp"

namespace tessera {

/// How a network meets a distributed image. whole: on one rank that holds all of it. patch: on windows with
/// their whole halo. layer: layer by layer on whole blocks.
enum class ExecutionMode { automatic, whole, patch, layer };
template <>
inline constexpr std::array kWords<ExecutionMode>{"auto", "whole", "patch", "layer"};

/// One pass, or the mean over flips and rotations: cycle takes the next of the 8 at every call.
enum class Averaging { none, cycle, flips4, all8 };
template <>
inline constexpr std::array kWords<Averaging>{"none", "cycle", "flips", "all"};
/// Passes of the network per call.
constexpr int passes(Averaging averaging) {
  return averaging == Averaging::flips4 ? 4 : averaging == Averaging::all8 ? 8 : 1;
}

/// Of a network's arithmetic. tf32: float32 whose products are rounded to 10 bits, on a GPU only.
enum class Precision { float32, tf32, bfloat16, float16 };
template <>
inline constexpr std::array kWords<Precision>{"float32", "tf32", "bfloat16", "float16"};
constexpr std::int64_t element_bytes(Precision precision) {
  return precision == Precision::bfloat16 || precision == Precision::float16 ? 2 : 4;
}

/// How bytes travel. mpi: through host buffers (pinned, for device arrays). cuda_mpi: device buffers handed
/// to a CUDA-aware MPI. nccl: device to device on its own stream. automatic: nccl where every rank has its
/// own GPU, else cuda_mpi where MPI can, else mpi.
enum class TransportKind { automatic, mpi, cuda_mpi, nccl };
template <>
inline constexpr std::array kWords<TransportKind>{"auto", "mpi", "cuda-mpi", "nccl"};

/// How the denoiser of a job runs: what the job says, what was chosen for the rest, what was tuned and what
/// the cost model looks at. Unset, automatic: to be chosen.
struct Execution {
  ExecutionMode mode = ExecutionMode::automatic;
  std::optional<std::int64_t> patch{};       // side of a window's core; of a choice, unset: the longest block
  std::optional<std::int64_t> batch{};       // windows per call
  std::optional<std::int64_t> halo_depth{};  // mode layer: convolutions that share an exchange
  Precision precision = Precision::float32;
  Averaging averaging = Averaging::none;
  TransportKind transport = TransportKind::automatic;
  bool operator==(const Execution&) const = default;
};

}  // namespace tessera
