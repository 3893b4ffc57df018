// SPDX-License-Identifier: BSD-3-Clause
#include "heartbeat_board.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <new>
#include <set>
#include <utility>

#include "tessera/core/error.hpp"
#include "waiting.hpp"

namespace tessera {
namespace {

// Null, and errno, where it cannot be. `make`: a file that is not there yet; else one of this user.
BeatFile* map_file(const std::string& path, bool make) {
  const int fd = ::open(path.c_str(), (make ? O_CREAT | O_EXCL : 0) | O_RDWR | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0) return nullptr;
  void* memory = MAP_FAILED;
  struct stat about {};
  if (make) errno = ::posix_fallocate(fd, 0, sizeof(BeatFile));  // on a full disk now, not by SIGBUS later
  const bool good = make ? errno == 0
                         : ::fstat(fd, &about) == 0 && about.st_uid == ::geteuid() &&
                               about.st_size == static_cast<off_t>(sizeof(BeatFile));
  if (good) memory = ::mmap(nullptr, sizeof(BeatFile), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  const int error = errno;
  ::close(fd);
  if (make && memory == MAP_FAILED) ::unlink(path.c_str());
  errno = error;
  return memory == MAP_FAILED ? nullptr : static_cast<BeatFile*>(memory);
}

// A folder of this user alone: made, or found so.
bool own_folder(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) == 0) return true;
  struct stat about {};
  if (errno != EEXIST || ::lstat(path.c_str(), &about) != 0) return false;
  errno = EPERM;
  return S_ISDIR(about.st_mode) && about.st_uid == ::geteuid() && (about.st_mode & 077) == 0;
}

std::string file_of(const std::string& folder, int rank) { return concat(folder, "/rank-", rank); }

std::string where(const Sighting& s) {
  return s.iteration < 0 ? concat(name(s.phase), ", before the first iteration")
                         : concat(name(s.phase), ", iteration ", s.iteration);
}

std::string seconds(double s) { return concat(static_cast<std::int64_t>(std::floor(s)), " s"); }

const Sighting* find(const std::vector<Sighting>& ranks, int rank) {
  for (const Sighting& s : ranks)
    if (s.rank == rank) return &s;
  return nullptr;
}

/// What a process that stands still said last may be old: it is not taken to wait for anybody.
bool waits(const Sighting& s, double limit) { return s.waiting_for != kNobody && s.silent < limit / 2; }

/// Of those that wait for nobody the quietest; null if all wait.
const Sighting* idle_one(const std::vector<Sighting>& ranks, double limit) {
  const Sighting* found = nullptr;
  for (const Sighting& s : ranks)
    if (!waits(s, limit) && (!found || s.quiet > found->quiet)) found = &s;
  return found;
}

bool hangs(const Sighting& s, double limit) { return s.quiet > std::max(limit, 5 * s.slowest); }

}  // namespace

HeartbeatBoard::HeartbeatBoard(std::vector<std::string> folders, int world_rank)
    : folders_(std::move(folders)), rank_(world_rank) {
  std::string failures;
  for (const std::string& folder : folders_) {
    own_ = file_of(folder, rank_);
    const bool usable = own_folder(folder);
    BeatFile* mine = usable ? map_file(own_, true) : nullptr;
    if (mine) {
      seen_[rank_].file = new (mine) BeatFile;
      return;
    }
    failures += concat(failures.empty() ? "" : ", ", folder, ": ", std::strerror(errno));
    if (usable) ::rmdir(folder.c_str());  // stays where another rank's file is in it
  }
  throw RunError(concat("heartbeats cannot be written (", failures, ") free space there"));
}

HeartbeatBoard::~HeartbeatBoard() {
  for (auto& [rank, seen] : seen_) ::munmap(seen.file, sizeof(BeatFile));
  vanish();
}

void HeartbeatBoard::vanish() {
  if (own_.empty()) return;
  ::unlink(own_.c_str());
  for (const std::string& folder : folders_) ::rmdir(folder.c_str());  // succeeds for the last rank
  own_.clear();
}

void HeartbeatBoard::join(int ranks) {
  for (int r = 0; r < ranks; ++r)
    for (const std::string& folder : folders_)
      if (r != rank_ && !seen_.contains(r))
        if (BeatFile* other = map_file(file_of(folder, r), false)) seen_[r].file = other;
  for (auto& [rank, seen] : seen_) seen.changed = seen.alive = now();
}

