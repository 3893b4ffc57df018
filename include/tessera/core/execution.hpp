// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tessera/core/words.hpp"

namespace tessera {

/// How a network meets a distributed image. whole: on one rank that holds all of it. patch: on windows with
/// their whole halo. layer: layer by layer on whole blocks.
enum class ExecutionMode { automatic, whole, patch, layer };
template <>
inline constexpr std::array kWords<ExecutionMode>{"auto", "whole", "patch", "layer"};

/// One pass, or the mean over flips and turns: all three flips of a square or seven of a box, or these with every
/// turn that takes axes to axes like them; cycle takes the next of all at every call.
enum class Averaging { none, cycle, flips, all };
template <>
inline constexpr std::array kWords<Averaging>{"none", "cycle", "flips", "all"};

/// Which axes a network may be shown in each other's place: those of the same number, 0 is no axis. Pictures and
/// planes have the 8 flips and turns of the square; volumes the 48 of the cube, or the 16 that keep an axis whose
/// spacing differs, or 8 flips.
struct Turns {
  std::array<int, 3> kind{0, 1, 1};  // depth, rows, columns
  constexpr int flips() const { return (kind[0] ? 2 : 1) * 4; }
  constexpr int all() const {
    const int pairs = (kind[0] == kind[1]) + (kind[1] == kind[2]) + (kind[0] == kind[2]);
    return flips() * (pairs == 3 ? 6 : pairs + 1);
  }
  bool operator==(const Turns&) const = default;
};
/// Passes of the network per call.
constexpr int passes(Averaging averaging, const Turns& turns) {
  return averaging == Averaging::flips ? turns.flips() : averaging == Averaging::all ? turns.all() : 1;
}

/// Planes of a volume, by the axis across them: axial z (depth), coronal y (height), sagittal x (width).
enum class Plane { axial, coronal, sagittal };
template <>
inline constexpr std::array kWords<Plane>{"axial", "coronal", "sagittal"};
/// The axes of an image, that across such planes first, then those of their rows and columns.
constexpr std::array<std::size_t, 3> axes_of(Plane plane) {
  return plane == Plane::axial     ? std::array<std::size_t, 3>{0, 1, 2}
         : plane == Plane::coronal ? std::array<std::size_t, 3>{1, 0, 2}
                                   : std::array<std::size_t, 3>{2, 0, 1};
}

/// In which planes a network for pictures sees a volume: the mean over them. None: it sees the image itself.
struct Planes {
  std::array<bool, 3> across{};  // by axis: whether planes across it are among them
  static Planes of(const std::vector<Plane>& list) {
    Planes planes;
    for (const Plane plane : list) planes.across[axes_of(plane)[0]] = true;
    return planes;
  }
  std::vector<Plane> list() const {
    std::vector<Plane> all;
    for (const Plane plane : {Plane::axial, Plane::coronal, Plane::sagittal})
      if (across[axes_of(plane)[0]]) all.push_back(plane);
    return all;
  }
  bool empty() const { return across == std::array<bool, 3>{}; }
  bool operator==(const Planes&) const = default;
};
/// As logs name them: "axial", "axial and coronal", "all".
inline std::string text(const Planes& planes) {
  const std::vector<Plane> list = planes.list();
  if (list.size() == 3) return "all";
  std::string out;
  for (const Plane plane : list) out += (out.empty() ? "" : " and ") + std::string(word(plane));
  return out;
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
  Planes planes{};  // of a volume through a network for pictures
  Turns turns{};    // what averaging may do with the image
  TransportKind transport = TransportKind::automatic;
  bool operator==(const Execution&) const = default;
};

}  // namespace tessera
