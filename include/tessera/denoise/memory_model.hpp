// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <memory>

#include "tessera/comm/array.hpp"
#include "tessera/denoise/network.hpp"
#include "tessera/domain/decomposition.hpp"

namespace tessera {

/// Bytes that one call of a Runner takes: features, the library's scratch, the result; without the weights.
///
/// It is the allocator run on sizes: the runner places its features by the same plan, so a CPU run takes what
/// is said here, to about 1 % (16-bit types and small windows: a few MB per thread more at most). On CUDA an
/// estimate, the features alive at once and a fifth. `fused` false on a CPU: a library may take more.
/// Arithmetic; not collective.
class MemoryModel {
 public:
  MemoryModel(const Network& network, at::ScalarType type, bool fused, Device device);
  MemoryModel(MemoryModel&&) noexcept;
  ~MemoryModel();

  /// For `items` windows of so many pixels (depth, rows, columns), multiples of the alignment.
  std::int64_t bytes(std::int64_t items, const Index3& window) const;
  /// Of mode layer on the block of `rank`: features with their margins, strips and packed messages.
  std::int64_t layer_bytes(const Decomposition& decomposition, int rank, int halo_depth) const;
  /// Most bytes of features alive at once: no placement can take less.
  std::int64_t least_bytes(std::int64_t items, const Index3& window) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tessera
