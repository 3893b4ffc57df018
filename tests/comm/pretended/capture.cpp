// SPDX-License-Identifier: BSD-3-Clause
#include "capture.hpp"

using namespace tessera::test::pretended;
using tessera::concat;

namespace tessera::test::pretended {

std::shared_ptr<Capture> capture_of(cudaStream_t stream) {
  const auto& all = Runtime::get().capturing;
  const auto it = all.find(stream);
  return it == all.end() ? nullptr : it->second;
}

cudaError_t misuse(const std::string& finding, cudaError_t code, const std::shared_ptr<Capture>& lost) {
  report(finding);
  if (lost) lost->broken = true;
  return last_error = code;
}

cudaError_t forbidden(const char* call) {
  Runtime& r = Runtime::get();
  const std::lock_guard lock(r.mutex);
  for (const auto& [stream, capture] : r.capturing)
    if (capture->thread == std::this_thread::get_id())
      return misuse(concat(call, " while this thread captures"), cudaErrorStreamCaptureUnsupported, capture);
  return cudaSuccess;
}

void record(const std::shared_ptr<Capture>& capture, Recorded operation) {
  std::set<std::size_t>& tail = capture->tails[operation.stream];
  operation.after = tail;
  tail = {capture->operations.size()};
  capture->operations.push_back(std::move(operation));
}

namespace {

// As enqueue() does for an operation, at every launch anew.
void launch(Launchable& graph, cudaStream_t stream) {
  Runtime& r = Runtime::get();
  const auto begun = std::make_shared<bool>(false);
  enqueue(stream, "the start of a graph", {}, nullptr, [begun] { *begun = true; });
  const Clock start = r.stream(stream).last;
  std::vector<std::shared_ptr<bool>> done;
  std::vector<Clock> clocks;
  for (const Recorded& o : graph.operations) {
    cudaStream_t& own = graph.streams[o.stream];
    if (!own) own = reinterpret_cast<cudaStream_t>(static_cast<std::uintptr_t>(0x100000 + r.streams_made));
    Stream& s = r.stream(own);
    join(s.last, start);
    std::vector<std::shared_ptr<bool>> wanted = {begun};
    for (const std::size_t i : o.after) {
      join(s.last, clocks[i]);
      wanted.push_back(done[i]);
    }
    ++s.last[s.id];
    for (const Range& range : o.ranges) {
      if (!r.find(range.begin)) report(concat("a graph's operation uses memory that is freed: ", o.what));
      r.access(range, s.last, s.id, false, concat(o.what, " of a graph"));
    }
    clocks.push_back(s.last);
    done.push_back(std::make_shared<bool>(false));
    const auto ready = [wanted, own_ready = o.ready] {
      return std::all_of(wanted.begin(), wanted.end(), [](const auto& d) { return *d; }) &&
             (!own_ready || own_ready());
    };
    const auto run = [work = o.run, mine = done.back()] {
      work();
      *mine = true;
    };
    const double wait = std::uniform_real_distribution<double>(0, r.how.latest)(r.random);
    s.queue.push_back({o.what, ready, run, chance(0.5) ? 0 : seconds() + wait});
  }
  for (const Clock& clock : clocks) join(r.stream(stream).last, clock);
  enqueue(
      stream, "the end of a graph", {},
      [done] { return std::all_of(done.begin(), done.end(), [](const auto& d) { return *d; }); }, [] {});
}

}  // namespace
}  // namespace tessera::test::pretended

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  cudaError_t code = cudaSuccess;
  locked([&](Runtime& r) {
    if (!stream || capture_of(stream)) {
      code =
          misuse("a capture of the default stream, or within a capture", cudaErrorStreamCaptureUnsupported);
      return;
    }
    if (mode != cudaStreamCaptureModeThreadLocal) report("a capture that other threads' calls would end");
    auto capture = std::make_shared<Capture>();
    capture->id = ++r.captures;
    capture->origin = stream;
    capture->thread = std::this_thread::get_id();
    capture->tails[stream] = {};
    r.capturing[stream] = capture;
  });
  return code;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  cudaError_t code = cudaSuccess;
  *graph = nullptr;
  locked([&](Runtime& r) {
    const auto capture = capture_of(stream);
    if (!capture || capture->origin != stream) {
      code = misuse("the end of a capture that did not begin here", cudaErrorIllegalState);
      return;
    }
    std::erase_if(r.capturing, [&](const auto& pair) { return pair.second == capture; });
    capture->ended = true;
    if (capture->broken)
      code = cudaErrorStreamCaptureInvalidated;
    else if (capture->before(capture->tails[stream]).size() < capture->operations.size())
      code = misuse("a stream that joined a capture has not been waited for again",
                    cudaErrorStreamCaptureUnjoined);
    else
      *graph = reinterpret_cast<cudaGraph_t>(new std::shared_ptr<Capture>(capture));
    if (!*graph) capture->operations.clear();
  });
  return code;
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                     unsigned long long* id, cudaGraph_t*, const cudaGraphNode_t**,
                                     const cudaGraphEdgeData**, std::size_t*) {
  return locked([&](Runtime&) {
    const auto capture = capture_of(stream);
    *status = !capture          ? cudaStreamCaptureStatusNone
              : capture->broken ? cudaStreamCaptureStatusInvalidated
                                : cudaStreamCaptureStatusActive;
    if (capture && id) *id = capture->id;
  });
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* made, cudaGraph_t graph, unsigned long long) {
  return locked([&](Runtime&) {
    *made = reinterpret_cast<cudaGraphExec_t>(
        new Launchable{(*reinterpret_cast<std::shared_ptr<Capture>*>(graph))->operations, {}});
  });
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return locked([&](Runtime&) {
    auto* capture = reinterpret_cast<std::shared_ptr<Capture>*>(graph);
    (*capture)->operations.clear();  // events may still name it
    delete capture;
  });
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {  // what has been launched still runs
  return locked([&](Runtime&) { delete reinterpret_cast<Launchable*>(graph); });
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
  cudaError_t code = cudaSuccess;
  locked([&](Runtime&) {
    if (const auto capture = capture_of(stream))
      code = misuse("a graph is launched into a capture", cudaErrorStreamCaptureUnsupported, capture);
    else
      launch(*reinterpret_cast<Launchable*>(graph), stream);
  });
  return code;
}

}  // extern "C"
