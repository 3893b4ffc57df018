// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include "tessera/core/memory.hpp"

namespace tessera {

/// Counts every CPU tensor from now on (core/memory.hpp), by the use that is open when it is made;
/// idempotent. Tensors made before are released as ever, uncounted. Call before the first tensor.
void track_tensor_memory();

/// While one lives, large CPU tensors come from buffers that are kept and used again.
///
/// A library call that makes its own output gets fresh pages from the kernel every time otherwise, a tenth of
/// the time of a network; kept buffers need no page faults. Kept buffers stay counted. Tensors may outlive
/// the scope. Scopes nest; one thread opens them.
class ReuseScope {
 public:
  ReuseScope();
  ~ReuseScope();
  ReuseScope(const ReuseScope&) = delete;
  ReuseScope& operator=(const ReuseScope&) = delete;
};

/// Gives back the kept buffers that no tensor holds.
void release_kept_tensors();

/// One piece of host memory, kept until resized or destroyed, into which tensors are placed by a plan.
///
/// Counted under the use that is open when it is made. Tensors in it must be gone before it is.
class Arena {
 public:
  Arena() = default;
  ~Arena() { reset(); }
  Arena(Arena&& other) noexcept { *this = static_cast<Arena&&>(other); }
  Arena& operator=(Arena&& other) noexcept;

  /// Exactly so many bytes from now on; what it held is lost.
  void resize(std::int64_t bytes);
  std::int64_t bytes() const { return data_ ? bytes_ : 0; }

  /// The next CPU tensor of `least` to `most` bytes that this thread makes, by itself or inside a library
  /// call, lies at `offset`, unless a tensor that still lives reaches into that place: then it lies
  /// elsewhere, as if not asked. Of several places the one asked for first serves. Holds until used, or until
  /// forget_places().
  void place_next(std::int64_t offset, std::int64_t least, std::int64_t most);

 private:
  void reset();
  char* data_ = nullptr;
  std::int64_t bytes_ = 0;
  MemoryUse use_ = MemoryUse::data;
};
/// Drops the places that no tensor took.
void forget_places();

}  // namespace tessera
