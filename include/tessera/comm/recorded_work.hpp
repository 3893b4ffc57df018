// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <functional>

namespace tessera {

/// What a CUDA stream, and those that wait for it meanwhile, are given by one call, recorded instead of run:
/// a CUDA graph, launched as one as often as wanted.
///
/// Streams are cudaStream_t. Every stream that joined must be waited for again before `work` ends. While it
/// runs, this thread must neither wait for the device or ask it anything nor allocate on it, and waits for
/// events of before are refused. What was captured runs where the graph is launched: behind everything that
/// the launching stream had been given, before everything that it is given later, each operation with the
/// priority of the stream it was recorded from. Memory that the operations use, and NCCL's communicators, must
/// outlive this. Errors: RunError, or what `work` threw; the streams are as before then, and nothing has run.
class RecordedWork {
 public:
  /// `stream` is not the default one.
  RecordedWork(void* stream, const std::function<void()>& work);
  ~RecordedWork();
  RecordedWork(const RecordedWork&) = delete;
  RecordedWork& operator=(const RecordedWork&) = delete;

  void launch(void* stream) const;

 private:
  void* graph_ = nullptr;  // a cudaGraphExec_t
};

/// Which recording the stream belongs to; 0: none.
std::uint64_t recording_of(void* stream);

}  // namespace tessera
