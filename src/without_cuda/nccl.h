// SPDX-License-Identifier: BSD-3-Clause
// In the place of NCCL's header, where tessera is built for processors alone (TESSERA_CUDA off).
#pragma once

enum ncclResult_t { ncclSuccess = 0 };
inline ncclResult_t ncclGetVersion(int* version) {
  *version = 0;  // none
  return ncclSuccess;
}
