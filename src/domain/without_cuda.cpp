// SPDX-License-Identifier: BSD-3-Clause
// In the place of torch_cuda.cpp, for programs that are linked without torch's CUDA libraries. They have no
// tensors on a GPU, so none of this is ever called.
#include "tessera/core/error.hpp"
#include "tessera/domain/torch_cuda.hpp"

namespace tessera {

namespace {

[[noreturn]] void absent() {
  throw RunError("a GPU was used by a program without CUDA (a mistake of tessera) run tessera-cuda");
}

}  // namespace

void* current_stream(int) { absent(); }
DeviceMemory device_memory(int) { absent(); }
void reset_device_peak(int) { absent(); }
void release_device_memory() { absent(); }
void track_device_memory() { absent(); }

}  // namespace tessera
