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
#include "tessera/core/scratch.hpp"

namespace tessera {
namespace {

constexpr std::size_t kKinds = static_cast<std::size_t>(Phase::other) + 1;
constexpr std::size_t kKept = 1 << 16;  // records kept when nobody takes them

const auto program_start = std::chrono::steady_clock::now();

struct Open {
  PhaseRecord record;
  double children = 0;
  DiskTraffic before{}, inside{};  // of the process when it began; of its children
  std::int64_t begin = -1;         // the device's mark
};

// A record whose device may still be under way.
struct Finished {
  PhaseRecord record;
  std::size_t depth = 0;
  std::int64_t begin = -1, end = -1;
};

// Read by the watchdog's thread: where the process is, whoever records.
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

double since_program_start() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - program_start).count();
}

void enter(Phase phase) {
  current_start.store(since_program_start(), std::memory_order_relaxed);
  current.store(static_cast<int>(phase), std::memory_order_relaxed);
  beats.fetch_add(1, std::memory_order_release);
}

}  // namespace

struct Recorder::Impl {
  std::chrono::steady_clock::time_point begin;
  std::vector<Open> open;
  std::deque<Finished> finished;  // children before their parents
  std::unique_ptr<DeviceClock> clock;
  std::vector<double> inside;  // by depth: device's seconds of scopes whose parent has not been read
  std::int64_t iteration = -1;

  double now() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
  void forget(const Finished& f) {
    for (const std::int64_t mark : {f.begin, f.end})
      if (mark >= 0) clock->forget(mark);
  }
  // Whether the device has passed its end.
  bool read_device(Finished& f) {
    if (!clock || f.begin < 0 || f.end < 0) return true;
    if (!clock->passed(f.end)) return false;
    const double whole = clock->between(f.begin, f.end);
    forget(f);
    inside.resize(std::max(inside.size(), f.depth + 2));
    f.record.device_seconds = std::max(0.0, whole - std::exchange(inside[f.depth + 1], 0.0));
    inside[f.depth] += whole;
    return true;
  }
};

namespace {

// The process's own, which lives to its end: threads may still be inside of it then.
Recorder& of_process() {
  static auto* const recorder = [] {
    auto* r = new Recorder;
    r->impl().begin = program_start;
    return r;
  }();
  return *recorder;
}
std::atomic<bool> first_entered{true};
thread_local Recorder* entered = nullptr;

}  // namespace

Recorder::Recorder() : impl_(std::make_unique<Impl>()) { impl_->begin = std::chrono::steady_clock::now(); }
Recorder::~Recorder() {
  for (const Finished& f : impl_->finished) impl_->forget(f);
}

Recorder& Recorder::current() { return entered ? *entered : of_process(); }

Recorder::Entered::Entered(Recorder& recorder) : before_(std::exchange(entered, &recorder)) {
  TESSERA_EXPECT(recorder.impl().open.empty() && (!before_ || before_->impl().open.empty()),
                 "a recorder was entered inside of a phase (the phase would end in another one)");
  if (first_entered.exchange(false)) recorder.impl().begin = program_start;
  memory_reset_peak();
}
Recorder::Entered::~Entered() { entered = before_; }

namespace {
Recorder::Impl& here() { return Recorder::current().impl(); }
}  // namespace

const char* name(Phase phase) {
  static constexpr std::array<const char*, kKinds> names = {"load",       "halo",    "operator", "adjoint",
                                                            "prox",       "denoise", "reduce",   "metrics",
                                                            "checkpoint", "write",   "scratch",  "other"};
  return names.at(static_cast<std::size_t>(phase));
}

double now() { return here().now(); }

