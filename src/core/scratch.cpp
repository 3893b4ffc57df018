// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/core/scratch.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <iterator>
#include <thread>
#include <utility>

#include "tessera/core/error.hpp"
#include "tessera/core/memory.hpp"
#include "tessera/core/units.hpp"

namespace tessera {
namespace {

constexpr std::int64_t kGrain = std::int64_t{1}
                                << 16;  // pieces begin and end on multiples of it: the largest page size
constexpr std::int64_t kChunk = std::int64_t{4} << 20;  // taken from the mapping at once

std::int64_t up(std::int64_t bytes) { return (bytes + kGrain - 1) / kGrain * kGrain; }

struct FileSystem {
  std::uint64_t magic;
  const char* name;
  bool in_memory = false, remote = false;
};
constexpr std::array kFileSystems = {FileSystem{0xEF53, "ext4"},
                                     FileSystem{0x58465342, "xfs"},
                                     FileSystem{0x9123683E, "btrfs"},
                                     FileSystem{0x2FC12FC1, "zfs"},
                                     FileSystem{0x794C7630, "overlayfs"},
                                     FileSystem{0x01021994, "tmpfs", true},
                                     FileSystem{0x858458F6, "ramfs", true},
                                     FileSystem{0x6969, "NFS", false, true},
                                     FileSystem{0x0BD00BD0, "Lustre", false, true},
                                     FileSystem{0x19830326, "BeeGFS", false, true},
                                     FileSystem{0x47504653, "GPFS", false, true},
                                     FileSystem{0x00C36400, "Ceph", false, true},
                                     FileSystem{0xFF534D42, "CIFS", false, true},
                                     FileSystem{0xFE534D42, "SMB", false, true},
                                     FileSystem{0x65735546, "FUSE", false, true}};

std::atomic<int> scratches{0};

std::string reason() { return std::strerror(errno); }

// This thread is soon there when it wakes, among others that compute: a short slice is an early turn. Only a wish: older
// kernels have none.
void ask_for_short_slices() {
  struct {
    std::uint32_t size = 48, policy = 0;
    std::uint64_t flags = 0;
    std::int32_t nice = 0;
    std::uint32_t priority = 0;
    std::uint64_t runtime = 100000, deadline = 0, period = 0;  // ns
  } wish;
  wish.nice = ::getpriority(PRIO_PROCESS, 0);
  ::syscall(SYS_sched_setattr, 0, &wish, 0);
}

// Without a name where the file system can, else with one for a moment.
int open_unnamed(const std::string& folder) {
  int file = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC | O_EXCL, 0600);
  if (file >= 0) return file;
  std::string name = folder + "/tessera-scratch-XXXXXX";
  file = ::mkostemp(name.data(), O_CLOEXEC);
  if (file >= 0) ::unlink(name.c_str());
  return file;
}

}  // namespace

ScratchDisk scratch_disk(const std::string& folder) {
  struct statfs found {};
  if (::statfs(folder.c_str(), &found) != 0)
    throw RunError(
        concat("no scratch file can lie in ", folder, " (", reason(), ") name another scratch_folder"));
  ScratchDisk disk;
  disk.free = static_cast<std::int64_t>(found.f_bavail) * static_cast<std::int64_t>(found.f_bsize);
  const auto magic = static_cast<std::uint64_t>(found.f_type) & 0xFFFFFFFFU;
  for (const FileSystem& known : kFileSystems)
    if (known.magic == magic) {
      disk.type = known.name;
      disk.in_memory = known.in_memory;
      disk.remote = known.remote;
    }
  return disk;
}

