// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

namespace tessera {

/// What of a GPU torch alone knows. Only for tensors that are there: the program without torch's CUDA
/// libraries (without_cuda.cpp) has no such tensors.

/// torch's current cudaStream_t of a device.
void* current_stream(int device);

/// Bytes that torch's allocator has given out on a device: now, and the highest since reset_device_peak().
struct DeviceMemory {
  std::int64_t now = 0, peak = 0;
};
DeviceMemory device_memory(int device);
void reset_device_peak(int device);

/// Gives memory that no tensor holds back to the device; waits for it.
void release_device_memory();
/// Counts every tensor on a device from now on, as track_tensor_memory() does on the host; sets devices up.
void track_device_memory();

}  // namespace tessera
