// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/comm/recorded_work.hpp"

#include <exception>

#include "device.hpp"

namespace tessera {

RecordedWork::RecordedWork(void* stream, const std::function<void()>& work) {
  const auto captured = static_cast<cudaStream_t>(stream);
  // Other threads (NCCL's, the watchdog's) may call CUDA meanwhile.
  TESSERA_CUDA(cudaStreamBeginCapture(captured, cudaStreamCaptureModeThreadLocal));
  std::exception_ptr failure;
  try {
    work();
  } catch (...) {
    failure = std::current_exception();
  }
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t made = nullptr;
  const cudaError_t ended = cudaStreamEndCapture(captured, &graph);
  try {
    if (failure) std::rethrow_exception(failure);
    TESSERA_CUDA(ended);
    // What was given to a stream of high priority keeps it, wherever the graph is launched.
    TESSERA_CUDA(cudaGraphInstantiate(&made, graph, cudaGraphInstantiateFlagUseNodePriority));
  } catch (...) {
    if (graph) cudaGraphDestroy(graph);
    cudaGetLastError();  // not the next call's
    throw;
  }
  cudaGraphDestroy(graph);
  graph_ = made;
}

RecordedWork::~RecordedWork() { cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(graph_)); }

void RecordedWork::launch(void* stream) const {
  TESSERA_CUDA(cudaGraphLaunch(static_cast<cudaGraphExec_t>(graph_), static_cast<cudaStream_t>(stream)));
}

std::uint64_t recording_of(void* stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  unsigned long long id = 0;
  TESSERA_CUDA(cudaStreamGetCaptureInfo(static_cast<cudaStream_t>(stream), &status, &id));
  return status == cudaStreamCaptureStatusNone ? 0 : id;
}

}  // namespace tessera
