// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/app/signals.hpp"

#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "tessera/core/leftovers.hpp"

namespace tessera {
namespace {

struct Known {
  int signal;
  const char* name;
};
constexpr std::array kSignals = {
    Known{SIGUSR1, "SIGUSR1"}, Known{SIGUSR2, "SIGUSR2 (sent for Ctrl-C and the like)"},
    Known{SIGTERM, "SIGTERM"}, Known{SIGINT, "SIGINT"},
    Known{SIGHUP, "SIGHUP"},   Known{SIGXCPU, "SIGXCPU"}};
// Another thread may run the handler at the same time.
std::atomic<bool> usr1 = false, term = false, heard = false;
static_assert(std::atomic<bool>::is_always_lock_free);
bool speaks = false;  // this rank says that it heard
bool ending = false;  // with an exit code of its own
std::atomic<bool> listens = false;
std::array<struct sigaction, kSignals.size()> before;
struct sigaction before_pipe;

void say(const char* text) {
  [[maybe_unused]] const auto written = write(STDERR_FILENO, text, std::strlen(text));
}

// A second Ctrl-C. Async-signal-safe.
void cut(int signal) {
  remove_leftovers();
  std::signal(signal, SIG_DFL);
  ::raise(signal);
}

// Async-signal-safe: flags and write().
void note(int signal) {
  if (!listens) {  // the watchdog, which is asked first, may hand on to who has gone
    std::signal(signal, SIG_DFL);
    ::raise(signal);
    return;
  }
  (signal == SIGUSR1 ? usr1 : term) = true;
  std::signal(SIGINT, cut);  // before anybody can read the line
  if (heard.exchange(true) || !speaks) return;
  const int kept = errno;
  say("\ntessera: asked to stop: a checkpoint comes after the iterations under way (Ctrl-C now ends at "
      "once)\n");
  errno = kept;
}

// Async-signal-safe.
void end(int signal) {
  remove_leftovers();
  if (speaks && !heard.exchange(true))
    for (const Known& known : kSignals)
      if (known.signal == signal)
        for (const char* text : {"\ntessera: ended by ", known.name, ": nothing was left half done\n"})
          say(text);
  ::_exit(signal == SIGUSR1 ? kRequeue : kTerminated);
}

void listen(void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;  // a write in progress goes on
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    sigaction(kSignals[i].signal, nullptr, &before[i]);
    const bool hangup_ignored = kSignals[i].signal == SIGHUP && before[i].sa_handler == SIG_IGN;  // nohup
    if (!hangup_ignored) sigaction(kSignals[i].signal, &action, nullptr);
  }
}

}  // namespace

EndSignals::EndSignals(bool says) {
  heard = false;
  speaks = says;
  listen(end);
}

StopSignals::StopSignals(bool says) {
  usr1 = term = heard = false;
  speaks = says;
  ending = false;
  listens = true;
  listen(note);
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &ignore, &before_pipe);
}

StopSignals::~StopSignals() {
  // A signal that reaches this rank later than others, or twice, would end it with another code.
  if (ending) return;
  listens = false;
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i].signal, &before[i], nullptr);
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
