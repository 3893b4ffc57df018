// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tessera/core/phase.hpp"
#include "waiting.hpp"

namespace tessera {

/// A rank's last heartbeat, in a file that the ranks of a node map.
struct BeatFile {
  std::atomic<std::uint64_t> beats{0};
  std::atomic<std::int64_t> iteration{-1};
  std::atomic<std::uint64_t> pulse{0};  // grows as long as the watchdog's thread runs
  std::atomic<int> phase{static_cast<int>(Phase::other)};
  std::atomic<int> waiting_for{kNobody};  // waiting.hpp
  std::atomic<double> slowest{0};         // longest finished phase of this kind, seconds
  std::atomic<bool> verdict{false};       // of the lowest rank's file: somebody ends the job
};

/// What this rank knows about one rank.
struct Sighting {
  int rank = 0;  // in the launch
  std::uint64_t beats = 0;
  std::int64_t iteration = -1;
  Phase phase = Phase::other;
  int waiting_for = 0;
  double slowest = 0;
  double quiet = 0;   // seconds since `beats` was seen to grow
  double silent = 0;  // seconds since the pulse was: a process that stands still, whatever it said last
};

/// The heartbeats of the ranks whose files this one can see: those of its node.
class HeartbeatBoard {
 public:
  /// Makes this rank's file in the first of the folders that takes it (shared memory may be full), and the
  /// folder: mode 0700, one that is there has to be this user's alone. Links are not followed. Errors: RunError,
  /// where none takes it.
  HeartbeatBoard(std::vector<std::string> folders, int world_rank);
  ~HeartbeatBoard();
  HeartbeatBoard(const HeartbeatBoard&) = delete;
  HeartbeatBoard& operator=(const HeartbeatBoard&) = delete;

  /// Maps the files of ranks 0 .. ranks-1 that are there. Call when all ranks have made theirs.
  void join(int ranks);
  /// Removes this rank's file, and the folder with its last file; what is mapped stays mapped. Call when all ranks have
  /// joined: nothing is left behind then, however they end.
  void vanish();
  void publish(const Heartbeat& beat, int waiting_for);
  /// This process stood still for so long (SIGSTOP, a suspended job): nobody's silence counts meanwhile.
  void forgive(double seconds);
  /// All ranks seen, this one included, ascending.
  std::vector<Sighting> look();
  /// True for one caller of all ranks: who speaks.
  bool claim_verdict();

 private:
  struct Seen {
    BeatFile* file = nullptr;
    std::uint64_t beats = 0, pulse = 0;
    double changed = 0, alive = 0;  // now() when beats, and the pulse, last grew
  };
  std::vector<std::string> folders_;
  std::string own_;  // file
  int rank_;
  std::map<int, Seen> seen_;
};

/// What a hang is called; empty while nobody hangs. `limit` in seconds. Pure.
///
/// A rank that waits for another is not the one that hangs: the chain is followed to the rank that waits for
/// nobody. Ranks that nobody here can see (of other nodes) get twice the time, since their own node speaks
/// first. When all wait for each other, the one with the fewest heartbeats is named. `launched`: ranks in all,
/// where they are not all of this node.
std::string diagnose(const std::vector<Sighting>& ranks, int self, double limit, int launched = 0);

}  // namespace tessera
