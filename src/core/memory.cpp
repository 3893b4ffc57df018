// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/core/memory.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

namespace tessera {
namespace {

struct Counter {
  std::atomic<std::int64_t> now{0};
  std::atomic<std::int64_t> peak{0};

  std::int64_t add(std::int64_t bytes) {
    const std::int64_t value = now.fetch_add(bytes, std::memory_order_relaxed) + bytes;
    std::int64_t highest = peak.load(std::memory_order_relaxed);
    while (value > highest && !peak.compare_exchange_weak(highest, value, std::memory_order_relaxed)) {
    }
    return value;
  }
};

std::array<Counter, kMemoryUses> uses;
Counter total;
std::atomic<std::int64_t> interval_peak{0};          // highest since the innermost begin
thread_local std::vector<std::int64_t> outer_peaks;  // of the thread's enclosing intervals
thread_local MemoryUse use_now = MemoryUse::data;

void raise(std::atomic<std::int64_t>& peak, std::int64_t value) {
  std::int64_t highest = peak.load(std::memory_order_relaxed);
  while (value > highest && !peak.compare_exchange_weak(highest, value, std::memory_order_relaxed)) {
  }
}

std::int64_t status_field(const char* field) {
  std::ifstream status("/proc/self/status");
  std::string key;
  while (status >> key) {
    if (key == field) {
      std::int64_t kib = 0;
      status >> kib;
      return kib * 1024;
    }
    status.ignore(4096, '\n');
  }
  return 0;
}

}  // namespace

void count_allocation(MemoryUse use, std::int64_t bytes) {
  uses[static_cast<std::size_t>(use)].add(bytes);
  raise(interval_peak, total.add(bytes));
}
void count_release(MemoryUse use, std::int64_t bytes) {
  uses[static_cast<std::size_t>(use)].add(-bytes);
  total.add(-bytes);
}

MemoryScope::MemoryScope(MemoryUse use) : before_(use_now) { use_now = use; }
MemoryScope::~MemoryScope() { use_now = before_; }
MemoryUse current_memory_use() { return use_now; }

std::int64_t memory_now() { return total.now; }
std::int64_t memory_peak() { return total.peak; }
std::int64_t memory_now(MemoryUse use) { return uses[static_cast<std::size_t>(use)].now; }
std::int64_t memory_peak(MemoryUse use) { return uses[static_cast<std::size_t>(use)].peak; }
void memory_reset_peak() {
  total.peak = total.now.load();
  for (Counter& c : uses) c.peak = c.now.load();
}

void memory_begin_peak() {
  outer_peaks.push_back(interval_peak.load(std::memory_order_relaxed));
  interval_peak.store(memory_now(), std::memory_order_relaxed);
}
std::int64_t memory_end_peak() {
  const std::int64_t highest = interval_peak.load(std::memory_order_relaxed);
  interval_peak.store(std::max(outer_peaks.back(), highest), std::memory_order_relaxed);
  outer_peaks.pop_back();
  return highest;
}

namespace {

struct Resident {
  std::int64_t all = 0, files = 0;  // pages of files and of shared memory
};
Resident resident_now() {
  // statm, not status: one short read, since this is called at the end of every phase.
  static const int file = ::open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  char text[128];
  const ssize_t got = file < 0 ? 0 : ::pread(file, text, sizeof text - 1, 0);
  if (got <= 0) return {};
  text[got] = 0;
  char* after = nullptr;
  std::strtoll(text, &after, 10);
  const std::int64_t page = ::sysconf(_SC_PAGESIZE), all = std::strtoll(after, &after, 10);
  return {all * page, std::strtoll(after, nullptr, 10) * page};
}

std::atomic<std::int64_t> files_before_mapping{-1};  // resident; -1: no mapping has begun

}  // namespace

std::int64_t resident_bytes() { return resident_now().all; }
std::int64_t resident_peak_bytes() { return status_field("VmHWM:"); }
std::int64_t process_bytes() {
  const Resident now = resident_now();
  const std::int64_t before = files_before_mapping;
  const std::int64_t mapped = before < 0 ? 0 : std::max<std::int64_t>(0, now.files - before);
  return std::max<std::int64_t>(0, now.all - mapped - memory_now());
}
void begin_mapping() {
  std::int64_t none = -1;
  files_before_mapping.compare_exchange_strong(none, resident_now().files);
}

}  // namespace tessera
