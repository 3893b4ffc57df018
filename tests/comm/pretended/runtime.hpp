// SPDX-License-Identifier: BSD-3-Clause
// A stand-in for the CUDA runtime and NCCL, linked in their place: for tests of comm on machines without a
// GPU.
//
// Device memory is host memory, streams are queues. An operation may lie in its queue for a while though it
// could run, another stream may overtake, copies from pageable memory land late, NCCL takes a group long
// after the call returned: all that the manuals allow. Kernels run as their host bodies (pack_body.hpp),
// NCCL's messages travel over MPI. Independent of what really happened, every operation carries a vector
// clock, and two accesses to one allocation, one of them a write, that no event, stream order or wait of the
// host puts in order are reported as a race; MPI's own reading and writing of device and pinned memory counts
// too.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace tessera::test::pretended {

struct Behavior {
  unsigned seed = 1;
  int gpus = 1;
  double latest = 2e-3;           // seconds that an operation may lie in its stream though it could run
  bool nccl_refuses = false;      // joining a communicator fails on this rank
  bool nccl_never_joins = false;  // ... or never ends
  bool nccl_group_fails = false;  // groups fail on this rank
  bool nccl_group_hangs = false;  // groups of this rank never move anything
};
/// From now on.
void behave(const Behavior& behavior);
/// Races and misuse since the last call, each once.
std::vector<std::string> findings();
/// Devices on which this process has allocated or enqueued anything.
std::set<int> devices_in_use();

/// By stream (0: the host), how many of its operations have happened before.
using Clock = std::map<int, std::uint64_t>;

struct Range {
  const void* begin = nullptr;
  std::size_t bytes = 0;  // 0: the whole allocation
  bool write = false;
};

// For the stand-in's own files. All under the one lock that `with_lock` holds.
const Behavior& behavior();
void with_lock(const std::function<void()>& work);
bool chance(double probability);
void report(const std::string& finding);
/// Puts an operation behind what the stream holds. `ready` is asked until true, then `run` happens.
void enqueue(cudaStream_t stream, const std::string& what, const std::vector<Range>& ranges,
             std::function<bool()> ready, std::function<void()> run);
/// An access by MPI that begins now, unless the memory is nobody's; ends when end_access() is called.
struct Access;
std::shared_ptr<Access> begin_access(const Range& range, const std::string& what);
void end_access(const std::shared_ptr<Access>& access);

}  // namespace tessera::test::pretended
