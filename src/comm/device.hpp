// SPDX-License-Identifier: BSD-3-Clause
// CUDA handles with an owner; C++17, for .cpp and .cu.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <utility>

#include "tessera/comm/array.hpp"
#include "tessera/comm/check_cuda.hpp"

namespace tessera {

/// Makes a device the current one inside a scope; nothing for the host.
class DeviceGuard {
 public:
  explicit DeviceGuard(Device device);
  ~DeviceGuard();
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  int before_ = -1;
};

/// Contiguous memory, counted as MemoryUse::data.
class Buffer {
 public:
  enum class Kind { host, pinned, device };

  Buffer() = default;
  Buffer(Kind kind, Device device, std::int64_t bytes);
  ~Buffer();
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    swap(other);
    return *this;
  }

  char* data() const { return static_cast<char*>(data_); }
  std::int64_t bytes() const { return bytes_; }

 private:
  void swap(Buffer& other) {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(kind_, other.kind_);
  }

  void* data_ = nullptr;
  std::int64_t bytes_ = 0;
  Kind kind_ = Kind::host;
};

/// A point in a stream; with its time where that is asked for.
class Event {
 public:
  enum class Timing { no, yes };
  explicit Event(Device device, Timing timing = Timing::no);
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  void record(cudaStream_t stream);
  bool done() const;
  void hold(cudaStream_t stream) const;  // later work of the stream waits for this point
  /// hold(), unless one of the two belongs to a recording (RecordedWork) and the other does not: they are in
  /// order then by where the recording is launched, and CUDA refuses the wait.
  void hold_within(cudaStream_t stream) const;
  void wait() const;  // blocks the host
  /// Seconds from `before` to this one, negative where it came first; both timed and done.
  double seconds_since(const Event& before) const;

 private:
  Device device_;
  cudaEvent_t event_ = nullptr;
  std::uint64_t recording_ = 0;  // that it was last recorded in
};

/// A stream of the highest priority that does not wait for the default stream.
class Stream {
 public:
  explicit Stream(Device device);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

}  // namespace tessera
