// SPDX-License-Identifier: BSD-3-Clause
#include "device.hpp"

#include <cstdlib>
#include <new>

#include "tessera/comm/recorded_work.hpp"
#include "tessera/core/error.hpp"
#include "tessera/core/memory.hpp"

namespace tessera {

void check_cuda(cudaError_t code, const char* call, const char* file, int line) {
  if (code == cudaSuccess) return;
  throw RunError(concat(file, ":", line, ": ", call, " failed (", cudaGetErrorString(code), ")"));
}

DeviceGuard::DeviceGuard(Device device) {
  if (!device.is_cuda()) return;
  TESSERA_CUDA(cudaGetDevice(&before_));
  TESSERA_CUDA(cudaSetDevice(device.index));
}
DeviceGuard::~DeviceGuard() {
  if (before_ >= 0) cudaSetDevice(before_);
}

Buffer::Buffer(Kind kind, Device device, std::int64_t bytes) : bytes_(bytes), kind_(kind) {
  if (bytes == 0) return;
  const DeviceGuard guard(device);
  const auto size = static_cast<std::size_t>(bytes);
  if (kind == Kind::device) {
    TESSERA_CUDA(cudaMalloc(&data_, size));
  } else if (kind == Kind::pinned) {
    TESSERA_CUDA(cudaHostAlloc(&data_, size, cudaHostAllocDefault));
  } else {
    constexpr std::size_t kLine = 64;
    data_ = std::aligned_alloc(kLine, (size + kLine - 1) / kLine * kLine);
    if (!data_)
      throw RunError(concat("an exchange buffer of ", bytes, " bytes (out of memory) use more ranks"));
  }
  count_allocation(MemoryUse::data, bytes_);
}

Buffer::~Buffer() {
  if (!data_) return;
  count_release(MemoryUse::data, bytes_);
  if (kind_ == Kind::device)
    cudaFree(data_);
  else if (kind_ == Kind::pinned)
    cudaFreeHost(data_);
  else
    std::free(data_);
}

Event::Event(Device device, Timing timing) : device_(device) {
  const DeviceGuard guard(device);
  TESSERA_CUDA(
      cudaEventCreateWithFlags(&event_, timing == Timing::yes ? cudaEventDefault : cudaEventDisableTiming));
}
Event::~Event() { cudaEventDestroy(event_); }
void Event::record(cudaStream_t stream) {
  const DeviceGuard guard(device_);
  recording_ = recording_of(stream);
  TESSERA_CUDA(cudaEventRecord(event_, stream));
}
bool Event::done() const {
  const cudaError_t state = cudaEventQuery(event_);
  if (state == cudaErrorNotReady) return false;
  TESSERA_CUDA(state);
  return true;
}
void Event::hold(cudaStream_t stream) const {
  const DeviceGuard guard(device_);
  TESSERA_CUDA(cudaStreamWaitEvent(stream, event_, 0));
}
void Event::hold_within(cudaStream_t stream) const {
  if (recording_ == recording_of(stream)) hold(stream);
}
double Event::seconds_since(const Event& before) const {
  float milliseconds = 0;
  TESSERA_CUDA(cudaEventElapsedTime(&milliseconds, before.event_, event_));
  return milliseconds * 1e-3;
}
void Event::wait() const { TESSERA_CUDA(cudaEventSynchronize(event_)); }

Stream::Stream(Device device) {
  const DeviceGuard guard(device);
  int least = 0, greatest = 0;
  TESSERA_CUDA(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  TESSERA_CUDA(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, greatest));
}
Stream::~Stream() { cudaStreamDestroy(stream_); }

}  // namespace tessera
