// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <string>

#include "tessera/core/error.hpp"

namespace tessera::test {

/// What cuDNN asks of a device, in its own JSON; figures of the data sheets and of the CUDA programming
/// guide's table of compute capabilities.
struct DescribedDevice {
  const char* name;
  int capability;  // 900 is 9.0
  int multiprocessors;
  int shared_memory;        // of a block, bytes, where it asks for it
  long long cache, memory;  // bytes
};
constexpr std::array<DescribedDevice, 3> kDevices = {{
    {"A100", 800, 108, 166912, 41943040, 85899345920},
    {"H100", 900, 132, 232448, 52428800, 85899345920},
    {"B200", 1000, 148, 232448, 132644864, 193273528320},
}};

inline std::string json(const DescribedDevice& d) {
  return concat(
      R"({"version":1,"deviceName":")", d.name, R"(","regsPerBlock":65536,"multiProcessorCount":)",
      d.multiprocessors, R"(,"warpSize":32,"maxSharedMemoryPerBlock":49152,)",
      R"("maxSharedMemoryPerBlockOptin":)", d.shared_memory,
      R"(,"reservedSharedMemoryPerBlock":1024,"maxRegistersPerSM":65536,"maxCtasPerSM":32,)",
      R"("maxThreadsPerBlock":1024,"maxThreadsPerSM":2048,"pciDeviceId":0,"isTccDriver":0,)",
      R"("supportCoopLaunch":1,"totalGlobalMem":)", d.memory,
      R"(,"smClockRateKHz":1980000,"memClockRateKHz":2619000,"l2CacheSize":)", d.cache,
      R"(,"cudaDeviceId":0,"deviceVer":)", d.capability,
      R"(,"driverVer":13000,"maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64]})");
}

}  // namespace tessera::test
