// SPDX-License-Identifier: BSD-3-Clause
// For bodies that a kernel on a device and a loop on the host share; C++17.
#pragma once

#ifdef __CUDACC__
#define TESSERA_BOTH __host__ __device__ __forceinline__
#else
#define TESSERA_BOTH inline
#endif