// Keeps what is resident below a limit: it goes around over the pieces and takes the pages of a chunk from the mapping,
// which leaves them where they are, in the kernel's cache; whoever touches one again gets it back for a fault, from the disk
// where the kernel had use for its place. Chunks that were taken away are written, so that they can be dropped.
class Scratch::Pager {
 public:
  Pager(Scratch& scratch, std::int64_t most)
      : scratch_(scratch), most_(most), watching_([this] { watch(); }), writing_([this] { write(); }) {}
  ~Pager() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      ended_ = true;
    }
    changed_.notify_all();
    watching_.join();
    writing_.join();
  }
  void fetch(const Piece& piece) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      fetched_.push_back(piece);
    }
    changed_.notify_all();
  }
  // By the thread that is about to fill a piece: where all cores compute, the one that watches comes late.
  void make_room() {
    if (resident_bytes() > most_) release();
  }
  // It is worked on now: taken last.
  void use(const Piece& piece) {
    const std::lock_guard<std::mutex> lock(mutex_);
    used_ += piece.bytes;
    const auto first = static_cast<std::size_t>(piece.offset / kChunk),
               last = static_cast<std::size_t>((piece.offset + piece.bytes - 1) / kChunk);
    if (used_at_.size() <= last) used_at_.resize(last + 1, kNever);
    for (std::size_t k = first; k <= last; ++k) used_at_[k] = used_;
  }
  // Nothing of it is written any more.
  void forget(const Piece& piece) {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::erase_if(queue_, [&](const Piece& p) {
      return piece.offset <= p.offset && p.offset < piece.offset + piece.bytes;
    });
  }

 private:
  void watch() {
    ask_for_short_slices();
    constexpr std::chrono::milliseconds kOften{1}, kSeldom{20};
    for (auto wait = kOften;;) {
      {
        std::unique_lock<std::mutex> lock(mutex_);
        if (changed_.wait_for(lock, wait, [this] { return ended_; })) return;
      }
      wait = resident_bytes() <= most_ || release() ? kOften : kSeldom;
    }
  }
  // One round at most. Whether it came below the limit.
  bool release() {
    const std::int64_t aim = most_ - most_ / 16;
    for (std::int64_t seen = 0; resident_bytes() > aim;) {
      const std::lock_guard<std::mutex> lock(scratch_.mutex_);  // no piece goes while its pages are taken
      if (seen >= 2 * scratch_.out_) return false;
      auto piece = scratch_.pieces_.upper_bound(hand_);
      if (piece != scratch_.pieces_.begin() && hand_ < end_of(*std::prev(piece)))
        --piece;
      else
        hand_ = (piece == scratch_.pieces_.end() ? piece = scratch_.pieces_.begin() : piece)->first;
      const std::int64_t within = hand_ - piece->first,
                         bytes = std::min(kChunk, piece->second.bytes - within);
      char* const data = std::exchange(hand_, hand_ + bytes);
      const Piece part{piece->second.offset + within, bytes};
      seen += bytes;
      if (seen <= scratch_.out_ && in_use(part)) continue;  // the second time around whatever there is
      ::madvise(data, static_cast<std::size_t>(bytes), MADV_DONTNEED);
      {
        const std::lock_guard<std::mutex> queue(mutex_);
        queue_.push_back(part);
      }
      changed_.notify_all();
    }
    return true;
  }
  // Among the last eighth of the memory that was asked for.
  bool in_use(const Piece& piece) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return used_lately(piece);
  }
  bool used_lately(const Piece& piece) const {
    const auto first = static_cast<std::size_t>(piece.offset / kChunk),
               last = static_cast<std::size_t>((piece.offset + piece.bytes - 1) / kChunk);
    for (std::size_t k = first; k <= last && k < used_at_.size(); ++k)
      if (used_at_[k] > used_ - most_ / 8) return true;
    return false;
  }
  static char* end_of(const std::pair<char* const, Piece>& piece) { return piece.first + piece.second.bytes; }
  void write() {
    for (;;) {
      Piece next{};
      bool read = false;
      {
        std::unique_lock<std::mutex> lock(mutex_);
        changed_.wait(lock, [this] { return ended_ || !queue_.empty() || !fetched_.empty(); });
        if (ended_) return;
        read = !fetched_.empty();  // somebody will wait for it
        std::deque<Piece>& from = read ? fetched_ : queue_;
        next = from.front();
        from.pop_front();
        if (!read && used_lately(next))
          continue;  // in use again since it was taken: it comes back when it is taken anew
      }
      if (read)
        ::posix_fadvise(scratch_.file_, next.offset, next.bytes, POSIX_FADV_WILLNEED);
      else
        ::sync_file_range(scratch_.file_, next.offset, next.bytes, SYNC_FILE_RANGE_WRITE);
    }
  }

  Scratch& scratch_;
  const std::int64_t most_;
  char* hand_ = nullptr;  // below scratch_.mutex_
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Piece> queue_, fetched_;  // to be written; to be read
  static constexpr std::int64_t kNever = -(std::int64_t{1} << 60);
  std::deque<std::int64_t> used_at_;  // by chunk of the file: bytes that were asked for until then
  std::int64_t used_ = 0;             // bytes asked for
  bool ended_ = false;
  std::thread watching_, writing_;
};

