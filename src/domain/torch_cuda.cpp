// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/domain/torch_cuda.hpp"

#include <ATen/Context.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAStream.h>

#include <mutex>
#include <unordered_map>
#include <utility>

#include "tessera/core/memory.hpp"

namespace tessera {

void* current_stream(int device) {
  return c10::cuda::getCurrentCUDAStream(static_cast<c10::DeviceIndex>(device)).stream();
}

DeviceMemory device_memory(int device) {
  const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(static_cast<c10::DeviceIndex>(device));
  return {stats.allocated_bytes[0].current, stats.allocated_bytes[0].peak};
}

void reset_device_peak(int device) {
  c10::cuda::CUDACachingAllocator::resetPeakStats(static_cast<c10::DeviceIndex>(device));
}

void release_device_memory() { c10::cuda::CUDACachingAllocator::emptyCache(); }

void track_device_memory() {
  struct Tensors {
    std::mutex mutex;
    std::unordered_map<std::size_t, std::pair<MemoryUse, std::int64_t>> held;  // by address
  };
  static auto& tensors = *new Tensors;  // the allocator calls until the process ends
  static std::once_flag once;
  std::call_once(once, [] {
    using Entry = c10::CachingDeviceAllocator::TraceEntry;
    at::globalContext().lazyInitDevice(c10::kCUDA);
    c10::cuda::CUDACachingAllocator::attachAllocatorTraceTracker([](const Entry& e) {
      if (e.action_ != Entry::ALLOC && e.action_ != Entry::FREE_REQUESTED) return;
      const std::lock_guard<std::mutex> lock(tensors.mutex);
      if (e.action_ == Entry::ALLOC) {
        const auto bytes = static_cast<std::int64_t>(e.size_);
        tensors.held[e.addr_] = {current_memory_use(), bytes};
        count_allocation(current_memory_use(), bytes);
      } else if (const auto it = tensors.held.find(e.addr_); it != tensors.held.end()) {
        count_release(it->second.first, it->second.second);
        tensors.held.erase(it);
      }
    });
  });
}

}  // namespace tessera
