// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/app/signals.hpp"

#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>

namespace tessera {
namespace {

constexpr std::array kSignals = {SIGUSR1, SIGUSR2, SIGTERM, SIGINT};
// Another thread may run the handler at the same time.
std::atomic<bool> usr1 = false, term = false, heard = false;
static_assert(std::atomic<bool>::is_always_lock_free);
bool speaks = false;  // this rank says that it heard
bool ending = false;  // with an exit code of its own
std::atomic<bool> listens = false;
std::array<struct sigaction, kSignals.size()> before;
struct sigaction before_pipe;

// Async-signal-safe: flags and write().
void note(int signal) {
  constexpr char kText[] =
      "\ntessera: asked to stop: a checkpoint comes after the iterations under way (Ctrl-C now ends at "
      "once)\n";
  if (!listens) {  // the watchdog, which is asked first, may hand on to who has gone
    std::signal(signal, SIG_DFL);
    ::raise(signal);
    return;
  }
  (signal == SIGUSR1 ? usr1 : term) = true;
  std::signal(SIGINT, SIG_DFL);  // before anybody can read the line
  if (heard.exchange(true) || !speaks) return;
  const int kept = errno;
  [[maybe_unused]] const auto written = write(STDERR_FILENO, kText, sizeof kText - 1);
  errno = kept;
}

}  // namespace

StopSignals::StopSignals(bool says) {
  usr1 = term = heard = false;
  speaks = says;
  ending = false;
  listens = true;
  struct sigaction action {};
  action.sa_handler = note;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;  // a write in progress goes on
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &action, &before[i]);
  action.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &action, &before_pipe);
}

StopSignals::~StopSignals() {
  // A signal that reaches this rank later than others, or twice, would end it with another code.
  if (ending) return;
  listens = false;
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &before[i], nullptr);
  sigaction(SIGPIPE, &before_pipe, nullptr);
}

bool StopSignals::seen() { return usr1 || term; }

int StopSignals::exit_code(const Communicator& comm) {
  std::int64_t code = term ? kTerminated : usr1 ? kRequeue : 0;
  comm.all_reduce(std::span<std::int64_t>(&code, 1), Reduce::max);
  ending = code != 0;
  return static_cast<int>(code);
}

}  // namespace tessera
