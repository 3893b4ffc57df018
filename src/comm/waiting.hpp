// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>

namespace tessera {

/// For whom this rank waits, said to the watchdog's thread.
constexpr int kNobody = -2;
constexpr int kEverybody = -1;  // a collective call

inline std::atomic<int>& waiting_peer() {
  static std::atomic<int> peer{kNobody};
  return peer;
}

/// Waiting for a peer (its rank in the launch) or for everybody, from construction to destruction.
class Waiting {
 public:
  explicit Waiting(int world_rank) : before_(waiting_peer().exchange(world_rank)) {}
  ~Waiting() { waiting_peer().store(before_); }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  int before_;
};

}  // namespace tessera
