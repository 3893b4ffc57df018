// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "tessera/comm/communicator.hpp"

namespace tessera {

constexpr int kRequeue =
    85;  // exit code: ended by SIGUSR1, a run with a checkpoint: wants to be started again
constexpr int kTerminated = 86;  // exit code: ended by one of the others

// Both classes listen to SIGUSR1 (the time limit is near), SIGTERM (preemption, scancel), SIGINT (Ctrl-C), SIGHUP (the
// terminal or the connection is gone; not under nohup), SIGXCPU (the time of a processor is up) and SIGUSR2 (any of these,
// through a launcher that keeps them from its ranks).

/// From construction to the end of the process each of them ends it at once with one of these exit codes: files that are
/// half written are removed. For commands that have nothing to save. One per process.
class EndSignals {
 public:
  /// `says`: one line on standard error (rank 0).
  explicit EndSignals(bool says);
  EndSignals(const EndSignals&) = delete;
  EndSignals& operator=(const EndSignals&) = delete;
};

/// From construction to destruction they only ask for an end: a flag is set, and the run looks at it where it can stop.
/// Later ones change nothing, so that a write is never cut; only SIGINT ends the process then, as it does by default. Once
/// exit_code() has said that the run ends by one, that holds until the process ends. SIGPIPE is ignored: a run does not
/// end because nobody reads what it says. One per process.
class StopSignals {
 public:
  /// `says`: one line on standard error at the first signal (rank 0).
  explicit StopSignals(bool says);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// Whether this rank got one.
  static bool seen();
  /// Collective. 0, kRequeue, or kTerminated where any rank got another than SIGUSR1.
  static int exit_code(const Communicator& comm);
};

}  // namespace tessera
