// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

namespace tessera {

/// A named part of what the next step depends on, for checkpoints: one of the three is set, and points into
/// the object that said it. It is restored in place.
struct StateField {
  std::string name;
  at::Tensor* image = nullptr;  // this rank's block in image layout, float32 or float64, any channels
  double* scalar = nullptr;     // equal on all ranks
  std::int64_t* count = nullptr;
};

}  // namespace tessera
