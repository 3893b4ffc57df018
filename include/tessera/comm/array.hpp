// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include "tessera/core/box.hpp"

namespace tessera {

enum class ElementType { float32, float64, bfloat16, float16, complex64, complex128 };
std::int64_t element_bytes(ElementType type);

/// Where memory lives: -1 is the host, otherwise a CUDA device's index.
struct Device {
  int index = -1;
  bool is_cuda() const { return index >= 0; }
  friend bool operator==(Device a, Device b) { return a.index == b.index; }
};

/// A strided view of a rank's pixels, (channels, depth, height, width); owns nothing. Strides in elements.
/// The element at global pixel p of channel c: data + (c * channel_stride + sum_d (p[d] - box.lo[d]) *
/// stride[d]).
struct ArrayView {
  void* data = nullptr;
  Box box;  // the global pixels it holds
  std::int64_t channels = 1;
  std::int64_t channel_stride = 0;
  Index3 stride{};
  ElementType type = ElementType::float32;
  Device device;
  void* stream = nullptr;  // the CUDA stream on which the data is ready; null: the default one
};

}  // namespace tessera
