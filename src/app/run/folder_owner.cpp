// SPDX-License-Identifier: BSD-3-Clause
#include "run/folder_owner.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>
#include <utility>

#include "tessera/app/run_status.hpp"
#include "tessera/core/error.hpp"
#include "tessera/core/phase.hpp"

namespace tessera {
namespace {

using Json = nlohmann::json;

constexpr double kTouched = 5;  // seconds between two touches

// What stands at the path: nothing where there is no file, or it cannot be read.
struct Found {
  bool there = false;
  std::string id, host, process, since;
  std::int64_t pid = 0;
  ino_t file = 0;
  timespec touched{};
  bool same_as(const Found& o) const {
    return file == o.file && touched.tv_sec == o.touched.tv_sec && touched.tv_nsec == o.touched.tv_nsec;
  }
};

// Opened anew each time: that is when a network file system looks again.
Found look(const std::string& path) {
  Found f;
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) {
    f.there = errno != ENOENT;
    return f;
  }
  f.there = true;
  struct stat about {};
  if (::fstat(fd, &about) == 0) {
    f.file = about.st_ino;
    f.touched = about.st_mtim;
  }
  char text[4096];
  const ssize_t n = ::read(fd, text, sizeof text);
  ::close(fd);
  try {
    const Json j = Json::parse(text, text + std::max<ssize_t>(n, 0));
    f.id = j.at("id");
    f.host = j.at("host");
    f.process = j.at("process");
    f.pid = j.at("pid");
    f.since = j.at("started");
  } catch (const Json::exception&) {
    // Just being written, or harmed: whether it is touched tells.
  }
  return f;
}

// Whether its owner is gone; waits where that takes watching. InputError where it is not.
bool abandoned(const std::string& taken, const std::string& path, const std::string& key) {
  const Found first = look(path);
  const auto refuse = [&](const Found& f) {
    throw InputError(concat(taken, " is in use (tessera on ", f.host.empty() ? "another host" : f.host,
                            ", process ", f.pid, ", writes into it since ", f.since,
                            ") wait for it, stop it, or name another ", key));
  };
  bool said = false;
  for (const double start = now(); now() - start < FolderOwner::kSilence; ::usleep(200000)) {
    beat();
    const Found f = look(path);
    if (!f.there) return true;
    const ProcessState state = f.id.empty() ? ProcessState::unknown : process_state(f.process, f.pid);
    if (state == ProcessState::alive || (state == ProcessState::unknown && !f.same_as(first))) refuse(f);
    if (state == ProcessState::gone) return true;
    if (!std::exchange(said, true))
      std::fprintf(stderr,
                   "tessera: %s was in use by a program on %s: seeing for %.0f s whether it still is\n",
                   taken.c_str(), f.host.empty() ? "another host" : f.host.c_str(), FolderOwner::kSilence);
  }
  return true;
}

// Keeps two programs that saw the same dead owner apart, where the file system has locks.
class Lock {
 public:
  explicit Lock(const std::string& folder) : fd_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    for (int i = 0; i < 50 && ::flock(fd_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK; ++i)
      ::usleep(100000);
  }
  ~Lock() {
    if (fd_ >= 0) ::close(fd_);
  }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  int fd_;
};

}  // namespace

FolderOwner::FolderOwner(std::string taken, std::string key)
    : taken_(std::move(taken)), key_(std::move(key)) {
  std::error_code none;
  const bool folder = std::filesystem::is_directory(taken_, none);
  folder_ = folder ? taken_ : std::filesystem::absolute(taken_).parent_path().string();
  path_ = folder ? taken_ + "/" + kFile : taken_ + "." + kFile;
  std::random_device random;
  id_ = concat(random(), '-', random());
  take();
  thread_ = std::thread([this] { touch(); });
}

FolderOwner::~FolderOwner() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
  if (look(path_).id == id_) ::unlink(path_.c_str());
  if (fd_ >= 0) ::close(fd_);
}

// Whether the file could be made: not where there is one.
bool FolderOwner::make() {
  const auto fail = [&](int error) {
    throw InputError(concat("cannot write ", path_, " (", std::strerror(error), ") name another ", key_));
  };
  fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
  if (fd_ < 0 && errno == EEXIST) return false;
  if (fd_ < 0) fail(errno);
  char host[256] = {}, since[64];
  ::gethostname(host, sizeof host - 1);
  const std::time_t t = std::time(nullptr);
  std::strftime(since, sizeof since, "%Y-%m-%d %H:%M:%S %z", std::localtime(&t));
  const std::string text = Json{{"id", id_},
                                {"host", host},
                                {"pid", static_cast<std::int64_t>(::getpid())},
                                {"process", process_identity(::getpid())},
                                {"started", since}}
                               .dump(2, ' ', false, Json::error_handler_t::replace) +
                           "\n";
  errno = ENOSPC;  // of a short write
  if (::write(fd_, text.data(), text.size()) == static_cast<ssize_t>(text.size())) return true;
  const int error = errno;
  ::unlink(path_.c_str());
  ::close(std::exchange(fd_, -1));
  fail(error);
  return false;
}

void FolderOwner::take() {
  constexpr int kAttempts = 20;  // each lost to another program that took it meanwhile
  for (int i = 0; i < kAttempts; ++i) {
    {
      const Lock lock(folder_);
      if (make()) return;
    }
    const std::string before = look(path_).id;
    if (!abandoned(taken_, path_, key_)) continue;
    const Lock lock(folder_);
    if (const Found f = look(path_); f.there && f.id == before) ::unlink(path_.c_str());
    if (make()) return;
  }
  throw InputError(concat(taken_, " cannot be taken (", path_,
                          " is in the way) see whether another program runs in it, and remove the file"));
}

void FolderOwner::require() const {
  const Found f = look(path_);
  if (f.there && (f.id == id_ || f.id.empty())) return;  // what cannot be read now is no sign
  throw RunError(
      f.there ? concat("tessera on ", f.host, ", process ", f.pid, ", has taken ", taken_,
                       " over (this one stood still for long, and was taken for lost) that one goes on")
              : concat(path_, " is gone (somebody removed it, or moved ", taken_,
                       ") start again where it is now, a run with --resume"));
}

void FolderOwner::touch() {
  sigset_t all;  // signals belong to the main thread
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, std::chrono::duration<double>(kTouched), [this] { return over_; }))
    ::futimens(fd_, nullptr);
}

}  // namespace tessera
