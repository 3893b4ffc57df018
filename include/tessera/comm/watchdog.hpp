// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>
#include <string>

#include "tessera/comm/communicator.hpp"

namespace tessera {

/// A thread that ends the job when a rank hangs, and says which rank, peer, phase and iteration.
///
/// A rank is hung when its heartbeat has not advanced for longer than `limit_seconds` and than five times its
/// slowest such phase. Every rank's thread publishes its heartbeat in memory that the ranks of a node share (a file of
/// `folder`, when empty of /dev/shm, or of /tmp where that is full, which is gone when all have mapped it), so that a
/// waiting rank can name the one that does not come. Ends by MPI_Abort with code 3. On SIGTERM and SIGABRT of a dying job (a peer was killed) every survivor writes one line with its
/// phase and iteration to stderr and to the file `words` (its folder is made then), because a launcher that
/// is ending a job may lose what goes to stderr. Time that a process is suspended (SIGSTOP of the whole job)
/// does not count. Construction is collective; RunError on all ranks where there is no place for heartbeats. One
/// per process, from the start to the end of a command; a second one inside of its life leaves it the signals.
/// Limit 0: it watches nobody, and only speaks last words.
class Watchdog {
 public:
  Watchdog(const Communicator& comm, double limit_seconds, const std::string& folder = "",
           const std::string& words = "");
  ~Watchdog();
  /// Another limit and file from here on; before the handlers of signals that were installed meanwhile.
  void set(double limit_seconds, const std::string& words);
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tessera
