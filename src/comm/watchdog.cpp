// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/comm/watchdog.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <list>
#include <mutex>
#include <optional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "heartbeat_board.hpp"
#include "tessera/core/error.hpp"
#include "tessera/core/phase.hpp"
#include "waiting.hpp"

namespace tessera {
namespace {

// --- Last words: only async-signal-safe calls from here to the next line of this kind.

constexpr int kSignals[] = {SIGTERM, SIGABRT};

struct sigaction before[2];
int speaker = 0;  // this rank in the launch
std::atomic<bool> spoken{false};
bool watches = false;  // there is a watchdog
struct Words {
  std::string file, folder;
};
std::atomic<const Words*> words_of_run{nullptr};  // where last words go too; kept until the program ends

// stderr, and the file: a launcher that is ending the job may drop what comes by the first way.
void say(const char* text, std::size_t length) {
  [[maybe_unused]] ssize_t ignored = ::write(STDERR_FILENO, text, length);
  const Words* to = words_of_run;
  if (!to) return;
  ::mkdir(to->folder.c_str(), 0777);
  const int file = ::open(to->file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (file < 0) return;
  ignored = ::write(file, text, length);
  ::close(file);
}

class Line {
 public:
  Line& operator<<(const char* text) {
    while (*text && length_ < sizeof text_ - 1) text_[length_++] = *text++;
    return *this;
  }
  Line& operator<<(std::int64_t value) {
    char digits[24];
    int n = 0;
    do digits[n++] = static_cast<char>('0' + value % 10);
    while ((value /= 10) > 0);
    while (n > 0 && length_ < sizeof text_ - 1) text_[length_++] = digits[--n];
    return *this;
  }
  void print() {
    text_[length_++] = '\n';
    say(text_, length_);
  }

 private:
  char text_[256];
  std::size_t length_ = 0;
};

void last_words(int signal, siginfo_t* info, void* context) {
  const int saved = errno;
  struct sigaction& old = before[signal == SIGTERM ? 0 : 1];
  const bool ends = !(old.sa_flags & SA_SIGINFO) && old.sa_handler == SIG_DFL;
  if (!spoken.exchange(true)) {
    const Heartbeat h = heartbeat();
    const int peer = waiting_peer().load();
    Line line;
    line << "rank " << speaker << (ends ? " was ended by " : " got ")
         << (signal == SIGTERM ? "SIGTERM" : "SIGABRT") << " in " << name(h.phase);
    if (h.iteration < 0)
      line << ", before the first iteration";
    else
      line << ", iteration " << h.iteration;
    if (peer >= 0)
      line << " (it waited for rank " << peer << ")";
    else if (peer == kEverybody)
      line << " (it waited for all ranks)";
    line.print();
  }
  if (old.sa_flags & SA_SIGINFO) {
    old.sa_sigaction(signal, info, context);
  } else if (ends) {
    ::sigaction(signal, &old, nullptr);
    ::raise(signal);  // delivered when this handler returns
  } else if (old.sa_handler != SIG_IGN) {
    old.sa_handler(signal);
  }
  errno = saved;
}

// ---

// In shared memory, or where that is full or not to be written.
std::vector<std::string> default_folders(const Communicator& comm) {
  const char* job = std::getenv("SLURM_JOB_ID");
  // Nobody else can know it before it is there.
  const std::string name =
      comm.broadcast(concat("/tessera-", ::getuid(), '-', job ? concat(job, '-') : std::string(),
                            std::random_device()(), '-', ::getpid()),
                     0);
  return {"/dev/shm" + name, "/tmp" + name};
}

int world_rank() {
  int rank = 0;
  if (mpi_running()) TESSERA_MPI(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
  return rank;
}

int world_size() {
  int size = 1;
  if (mpi_running()) TESSERA_MPI(MPI_Comm_size(MPI_COMM_WORLD, &size));
  return size;
}

}  // namespace

struct Watchdog::Impl {
  Communicator comm;
  double limit;  // under the mutex
  int rank;      // in the launch
  int launched;  // ranks of it
  std::optional<HeartbeatBoard> board;
  std::mutex mutex;
  std::condition_variable wake;
  bool stop = false;
  std::thread thread;
  bool around = watches;          // whether there is a watchdog around this one
  bool took[2] = {false, false};  // the signals, from somebody else

  Impl(const Communicator& c, double seconds, const std::string& folder, const std::string& words_to)
      : comm(c), limit(seconds), rank(world_rank()), launched(world_size()) {
    if (!words_to.empty()) speak_to(words_to);
    const std::vector<std::string> folders =
        folder.empty() ? default_folders(comm) : std::vector<std::string>{folder};
    comm.together([&] { board.emplace(folders, rank); });
    comm.barrier();
    board->publish(heartbeat(), kNobody);
    board->join(launched);
    comm.barrier();  // nobody removes a file before everybody has mapped it
    board->vanish();
    speaker = rank;
    spoken = false;
    watches = true;
    install();
    thread = std::thread([this] { watch(); });
  }

  static void speak_to(const std::string& file) {
    static std::list<Words> all;
    words_of_run =
        file.empty() ? nullptr : &all.emplace_back(Words{file, file.substr(0, file.find_last_of('/'))});
  }

  void set(double seconds, const std::string& words_to) {
    speak_to(words_to);
    install();
    const std::lock_guard lock(mutex);
    limit = seconds;
    wake.notify_all();
  }

  ~Impl() {
    {
      const std::lock_guard lock(mutex);
      stop = true;
    }
    wake.notify_all();
    if (thread.joinable()) thread.join();
    for (std::size_t i = 0; i < 2; ++i)
      if (took[i]) ::sigaction(kSignals[i], &before[i], nullptr);
    watches = around;
    if (!around) words_of_run = nullptr;
  }

  // Before whoever takes the signals now.
  void install() {
    struct sigaction action {};
    action.sa_sigaction = last_words;
    action.sa_flags = SA_SIGINFO | SA_RESTART;  // a write in progress goes on
    sigemptyset(&action.sa_mask);
    for (std::size_t i = 0; i < 2; ++i) {
      struct sigaction now_there {};
      ::sigaction(kSignals[i], nullptr, &now_there);
      if ((now_there.sa_flags & SA_SIGINFO) && now_there.sa_sigaction == last_words) continue;
      before[i] = now_there;
      took[i] = true;
      ::sigaction(kSignals[i], &action, nullptr);
    }
  }

  void watch() {
    sigset_t all;  // signals belong to the main thread, whose phase is told
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
    std::unique_lock lock(mutex);
    for (double slept = now(); !stop; slept = now()) {
      const double interval = limit > 0 ? std::clamp(limit / 20, 0.02, 1.0) : 1.0;
      wake.wait_for(lock, std::chrono::duration<double>(interval));
      if (stop) return;
      if (const double excess = now() - slept - interval; excess > interval) board->forgive(excess);
      board->publish(heartbeat(), waiting_peer().load());
      const std::vector<Sighting> seen = board->look();
      const std::string verdict = limit > 0 ? diagnose(seen, rank, limit, launched) : "";
      if (!verdict.empty()) end(verdict);
    }
  }

  [[noreturn]] void end(const std::string& verdict) {
    if (board->claim_verdict()) {
      const std::string line = verdict + '\n';
      say(line.data(), line.size());
      wait_until_read();
    } else {
      std::this_thread::sleep_for(std::chrono::seconds(2));  // another rank speaks and ends the job
    }
    spoken = true;  // one line is enough
    // The main thread hangs, perhaps inside MPI: if MPI cannot end the job either, the launcher sees this
    // process go.
    ::signal(SIGALRM, SIG_DFL);
    ::alarm(10);
    sigset_t alarm;
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    pthread_sigmask(SIG_UNBLOCK, &alarm, nullptr);
    if (mpi_running()) MPI_Abort(MPI_COMM_WORLD, 3);
    std::_Exit(3);
  }
};

Watchdog::Watchdog(const Communicator& comm, double limit_seconds, const std::string& folder,
                   const std::string& words)
    : impl_(std::make_unique<Impl>(comm, limit_seconds, folder, words)) {}
Watchdog::~Watchdog() = default;
void Watchdog::set(double limit_seconds, const std::string& words) { impl_->set(limit_seconds, words); }

}  // namespace tessera
