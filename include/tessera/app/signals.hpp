// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "tessera/comm/communicator.hpp"

namespace tessera {

constexpr int kRequeue = 85;     // exit code: checkpointed after SIGUSR1, wants to be started again
constexpr int kTerminated = 86;  // exit code: checkpointed after one of the others

/// From construction to destruction SIGUSR1 (the time limit is near), SIGTERM (preemption, scancel), SIGINT
/// (Ctrl-C) and SIGUSR2 (either of these, through a launcher that keeps them from its ranks) only ask for an
/// end: a flag is set, and the run looks at it where it can stop. Later ones change nothing, so that a write
/// is never cut; only SIGINT ends the process then, as it does by default. Once exit_code() has said that the
/// run ends by one, that holds until the process ends. SIGPIPE is ignored: a run does not end because nobody
/// reads what it says. One per process.
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
