// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace tessera {

/// What a piece of tracked memory holds.
enum class MemoryUse { data, weights, activations };  // data: state, measurements, halos, buffers
constexpr std::size_t kMemoryUses = 3;

/// Bytes of this process that went through tessera's allocation hooks: every CPU tensor, on a GPU every
/// tensor there too (`track_tensor_memory()`, `track_device_memory()` in domain), and every exchange buffer.
/// Thread safe; equal on no two ranks.
void count_allocation(MemoryUse use, std::int64_t bytes);
void count_release(MemoryUse use, std::int64_t bytes);

/// Tensors that this thread allocates inside the scope are of this use. Scopes nest.
class MemoryScope {
 public:
  explicit MemoryScope(MemoryUse use);
  ~MemoryScope();
  MemoryScope(const MemoryScope&) = delete;
  MemoryScope& operator=(const MemoryScope&) = delete;

 private:
  MemoryUse before_;
};
MemoryUse current_memory_use();

/// Tracked bytes, all uses together: now, and the highest since the program began (or reset).
std::int64_t memory_now();
std::int64_t memory_peak();
/// The same per use.
std::int64_t memory_now(MemoryUse use);
std::int64_t memory_peak(MemoryUse use);
void memory_reset_peak();

/// Peak inside nested intervals (phases): begin, then end returns the highest since its own begin.
void memory_begin_peak();
std::int64_t memory_end_peak();

/// Resident set of the process, now and highest (VmRSS, VmHWM of /proc/self/status); 0 where unknown.
std::int64_t resident_bytes();
std::int64_t resident_peak_bytes();

/// Resident now beside what is tracked: the program, its libraries, MPI. Before the first large tensor this
/// is what a process of any job takes on top of its tracked memory.
std::int64_t process_bytes();
/// From now on pages of files that become resident are data in scratch files, and none of the program's.
void begin_mapping();

}  // namespace tessera