void HeartbeatBoard::publish(const Heartbeat& beat, int waiting_for) {
  BeatFile& mine = *seen_[rank_].file;
  mine.iteration.store(beat.iteration, std::memory_order_relaxed);
  mine.phase.store(static_cast<int>(beat.phase), std::memory_order_relaxed);
  mine.waiting_for.store(waiting_for, std::memory_order_relaxed);
  mine.slowest.store(beat.slowest, std::memory_order_relaxed);
  mine.pulse.fetch_add(1, std::memory_order_relaxed);
  mine.beats.store(beat.beats, std::memory_order_release);
}

std::vector<Sighting> HeartbeatBoard::look() {
  std::vector<Sighting> out;
  for (auto& [rank, seen] : seen_) {
    Sighting s;
    s.rank = rank;
    s.beats = seen.file->beats.load(std::memory_order_acquire);
    s.iteration = seen.file->iteration.load(std::memory_order_relaxed);
    s.phase = static_cast<Phase>(seen.file->phase.load(std::memory_order_relaxed));
    s.waiting_for = seen.file->waiting_for.load(std::memory_order_relaxed);
    s.slowest = seen.file->slowest.load(std::memory_order_relaxed);
    if (s.beats != seen.beats) {
      seen.beats = s.beats;
      seen.changed = now();
    }
    s.quiet = now() - seen.changed;
    if (const std::uint64_t pulse = seen.file->pulse.load(std::memory_order_relaxed); pulse != seen.pulse) {
      seen.pulse = pulse;
      seen.alive = now();
    }
    s.silent = now() - seen.alive;
    out.push_back(s);
  }
  return out;
}

void HeartbeatBoard::forgive(double seconds) {
  for (auto& [rank, seen] : seen_) {
    seen.changed += seconds;
    seen.alive += seconds;
  }
}

bool HeartbeatBoard::claim_verdict() { return !seen_.begin()->second.file->verdict.exchange(true); }

std::string diagnose(const std::vector<Sighting>& ranks, int self, double limit, int launched) {
  constexpr const char* kAdvice = " see its last line in log.txt";
  const Sighting* me = find(ranks, self);
  if (!me || !hangs(*me, limit)) return {};

  // Follow who waits for whom, from this rank to the one that everything waits for.
  std::set<int> passed;
  const Sighting* at = me;
  while (waits(*at, limit) && passed.insert(at->rank).second) {
    const Sighting* next =
        at->waiting_for == kEverybody ? idle_one(ranks, limit) : find(ranks, at->waiting_for);
    if (!next && at->waiting_for >= 0) {  // a rank of another node
      if (me->quiet < 2 * limit) return {};
      return concat("rank ", at->rank, " waited ", seconds(at->quiet), " for rank ", at->waiting_for, " in ",
                    where(*at), " (rank ", at->waiting_for, ", on another node, sent nothing)", kAdvice);
    }
    if (!next) break;
    at = next;
  }
  if (waits(*at, limit)) {
    // Where one has just come to where the others wait, they are about to go on.
    if (std::any_of(ranks.begin(), ranks.end(), [&](const Sighting& s) { return !hangs(s, limit); }))
      return {};
    const Sighting* behind = &*std::min_element(
        ranks.begin(), ranks.end(), [](const Sighting& a, const Sighting& b) { return a.beats < b.beats; });
    if (at->waiting_for == kEverybody && me->quiet < 2 * limit) return {};  // one of another node may come
    const bool all_here = static_cast<std::size_t>(launched) <= ranks.size();
    return concat("rank ", behind->rank, " waited ", seconds(behind->quiet), " for ",
                  behind->waiting_for < 0 ? std::string("the others") : concat("rank ", behind->waiting_for),
                  " in ", where(*behind), " (every rank ",
                  all_here ? "waits for another) see the last lines of all in log.txt"
                           : "of this node waits) see what another node says in log/, and the network");
  }
  if (!hangs(*at, limit)) return {};  // the one that is waited for still works

  const Sighting* waiter = at == me ? nullptr : me;
  for (const Sighting& s : ranks)
    if (!waiter && waits(s, limit)) waiter = &s;
  for (const Sighting& s : ranks)
    if (waits(s, limit) && s.waiting_for == at->rank) waiter = &s;  // who waits for it by name says more
  if (!waiter)
    return concat("rank ", at->rank, " has not advanced for ", seconds(at->quiet), " in ", where(*at),
                  " (longer than the limit of ", seconds(limit), ")", kAdvice);
  const bool still = at->silent >= limit / 2;
  return concat("rank ", waiter->rank, " waited ", seconds(waiter->quiet), " for rank ", at->rank, " in ",
                where(*waiter), " (rank ", at->rank,
                " sent nothing: ", still ? "its process stands still, last seen in " : "in ", where(*at),
                ", for ", seconds(at->quiet), ")", kAdvice);
}

}  // namespace tessera
