// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cuda_runtime_api.h>

#include "tessera/comm/communicator.hpp"

namespace tessera::test {

/// Number of GPUs that this process can use; 0 without a driver.
inline int gpus() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

/// The GPU of this rank: ranks of a host take turns. Collective at first call.
inline int gpu_of(const Communicator& comm) { return comm.local_rank() % gpus(); }

}  // namespace tessera::test

/// First line of a test that needs a GPU: skips it visibly where there is none.
#define TESSERA_NEEDS_GPU() \
  if (::tessera::test::gpus() == 0) GTEST_SKIP() << "no GPU on this machine"