Scratch::Scratch(const std::string& folder, std::int64_t resident)
    : folder_(folder), file_(open_unnamed(folder)) {
  TESSERA_VALIDATE(file_ >= 0, "no scratch file can be made in ", folder, " (", reason(),
                   ") name another scratch_folder");
  begin_mapping();
  ++scratches;
  pager_ = std::make_unique<Pager>(*this, resident);
}

Scratch::~Scratch() {
  --scratches;
  pager_.reset();
  for (const auto& [data, piece] : pieces_) ::munmap(data, static_cast<std::size_t>(piece.bytes));
  ::close(file_);
}

void* Scratch::take(std::int64_t bytes) {
  const std::int64_t whole = up(std::max<std::int64_t>(1, bytes));
  pager_->make_room();
  const std::lock_guard<std::mutex> lock(mutex_);
  const std::int64_t offset = place(whole);
  void* const data =
      ::mmap(nullptr, static_cast<std::size_t>(whole), PROT_READ | PROT_WRITE, MAP_SHARED, file_, offset);
  if (data == MAP_FAILED) {
    const std::string why = reason();
    put_back(offset, whole);
    throw RunError(concat("a piece of ", format_bytes(static_cast<double>(whole)), " of the scratch file in ",
                          folder_, " cannot be mapped (", why, ") raise memory, so that less lies there"));
  }
  pieces_.emplace(static_cast<char*>(data), Piece{offset, whole});
  out_ += whole;
  return data;
}

void Scratch::give(void* data) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = pieces_.find(static_cast<char*>(data));
  TESSERA_EXPECT(found != pieces_.end(), "what is given back is no piece of the scratch file");
  const Piece piece = found->second;
  pieces_.erase(found);
  pager_->forget(piece);
  ::munmap(data, static_cast<std::size_t>(piece.bytes));
  // Pages that were not written yet need not be; blocks stay the file's. A file system that cannot writes them.
  ::fallocate(file_, FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE, piece.offset, piece.bytes);
  put_back(piece.offset, piece.bytes);
  out_ -= piece.bytes;
}

std::int64_t Scratch::place(std::int64_t bytes) {
  auto best = gaps_.end();
  for (auto gap = gaps_.begin(); gap != gaps_.end(); ++gap)
    if (gap->second >= bytes && (best == gaps_.end() || gap->second < best->second)) best = gap;
  if (best != gaps_.end()) {
    const auto [offset, had] = *best;
    gaps_.erase(best);
    if (had > bytes) gaps_.emplace(offset + bytes, had - bytes);
    return offset;
  }
  // A gap at the end grows with the file.
  std::int64_t offset = size_;
  if (!gaps_.empty() && gaps_.rbegin()->first + gaps_.rbegin()->second == size_)
    offset = gaps_.rbegin()->first;
  const std::int64_t more = offset + bytes - size_;
  // A file system fills itself before it says that it has no room.
  const int error = scratch_disk(folder_).free < more ? ENOSPC : ::posix_fallocate(file_, size_, more);
  if (error != 0) {
    static_cast<void>(::ftruncate(file_, size_));  // what it took of it already
    throw RunError(
        concat("the disk of the scratch folder ", folder_, " has no room for ",
               format_bytes(static_cast<double>(more)), " more (", std::strerror(error), ", the file has ",
               format_bytes(static_cast<double>(size_)),
               ") free space there, or name another scratch_folder, and resume from the last checkpoint"));
  }
  if (offset < size_) gaps_.erase(offset);
  size_ = offset + bytes;
  return offset;
}

void Scratch::put_back(std::int64_t offset, std::int64_t bytes) {
  auto gap = gaps_.emplace(offset, bytes).first;
  if (const auto next = std::next(gap); next != gaps_.end() && offset + bytes == next->first) {
    gap->second += next->second;
    gaps_.erase(next);
  }
  if (gap == gaps_.begin()) return;
  if (const auto before = std::prev(gap); before->first + before->second == offset) {
    before->second += gap->second;
    gaps_.erase(gap);
  }
}

