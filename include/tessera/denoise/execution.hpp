// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>

#include "tessera/comm/array.hpp"
#include "tessera/core/execution.hpp"

namespace tessera {

/// The type that arithmetic of a precision is done in.
at::ScalarType scalar_type(Precision precision);

/// How a network runs here: numbers in place of choices, and what only the runner cares for.
struct ExecutionOptions {
  ExecutionMode mode = ExecutionMode::automatic;
  std::int64_t patch = 0;  // side of a core; 0: chosen
  std::int64_t batch = 0;  // windows per call; 0: chosen
  Averaging averaging = Averaging::none;
  Planes planes{};                   // of a volume through a network for pictures
  Turns turns{};                     // of averaging: default_turns()
  bool fused = true;                 // fused and packed convolutions where the library has them
  at::ScalarType type = at::kFloat;  // of the arithmetic; kDouble wants float64 images, all others float32
  bool tf32 = false;                 // CUDA only, with kFloat
  std::int64_t memory_bytes = 0;     // that features of one call may take; 0: any
  std::int64_t halo = -1;            // pixels around a core; -1: what exactness needs. Less is approximate.
  int halo_depth = 0;                // layer mode: convolutions that share an exchange; 0: chosen
  bool deterministic = false;        // CUDA only: the same bits every time
  Device device{};
};
/// What a job says; nothing of it chosen.
ExecutionOptions execution_options(const Execution& execution, Device device);

}  // namespace tessera
