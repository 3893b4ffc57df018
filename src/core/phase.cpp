// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/core/phase.hpp"

#include <nvtx3/nvToolsExt.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <deque>
#include <utility>

#include "tessera/core/error.hpp"
#include "tessera/core/memory.hpp"

namespace tessera {
namespace {

constexpr std::size_t kKinds = static_cast<std::size_t>(Phase::other) + 1;
constexpr std::size_t kKept = 1 << 16;  // records kept when nobody takes them

const auto program_start = std::chrono::steady_clock::now();

struct Open {
  PhaseRecord record;
  double children = 0;
  std::int64_t begin = -1;  // the device's mark
};

// A record whose device may still be under way.
struct Finished {
  PhaseRecord record;
  std::size_t depth = 0;
  std::int64_t begin = -1, end = -1;
};

std::vector<Open> open_scopes;
std::deque<Finished> finished;  // children before their parents
std::unique_ptr<DeviceClock> device_clock;
std::vector<double> device_inside;  // by depth: of scopes whose parent has not been read

// Whether the device has passed its end.
bool read_device(Finished& f) {
  if (!device_clock || f.begin < 0 || f.end < 0) return true;
  if (!device_clock->passed(f.end)) return false;
  const double whole = device_clock->between(f.begin, f.end);
  device_clock->forget(f.begin);
  device_clock->forget(f.end);
  device_inside.resize(std::max(device_inside.size(), f.depth + 2));
  f.record.device_seconds = std::max(0.0, whole - std::exchange(device_inside[f.depth + 1], 0.0));
  device_inside[f.depth] += whole;
  return true;
}

void forget(const Finished& f) {
  for (const std::int64_t mark : {f.begin, f.end})
    if (mark >= 0) device_clock->forget(mark);
}

// Read by the watchdog's thread.
std::atomic<int> current{static_cast<int>(Phase::other)};
std::atomic<std::int64_t> current_iteration{-1};
std::atomic<std::uint64_t> beats{0};
std::atomic<double> current_start{0};
std::array<std::atomic<double>, kKinds> slowest{};

/// The phases as ranges in the domain "tessera", for Nsight Systems; without such a tool each call is one
/// test of a pointer.
class Ranges {
 public:
  Ranges() : domain_(nvtxDomainCreateA("tessera")) {
    for (std::size_t i = 0; i < kKinds; ++i)
      names_[i] = nvtxDomainRegisterStringA(domain_, name(static_cast<Phase>(i)));
  }
  void push(Phase phase) const {
    nvtxEventAttributes_t range{};
    range.version = NVTX_VERSION;
    range.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    range.category = static_cast<std::uint32_t>(phase) + 1;
    range.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
    range.message.registered = names_[static_cast<std::size_t>(phase)];
    nvtxDomainRangePushEx(domain_, &range);
  }
  void pop() const { nvtxDomainRangePop(domain_); }

 private:
  nvtxDomainHandle_t domain_;
  std::array<nvtxStringHandle_t, kKinds> names_{};
};

const Ranges& ranges() {
  static const Ranges all;
  return all;
}

void enter(Phase phase, double start) {
  current_start.store(start, std::memory_order_relaxed);
  current.store(static_cast<int>(phase), std::memory_order_relaxed);
  beats.fetch_add(1, std::memory_order_release);
}

}  // namespace

const char* name(Phase phase) {
  static constexpr std::array<const char*, kKinds> names = {"load",       "halo",    "operator", "adjoint",
                                                            "prox",       "denoise", "reduce",   "metrics",
                                                            "checkpoint", "write",   "other"};
  return names.at(static_cast<std::size_t>(phase));
}

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - program_start).count();
}

PhaseScope::PhaseScope(Phase phase) {
  Open scope;
  scope.record.phase = phase;
  scope.record.parent = open_scopes.empty() ? Phase::other : open_scopes.back().record.phase;
  scope.record.iteration = current_iteration.load(std::memory_order_relaxed);
  scope.record.start = now();
  if (device_clock) scope.begin = device_clock->mark();
  memory_begin_peak();
  enter(phase, scope.record.start);
  open_scopes.push_back(scope);
  ranges().push(phase);
}

PhaseScope::~PhaseScope() {
  ranges().pop();
  Open scope = open_scopes.back();
  open_scopes.pop_back();
  PhaseRecord& r = scope.record;
  const double end = now();
  r.seconds = end - r.start;
  r.own_seconds = r.seconds - scope.children;
  r.allocated_bytes = memory_now();
  r.peak_bytes = memory_end_peak();
  r.resident_bytes = resident_bytes();
  auto& longest = slowest[static_cast<std::size_t>(r.phase)];
  longest.store(std::max(longest.load(std::memory_order_relaxed), r.seconds), std::memory_order_relaxed);
  while (finished.size() >= kKept) {
    forget(finished.front());
    finished.pop_front();
  }
  finished.push_back({r, open_scopes.size(), scope.begin, scope.begin < 0 ? -1 : device_clock->mark()});
  if (open_scopes.empty()) {
    enter(Phase::other, end);
  } else {
    open_scopes.back().children += r.seconds;
    enter(open_scopes.back().record.phase, end);
  }
}

void count_sent(std::int64_t bytes, std::int64_t messages) {
  if (open_scopes.empty()) return;
  open_scopes.back().record.bytes_sent += bytes;
  open_scopes.back().record.messages += messages;
}
void count_received(std::int64_t bytes) {
  if (!open_scopes.empty()) open_scopes.back().record.bytes_received += bytes;
}
void count_wait(double seconds) {
  if (!open_scopes.empty()) open_scopes.back().record.wait_seconds += seconds;
}
void count_flight(double seconds) {
  if (!open_scopes.empty()) open_scopes.back().record.flight_seconds += seconds;
}

std::vector<PhaseRecord> take_phases() {
  std::vector<PhaseRecord> taken;
  for (; !finished.empty() && read_device(finished.front()); finished.pop_front())
    taken.push_back(finished.front().record);
  return taken;
}

void set_device_clock(std::unique_ptr<DeviceClock> clock) {
  for (Finished& f : finished) {
    forget(f);
    f.begin = f.end = -1;
  }
  for (Open& scope : open_scopes) {
    if (scope.begin >= 0) device_clock->forget(scope.begin);
    scope.begin = -1;
  }
  device_inside.clear();
  device_clock = std::move(clock);
}
bool has_device_clock() { return device_clock != nullptr; }

Heartbeat heartbeat() {
  Heartbeat h;
  h.beats = beats.load(std::memory_order_acquire);
  const int phase = current.load(std::memory_order_relaxed);
  h.phase = static_cast<Phase>(phase);
  h.iteration = current_iteration.load(std::memory_order_relaxed);
  h.since = now() - current_start.load(std::memory_order_relaxed);
  h.slowest = slowest[static_cast<std::size_t>(phase)].load(std::memory_order_relaxed);
  return h;
}
void beat() { beats.fetch_add(1, std::memory_order_release); }
void set_iteration(std::int64_t iteration) { current_iteration.store(iteration, std::memory_order_relaxed); }

}  // namespace tessera