void Scratch::make_room() { pager_->make_room(); }

bool Scratch::holds(const void* data) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto after = pieces_.upper_bound(static_cast<char*>(const_cast<void*>(data)));
  return after != pieces_.begin() && data < std::prev(after)->first + std::prev(after)->second.bytes;
}

Scratch::Piece Scratch::within(const void* data, std::int64_t bytes) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto after = pieces_.upper_bound(static_cast<char*>(const_cast<void*>(data)));
  if (after == pieces_.begin()) return {};
  const auto& [begin, piece] = *std::prev(after);
  const std::int64_t before = static_cast<const char*>(data) - begin;
  if (before >= piece.bytes) return {};
  return {piece.offset + before, std::min(bytes, piece.bytes - before)};
}

void Scratch::fetch(const void* data, std::int64_t bytes) {
  if (const Piece wanted = within(data, bytes); wanted.bytes > 0) pager_->fetch(wanted);
}

void Scratch::await(const void* data, std::int64_t bytes, bool written) const {
  const Piece wanted = within(data, bytes);
  if (wanted.bytes < bytes) return;
  pager_->use(wanted);
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const std::uintptr_t begin = reinterpret_cast<std::uintptr_t>(data) / page * page,
                       end = (reinterpret_cast<std::uintptr_t>(data) + static_cast<std::uintptr_t>(bytes) +
                              page - 1) /
                             page * page;
  // A kernel that cannot (before 5.14) brings the pages one by one, when they are touched.
#ifdef MADV_POPULATE_WRITE
  ::madvise(reinterpret_cast<void*>(begin), end - begin, written ? MADV_POPULATE_WRITE : MADV_POPULATE_READ);
#endif
}

void Scratch::forget(void* data, std::int64_t bytes) {
  const Piece all = within(data, bytes);
  const std::int64_t page = ::sysconf(_SC_PAGESIZE), begin = (all.offset + page - 1) / page * page,
                     end = (all.offset + all.bytes) / page * page;
  pager_->forget(all);
  // Where a file system cannot, what lies there stays, which is as good.
  if (begin < end) ::fallocate(file_, FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE, begin, end - begin);
}

std::int64_t Scratch::bytes() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return out_;
}
std::int64_t Scratch::largest() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return size_;
}

double disk_rate(const std::string& folder) {
  constexpr std::int64_t kPart = std::int64_t{4} << 20, kAll = std::int64_t{64} << 20;
  constexpr double kSeconds = 0.15;  // of writing, and of reading
  const int file = open_unnamed(folder);
  if (file < 0) return 0;
  // Without the cache where the file system can; else what was written goes to the disk before the clock stops.
  ::fcntl(file, F_SETFL, ::fcntl(file, F_GETFL) | O_DIRECT);
  void* memory = nullptr;
  if (::posix_memalign(&memory, std::size_t{1} << 16, static_cast<std::size_t>(kPart)) != 0) memory = nullptr;
  double seconds = 0;
  std::int64_t bytes = 0;
  if (memory) {
    std::memset(memory, 1, static_cast<std::size_t>(kPart));
    std::int64_t written = 0;
    const auto turn = [&](auto&& one, std::int64_t most) {
      const auto begin = std::chrono::steady_clock::now();
      const auto passed = [&] {
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      };
      std::int64_t done = 0;
      while (done < most && passed() < kSeconds && one(done) == kPart) done += kPart;
      ::fdatasync(file);
      seconds += passed();
      bytes += done;
      return done;
    };
    written = turn([&](std::int64_t at) { return ::pwrite(file, memory, kPart, at); }, kAll);
    ::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    turn([&](std::int64_t at) { return ::pread(file, memory, kPart, at); }, written);
  }
  std::free(memory);
  ::close(file);
  return bytes > 0 ? static_cast<double>(bytes) / seconds : 0;
}

bool has_scratch() { return scratches > 0; }

DiskTraffic disk_traffic() {
  DiskTraffic traffic;
  std::ifstream io("/proc/self/io");
  std::string key;
  for (std::int64_t value = 0; io >> key >> value;) {
    if (key == "read_bytes:") traffic.read = value;
    if (key == "write_bytes:") traffic.written = value;
    if (key == "cancelled_write_bytes:") traffic.written -= value;
  }
  return traffic;
}

}  // namespace tessera
