// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/comm/communicator.hpp"

#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <utility>

#include "tessera/comm/launch.hpp"
#include "tessera/core/error.hpp"
#include "tessera/core/phase.hpp"
#include "tessera/core/reason.hpp"
#include "waiting.hpp"

namespace tessera {
namespace {

bool running = false;
bool adopted = false;  // MPI is somebody else's

void finalize() {
  if (!running) return;
  MPI_Finalize();
  running = false;
}

int count(std::size_t n) {
  TESSERA_EXPECT(n <= std::numeric_limits<int>::max(), "a message has ", n,
                 " elements (MPI counts are 32 bit) split it");
  return static_cast<int>(n);
}

constexpr double kPatience = 60;  // the others may be at work for a while

MPI_Op mpi_op(Reduce op) { return op == Reduce::sum ? MPI_SUM : op == Reduce::max ? MPI_MAX : MPI_MIN; }

std::string host_name() {
  char name[256] = {};
  ::gethostname(name, sizeof name - 1);
  return name;
}

}  // namespace

struct Communicator::Shared {
  MPI_Comm comm = MPI_COMM_NULL;
  int rank = 0, size = 1;
  bool owned = false;
  mutable int local_rank = -1, local_size = 0;

  Shared(MPI_Comm c, bool own) : comm(c), owned(own) {
    TESSERA_MPI(MPI_Comm_rank(comm, &rank));
    TESSERA_MPI(MPI_Comm_size(comm, &size));
    TESSERA_MPI(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
  }
  ~Shared() {
    if (owned && mpi_running()) MPI_Comm_free(&comm);
  }
  void find_local() const {
    if (local_rank >= 0) return;
    MPI_Comm node = MPI_COMM_NULL;
    TESSERA_MPI(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node));
    TESSERA_MPI(MPI_Comm_rank(node, &local_rank));
    TESSERA_MPI(MPI_Comm_size(node, &local_size));
    TESSERA_MPI(MPI_Comm_free(&node));
  }
};

void check_mpi(int code, const char* call, const char* file, int line) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw RunError(concat(file, ":", line, ": ", call, " failed (", text, ")"));
}

double patience(double usual) {
  const char* said = std::getenv("TESSERA_PATIENCE");
  return said ? std::min(std::atof(said), usual) : usual;
}

bool mpi_running() {
  if (running || !adopted) return running;
  int ended = 0;
  MPI_Finalized(&ended);
  return ended == 0;
}

void wait_until_read() {
  constexpr double kLongest = 2;
  if (!mpi_running()) return;
  struct stat about {};
  if (::fstat(STDERR_FILENO, &about) != 0) return;
  // Of a pipe what is in it, of a terminal or a socket what is still to go out.
  const unsigned long ask = S_ISFIFO(about.st_mode) ? FIONREAD : TIOCOUTQ;
  for (const double start = now(); now() - start < patience(kLongest); usleep(1000)) {
    int left = 0;
    if (::ioctl(STDERR_FILENO, ask, &left) != 0 || left == 0) return;
  }
}

MpiSession::MpiSession(int* argc, char*** argv) {
  if (!launched()) return;
  int provided = 0;
  TESSERA_MPI(MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &provided));
  running = true;
  // A message to a rank that was killed is an error that is told, not the silent end of this one.
  std::signal(SIGPIPE, SIG_IGN);
}

MpiSession::~MpiSession() { finalize(); }

void MpiSession::end(int code) {
  finalize();
#ifdef __SANITIZE_ADDRESS__
  std::exit(code);  // leaks are looked for there
#else
  std::fflush(nullptr);
  _exit(code);
#endif
}

Communicator Communicator::world() {
  Communicator c;
  if (running) {
    static const auto all = std::make_shared<const Shared>(MPI_COMM_WORLD, false);  // knows its node once
    c.shared_ = all;
  }
  return c;
}

Communicator Communicator::adopt(MPI_Comm handle) {
  TESSERA_EXPECT(handle != MPI_COMM_NULL, "no communicator was given to adopt");
  adopted = true;
  Communicator c;
  c.shared_ = std::make_shared<const Shared>(handle, false);
  return c;
}

