// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>

#include "tessera/core/memory.hpp"
#include "tessera/core/scratch.hpp"

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

/// While one lives, CPU tensors of MemoryUse::data and at least `least` bytes, whoever makes them, lie in the scratch file:
/// state, samples, images, temporary ones too. Weights and features stay in memory. The values are the same bits.
///
/// Tensors may outlive the scope; the file lives as long as they. One at a time; not counted as memory.
class ScratchScope {
 public:
  ScratchScope(std::shared_ptr<Scratch> scratch, std::int64_t least);
  ~ScratchScope();
  ScratchScope(const ScratchScope&) = delete;
  ScratchScope& operator=(const ScratchScope&) = delete;
};
/// Size of the file of the scope that is open; 0: none.
std::int64_t scratch_bytes();
/// Whether a tensor lies in a scratch file.
bool in_scratch(const at::Tensor& t);
/// Of a tensor that does, its rows are read from the disk beside what goes on: it is needed soon. (..., rows, columns), of
/// any strides. Others: nothing happens.
void fetch_ahead(const at::Tensor& t);
/// Of tensors that do, their rows are in memory when this returns, as long as there is room: a phase of its own, `scratch`,
/// so that what a disk costs shows. `written`: one that is about to be. Others: nothing happens.
void await(std::span<const at::Tensor> read, const at::Tensor& written = {});
/// All of it will be written before any of it is read. In a scratch file nothing is then read from the disk for it. Its
/// values are undefined. Others: nothing happens.
void overwritten_soon(const at::Tensor& t);

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