PhaseScope::PhaseScope(Phase phase) {
  Recorder::Impl& r = here();
  Open scope;
  scope.record.phase = phase;
  scope.record.parent = r.open.empty() ? Phase::other : r.open.back().record.phase;
  scope.record.iteration = r.iteration;
  scope.record.start = r.now();
  if (r.clock) scope.begin = r.clock->mark();
  if (has_scratch()) scope.before = disk_traffic();
  memory_begin_peak();
  enter(phase);
  r.open.push_back(scope);
  ranges().push(phase);
}

PhaseScope::~PhaseScope() {
  ranges().pop();
  Recorder::Impl& all = here();
  Open scope = all.open.back();
  all.open.pop_back();
  PhaseRecord& r = scope.record;
  const double end = all.now();
  r.seconds = end - r.start;
  r.own_seconds = r.seconds - scope.children;
  r.allocated_bytes = memory_now();
  r.peak_bytes = memory_end_peak();
  r.resident_bytes = resident_bytes();
  DiskTraffic disk;
  if (has_scratch() && scope.before.known()) {
    disk = disk_traffic() - scope.before;
    r.bytes_read = disk.read - scope.inside.read;
    r.bytes_written = disk.written - scope.inside.written;
  }
  auto& longest = slowest[static_cast<std::size_t>(r.phase)];
  longest.store(std::max(longest.load(std::memory_order_relaxed), r.seconds), std::memory_order_relaxed);
  while (all.finished.size() >= kKept) {
    all.forget(all.finished.front());
    all.finished.pop_front();
  }
  all.finished.push_back({r, all.open.size(), scope.begin, scope.begin < 0 ? -1 : all.clock->mark()});
  if (all.open.empty()) {
    enter(Phase::other);
  } else {
    all.open.back().children += r.seconds;
    all.open.back().inside += disk;
    enter(all.open.back().record.phase);
  }
}

void count_sent(std::int64_t bytes, std::int64_t messages) {
  Recorder::Impl& r = here();
  if (r.open.empty()) return;
  r.open.back().record.bytes_sent += bytes;
  r.open.back().record.messages += messages;
}
void count_received(std::int64_t bytes) {
  if (Recorder::Impl& r = here(); !r.open.empty()) r.open.back().record.bytes_received += bytes;
}
void count_wait(double seconds) {
  if (Recorder::Impl& r = here(); !r.open.empty()) r.open.back().record.wait_seconds += seconds;
}
void count_flight(double seconds) {
  if (Recorder::Impl& r = here(); !r.open.empty()) r.open.back().record.flight_seconds += seconds;
}

std::vector<PhaseRecord> take_phases() {
  Recorder::Impl& r = here();
  std::vector<PhaseRecord> taken;
  for (; !r.finished.empty() && r.read_device(r.finished.front()); r.finished.pop_front())
    taken.push_back(r.finished.front().record);
  return taken;
}

void set_device_clock(std::unique_ptr<DeviceClock> clock) {
  Recorder::Impl& r = here();
  for (Finished& f : r.finished) {
    r.forget(f);
    f.begin = f.end = -1;
  }
  for (Open& scope : r.open) {
    if (scope.begin >= 0) r.clock->forget(scope.begin);
    scope.begin = -1;
  }
  r.inside.clear();
  r.clock = std::move(clock);
}
bool has_device_clock() { return here().clock != nullptr; }

Heartbeat heartbeat() {
  Heartbeat h;
  h.beats = beats.load(std::memory_order_acquire);
  const int phase = current.load(std::memory_order_relaxed);
  h.phase = static_cast<Phase>(phase);
  h.iteration = current_iteration.load(std::memory_order_relaxed);
  h.since = since_program_start() - current_start.load(std::memory_order_relaxed);
  h.slowest = slowest[static_cast<std::size_t>(phase)].load(std::memory_order_relaxed);
  return h;
}
void beat() { beats.fetch_add(1, std::memory_order_release); }
void set_iteration(std::int64_t iteration) {
  here().iteration = iteration;
  current_iteration.store(iteration, std::memory_order_relaxed);
}

}  // namespace tessera