int Communicator::rank() const { return shared_ ? shared_->rank : 0; }
int Communicator::size() const { return shared_ ? shared_->size : 1; }
int Communicator::local_rank() const {
  if (shared_) shared_->find_local();
  return shared_ ? shared_->local_rank : 0;
}
int Communicator::local_size() const {
  if (shared_) shared_->find_local();
  return shared_ ? shared_->local_size : 1;
}
MPI_Comm Communicator::handle() const { return shared_ ? shared_->comm : MPI_COMM_NULL; }

Communicator Communicator::split(int color, int key) const {
  Communicator c;
  if (!shared_) return c;
  MPI_Comm made = MPI_COMM_NULL;
  const Waiting waiting(kEverybody);
  TESSERA_MPI(MPI_Comm_split(shared_->comm, color < 0 ? MPI_UNDEFINED : color, key, &made));
  if (made != MPI_COMM_NULL) c.shared_ = std::make_shared<Shared>(made, true);
  return c;
}

Communicator Communicator::duplicate() const {
  Communicator c;
  if (!shared_) return c;
  MPI_Comm made = MPI_COMM_NULL;
  const Waiting waiting(kEverybody);
  TESSERA_MPI(MPI_Comm_dup(shared_->comm, &made));
  c.shared_ = std::make_shared<Shared>(made, true);
  return c;
}

void Communicator::barrier() const {
  const Waiting waiting(kEverybody);
  if (shared_) TESSERA_MPI(MPI_Barrier(shared_->comm));
}

void Communicator::all_reduce(std::span<double> values, Reduce op) const {
  const Waiting waiting(kEverybody);
  if (shared_)
    TESSERA_MPI(MPI_Allreduce(MPI_IN_PLACE, values.data(), count(values.size()), MPI_DOUBLE, mpi_op(op),
                              shared_->comm));
}

void Communicator::all_reduce(std::span<std::int64_t> values, Reduce op) const {
  const Waiting waiting(kEverybody);
  if (shared_)
    TESSERA_MPI(MPI_Allreduce(MPI_IN_PLACE, values.data(), count(values.size()), MPI_INT64_T, mpi_op(op),
                              shared_->comm));
}

void Communicator::broadcast(void* bytes, std::int64_t total, int root) const {
  if (!shared_) return;
  const Waiting waiting(kEverybody);
  constexpr std::int64_t kChunk = 1 << 30;
  for (std::int64_t done = 0; done < total; done += kChunk) {
    const auto part = static_cast<int>(std::min(kChunk, total - done));
    TESSERA_MPI(MPI_Bcast(static_cast<char*>(bytes) + done, part, MPI_BYTE, root, shared_->comm));
  }
}

std::string Communicator::broadcast(const std::string& text, int root) const {
  std::int64_t length = static_cast<std::int64_t>(text.size());
  broadcast(&length, sizeof length, root);
  std::string out = text;
  out.resize(static_cast<std::size_t>(length));
  broadcast(out.data(), length, root);
  return out;
}

std::vector<std::string> Communicator::gather(const std::string& text, int root) const {
  if (!shared_) return {text};
  const Waiting waiting(kEverybody);
  const int length = count(text.size());
  std::vector<int> lengths(static_cast<std::size_t>(size())), starts(lengths.size());
  TESSERA_MPI(MPI_Gather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT, root, shared_->comm));
  std::string all;
  if (rank() == root) {
    std::int64_t total = 0;
    for (std::size_t r = 0; r < lengths.size(); ++r) {
      starts[r] = static_cast<int>(total);
      total += lengths[r];
    }
    all.resize(static_cast<std::size_t>(count(static_cast<std::size_t>(total))));
  }
  TESSERA_MPI(MPI_Gatherv(text.data(), length, MPI_CHAR, all.data(), lengths.data(), starts.data(), MPI_CHAR,
                          root, shared_->comm));
  std::vector<std::string> out;
  if (rank() == root)
    for (std::size_t r = 0; r < lengths.size(); ++r)
      out.push_back(all.substr(static_cast<std::size_t>(starts[r]), static_cast<std::size_t>(lengths[r])));
  return out;
}

