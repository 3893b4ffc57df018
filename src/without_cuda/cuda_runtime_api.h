// SPDX-License-Identifier: BSD-3-Clause
// In the place of the CUDA runtime's header, where tessera is built for processors alone (TESSERA_CUDA off): what it
// uses of it. No device is ever found, so that beyond the count nothing of it runs.
#pragma once

#include <cstddef>

enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInsufficientDriver = 35,
  cudaErrorNoDevice = 100,
  cudaErrorNotReady = 600,
};
enum cudaMemcpyKind { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost };
enum cudaStreamCaptureMode { cudaStreamCaptureModeThreadLocal };
enum cudaStreamCaptureStatus { cudaStreamCaptureStatusNone };
using cudaStream_t = void*;
using cudaEvent_t = void*;
using cudaGraph_t = void*;
using cudaGraphExec_t = void*;
inline constexpr unsigned cudaEventDefault = 0, cudaEventDisableTiming = 2, cudaHostAllocDefault = 0,
                          cudaStreamNonBlocking = 1, cudaGraphInstantiateFlagUseNodePriority = 8;
#define CUDART_VERSION 0

struct cudaDeviceProp {
  char name[256];
  struct {
    char bytes[16];
  } uuid;
  std::size_t totalGlobalMem;
  int multiProcessorCount, major, minor;
};

inline const char* cudaGetErrorString(cudaError_t) { return "tessera was built without CUDA"; }
inline cudaError_t cudaGetLastError() { return cudaErrorNoDevice; }

#define TESSERA_ABSENT(call)    \
  template <class... Arguments> \
  cudaError_t call(Arguments&&...) { \
    return cudaErrorNoDevice;   \
  }
TESSERA_ABSENT(cudaDeviceGetPCIBusId)
TESSERA_ABSENT(cudaDeviceGetStreamPriorityRange)
TESSERA_ABSENT(cudaDeviceSynchronize)
TESSERA_ABSENT(cudaDriverGetVersion)
TESSERA_ABSENT(cudaEventCreateWithFlags)
TESSERA_ABSENT(cudaEventDestroy)
TESSERA_ABSENT(cudaEventElapsedTime)
TESSERA_ABSENT(cudaEventQuery)
TESSERA_ABSENT(cudaEventRecord)
TESSERA_ABSENT(cudaEventSynchronize)
TESSERA_ABSENT(cudaFree)
TESSERA_ABSENT(cudaFreeHost)
TESSERA_ABSENT(cudaGetDevice)
TESSERA_ABSENT(cudaGetDeviceCount)
TESSERA_ABSENT(cudaGetDeviceProperties)
TESSERA_ABSENT(cudaGraphDestroy)
TESSERA_ABSENT(cudaGraphExecDestroy)
TESSERA_ABSENT(cudaGraphInstantiate)
TESSERA_ABSENT(cudaGraphLaunch)
TESSERA_ABSENT(cudaHostAlloc)
TESSERA_ABSENT(cudaMalloc)
TESSERA_ABSENT(cudaMemcpy)
TESSERA_ABSENT(cudaMemcpyAsync)
TESSERA_ABSENT(cudaMemGetInfo)
TESSERA_ABSENT(cudaRuntimeGetVersion)
TESSERA_ABSENT(cudaSetDevice)
TESSERA_ABSENT(cudaStreamBeginCapture)
TESSERA_ABSENT(cudaStreamCreateWithPriority)
TESSERA_ABSENT(cudaStreamDestroy)
TESSERA_ABSENT(cudaStreamEndCapture)
TESSERA_ABSENT(cudaStreamGetCaptureInfo)
TESSERA_ABSENT(cudaStreamSynchronize)
TESSERA_ABSENT(cudaStreamWaitEvent)
#undef TESSERA_ABSENT
