// SPDX-License-Identifier: BSD-3-Clause
// In the place of NVTX's header, where tessera is built for processors alone (TESSERA_CUDA off): ranges that nobody sees.
#pragma once

#include <cstdint>

using nvtxDomainHandle_t = void*;
using nvtxStringHandle_t = void*;
struct nvtxEventAttributes_t {
  std::uint16_t version, size;
  std::uint32_t category;
  int messageType;
  struct {
    nvtxStringHandle_t registered;
  } message;
};
inline constexpr int NVTX_VERSION = 3, NVTX_EVENT_ATTRIB_STRUCT_SIZE = sizeof(nvtxEventAttributes_t),
                     NVTX_MESSAGE_TYPE_REGISTERED = 3;
inline nvtxDomainHandle_t nvtxDomainCreateA(const char*) { return nullptr; }
inline nvtxStringHandle_t nvtxDomainRegisterStringA(nvtxDomainHandle_t, const char*) { return nullptr; }
inline int nvtxDomainRangePushEx(nvtxDomainHandle_t, const nvtxEventAttributes_t*) { return 0; }
inline int nvtxDomainRangePop(nvtxDomainHandle_t) { return 0; }