std::vector<double> Communicator::all_gather(double value) const {
  std::vector<double> all(static_cast<std::size_t>(size()), value);
  const Waiting waiting(kEverybody);
  if (shared_) TESSERA_MPI(MPI_Allgather(&value, 1, MPI_DOUBLE, all.data(), 1, MPI_DOUBLE, shared_->comm));
  return all;
}

Communicator::Pending::Pending(Pending&& other) noexcept
    : request_(std::exchange(other.request_, MPI_REQUEST_NULL)) {}
Communicator::Pending& Communicator::Pending::operator=(Pending&& other) noexcept {
  std::swap(request_, other.request_);
  return *this;
}
Communicator::Pending::~Pending() {
  if (request_ != MPI_REQUEST_NULL && mpi_running()) MPI_Wait(&request_, MPI_STATUS_IGNORE);
}
bool Communicator::Pending::progress() {
  int done = 1;
  if (request_ != MPI_REQUEST_NULL) TESSERA_MPI(MPI_Test(&request_, &done, MPI_STATUS_IGNORE));
  return done != 0;
}
void Communicator::Pending::wait() {
  if (request_ == MPI_REQUEST_NULL) return;
  const double start = now();
  const Waiting waiting(kEverybody);
  TESSERA_MPI(MPI_Wait(&request_, MPI_STATUS_IGNORE));
  count_wait(now() - start);
}

Communicator::Pending Communicator::all_reduce_begin(std::span<double> values) const {
  Pending pending;
  if (shared_)
    TESSERA_MPI(MPI_Iallreduce(MPI_IN_PLACE, values.data(), count(values.size()), MPI_DOUBLE, MPI_SUM,
                               shared_->comm, &pending.request_));
  return pending;
}

void Communicator::together(const std::function<void()>& work) const {
  std::string problem;  // its first letter says of what kind
  try {
    work();
  } catch (const DamageError& e) {
    problem = concat('d', e.what());
  } catch (const InputError& e) {
    problem = concat('i', e.what());
  } catch (const std::exception& e) {
    problem = concat('r', reason(e));
  }
  int first = problem.empty() ? size() : rank();
  if (shared_) {
    const Waiting waiting(kEverybody);
    // Ends before what it writes to does, also where a call below fails.
    struct Vote {
      MPI_Request request = MPI_REQUEST_NULL;
      ~Vote() {
        if (request != MPI_REQUEST_NULL) MPI_Wait(&request, MPI_STATUS_IGNORE);
      }
    } vote;
    TESSERA_MPI(MPI_Iallreduce(MPI_IN_PLACE, &first, 1, MPI_INT, MPI_MIN, shared_->comm, &vote.request));
    int done = 0;
    for (const double start = now(); !problem.empty() && !done; usleep(1000)) {
      TESSERA_MPI(MPI_Test(&vote.request, &done, MPI_STATUS_IGNORE));
      if (done || now() - start < patience(kPatience)) continue;
      std::fprintf(stderr, "tessera: rank %d failed: %s\n", rank(), problem.c_str() + 1);
      abort(problem[0] == 'r' ? 3 : 2);
    }
    TESSERA_MPI(MPI_Wait(&vote.request, MPI_STATUS_IGNORE));
  }
  if (first == size()) return;
  // Nodes may see other files than the first one, which alone the user looks at.
  if (const std::string host = host_name(), others = first > 0 ? broadcast(host, 0) : host;
      rank() == first && host != others)
    problem += concat(" [rank ", first, ", on ", host, "]");
  problem = broadcast(problem, first);
  const auto fail = [](auto error) {
    error.everywhere = true;
    throw error;
  };
  const std::string message = problem.substr(1);
  if (problem[0] == 'd') fail(DamageError(message));
  if (problem[0] == 'i') fail(InputError(message));
  fail(RunError(message));
}

void Communicator::abort(int code) const {
  std::fflush(nullptr);
  wait_until_read();
  if (shared_) MPI_Abort(MPI_COMM_WORLD, code);
  std::_Exit(code);
}

}  // namespace tessera
