// SPDX-License-Identifier: BSD-3-Clause
// The stand-in's own state: streams as queues whose operations run late and out of each other's order, and who
// knows of whom.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <random>
#include <thread>

#include "runtime.hpp"
#include "tessera/core/error.hpp"

namespace tessera::test::pretended {

struct Access {
  const char *lo, *hi;
  bool write;
  int who;             // stream, 0: the host
  std::uint64_t when;  // in who's own time
  bool open;           // has not ended
  std::string what;
};

inline double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

inline void join(Clock& into, const Clock& other) {
  for (const auto& [who, when] : other) into[who] = std::max(into[who], when);
}

struct Operation {
  std::string what;
  std::function<bool()> ready;
  std::function<void()> run;
  double not_before;
};
struct Stream {
  int id = 0;
  std::deque<Operation> queue;
  Clock last;
  std::uint64_t given = 0;  // operations so far, recorded ones too
  bool busy = false;        // its head is running
};
struct Capture;
struct Event {
  bool recorded = false;
  std::shared_ptr<Capture> capture;  // in which it was recorded; null: none
  std::set<std::size_t> after;       // there
  Clock clock;
  struct State {
    bool done = false;
    double at = 0;
  };
  std::shared_ptr<State> state = std::make_shared<State>();
};
struct Allocation {
  std::size_t bytes;
  bool pinned;
  std::deque<std::shared_ptr<Access>> accesses;
};

struct Runtime {
  std::recursive_mutex mutex;
  Behavior how;
  std::mt19937 random{1};
  std::map<const char*, Allocation> memory;
  std::map<cudaStream_t, std::unique_ptr<Stream>> streams;  // null: the default one
  int streams_made = 0;
  std::map<cudaStream_t, std::shared_ptr<Capture>> capturing;
  unsigned long long captures = 0;
  Clock host;
  std::set<std::string> found;
  std::set<int> devices;
  std::map<const void*, std::string> kernels;  // host stub -> name
  std::thread progress;
  bool stopping = false;

  static Runtime& get() {
    static auto& r = *new Runtime;  // outlives everything: static destructors of others call in
    return r;
  }

  Stream& stream(cudaStream_t s) {
    auto& slot = streams[s];
    if (!slot) {
      slot = std::make_unique<Stream>();
      slot->id = ++streams_made;
    }
    return *slot;
  }

  Allocation* find(const void* p, const char** base = nullptr) {
    const auto* at = static_cast<const char*>(p);
    auto it = memory.upper_bound(at);
    if (it == memory.begin()) return nullptr;
    --it;
    if (at >= it->first + std::max<std::size_t>(it->second.bytes, 1)) return nullptr;
    if (base) *base = it->first;
    return &it->second;
  }

  std::shared_ptr<Access> access(const Range& range, const Clock& clock, int who, bool open,
                                 const std::string& what) {
    const char* base = nullptr;
    Allocation* a = find(range.begin, &base);
    if (!a) return nullptr;
    const char* lo = range.bytes ? static_cast<const char*>(range.begin) : base;
    const char* hi = range.bytes ? lo + range.bytes : base + a->bytes;
    const auto known = [&](const Access& old) {
      const auto it = clock.find(old.who);
      return !old.open && it != clock.end() && it->second >= old.when;
    };
    for (const auto& old : a->accesses)
      if ((old->write || range.write) && old->lo < hi && lo < old->hi && !known(*old))
        report(concat("race: ", what, range.write ? " writes" : " reads", " what ", old->what,
                      old->write ? " writes" : " reads", ", and nothing orders them"));
    const auto own = clock.find(who);
    auto made = std::make_shared<Access>(
        Access{lo, hi, range.write, who, own == clock.end() ? 0 : own->second, open, what});
    a->accesses.push_back(made);
    if (a->accesses.size() > 64) a->accesses.pop_front();
    return made;
  }

  /// Runs one operation, of a stream taken by chance, that may run now.
  bool step() {
    std::vector<Stream*> order;
    for (auto& [handle, s] : streams)
      if (!s->queue.empty() && !s->busy) order.push_back(s.get());
    std::shuffle(order.begin(), order.end(), random);
    for (Stream* s : order) {
      Operation& head = s->queue.front();
      if (head.not_before > seconds() || (head.ready && !head.ready())) continue;
      s->busy = true;
      head.run();
      s->queue.pop_front();
      s->busy = false;
      return true;
    }
    return false;
  }

  void wait_until(const char* who, const std::function<bool()>& done) {
    const double start = seconds();
    for (;;) {
      {
        const std::lock_guard lock(mutex);
        if (done()) return;
        if (step()) continue;
        if (seconds() - start > 60) {
          std::string held;
          for (auto& [handle, s] : streams)
            if (!s->queue.empty()) held += concat(" [", s->id, ": ", s->queue.front().what, ']');
          std::fprintf(stderr, "%s waits for ever; streams stand at%s\n", who, held.c_str());
          std::abort();
        }
      }
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }

  bool idle() const {
    return std::all_of(streams.begin(), streams.end(), [](const auto& s) { return s.second->queue.empty(); });
  }
  void join_all() {
    for (auto& [handle, s] : streams) join(host, s->last);
  }

  /// A device works on while the host is elsewhere.
  void start() {
    if (progress.joinable()) return;
    progress = std::thread([this] {
      for (;;) {
        {
          const std::lock_guard lock(mutex);
          if (stopping) return;
          if (step()) continue;
        }
        std::this_thread::sleep_for(std::chrono::microseconds(50));
      }
    });
    std::atexit([] {
      Runtime& r = get();
      {
        const std::lock_guard lock(r.mutex);
        r.stopping = true;
      }
      r.progress.join();
    });
  }
};

inline thread_local int device_now = 0;
inline thread_local cudaError_t last_error = cudaSuccess;

template <class Work>
cudaError_t locked(Work work) {
  Runtime& r = Runtime::get();
  const std::lock_guard lock(r.mutex);
  r.start();
  work(r);
  return cudaSuccess;
}

}  // namespace tessera::test::pretended
