// SPDX-License-Identifier: BSD-3-Clause
#pragma once

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

}  // namespace tessera
