// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/app/signals.hpp"

#include <csignal>

#include <array>

namespace tessera {
namespace {

volatile std::sig_atomic_t usr1 = 0, term = 0;
bool ending = false;  // with an exit code of its own
std::array<struct sigaction, 2> before;

void note(int signal) {
  if (signal == SIGTERM)
    term = 1;
  else
    usr1 = 1;
}

}  // namespace

StopSignals::StopSignals() {
  usr1 = 0;
  term = 0;
  ending = false;
  struct sigaction action {};
  action.sa_handler = note;
  action.sa_flags = SA_RESTART;  // a write in progress goes on
  sigemptyset(&action.sa_mask);
  sigaction(SIGUSR1, &action, &before[0]);
  sigaction(SIGTERM, &action, &before[1]);
}

StopSignals::~StopSignals() {
  // A signal that reaches this rank later than others, or twice, would end it with another code.
  if (ending) return;
  sigaction(SIGUSR1, &before[0], nullptr);
  sigaction(SIGTERM, &before[1], nullptr);
}

bool StopSignals::seen() { return usr1 != 0 || term != 0; }

int StopSignals::exit_code(const Communicator& comm) {
  std::int64_t code = term ? kTerminated : usr1 ? kRequeue : 0;
  comm.all_reduce(std::span<std::int64_t>(&code, 1), Reduce::max);
  ending = code != 0;
  return static_cast<int>(code);
}

}  // namespace tessera
