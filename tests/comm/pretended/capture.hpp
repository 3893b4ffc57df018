// SPDX-License-Identifier: BSD-3-Clause
// Streams whose operations are recorded in place of being run, and what CUDA forbids meanwhile.
#pragma once

#include <set>
#include <thread>

#include "schedule.hpp"

namespace tessera::test::pretended {

struct Recorded {
  std::string what;
  std::vector<Range> ranges;
  std::function<bool()> ready;
  std::function<void()> run;
  cudaStream_t stream;
  std::set<std::size_t> after;  // operations of the capture
};

struct Capture {
  unsigned long long id = 0;
  cudaStream_t origin = nullptr;
  std::thread::id thread;
  bool ended = false, broken = false;
  std::vector<Recorded> operations;
  std::map<cudaStream_t, std::set<std::size_t>> tails;  // what a stream's next operation comes after

  /// What comes before one of these, themselves included.
  std::set<std::size_t> before(const std::set<std::size_t>& last) const {
    std::set<std::size_t> all;
    std::vector<std::size_t> open(last.begin(), last.end());
    while (!open.empty()) {
      const std::size_t i = open.back();
      open.pop_back();
      if (all.insert(i).second)
        open.insert(open.end(), operations[i].after.begin(), operations[i].after.end());
    }
    return all;
  }
};

/// A graph that can be launched: each stream of the capture becomes one of the device's own.
struct Launchable {
  std::vector<Recorded> operations;
  std::map<cudaStream_t, cudaStream_t> streams;
};

/// The capture that a stream is in; null: none.
std::shared_ptr<Capture> capture_of(cudaStream_t stream);
/// cudaErrorStreamCaptureUnsupported, with a finding, where this thread is capturing; the capture is lost.
cudaError_t forbidden(const char* call);
/// Puts an operation behind what its stream has recorded.
void record(const std::shared_ptr<Capture>& capture, Recorded operation);
cudaError_t misuse(const std::string& finding, cudaError_t code, const std::shared_ptr<Capture>& lost = {});

}  // namespace tessera::test::pretended
