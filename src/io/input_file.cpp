// SPDX-License-Identifier: BSD-3-Clause
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>

#include "tessera/core/error.hpp"
#include "tessera/core/phase.hpp"
#include "tessera/io/image_format.hpp"
#include "tessera/io/keep_open.hpp"
#include "tessera/io/posix_file.hpp"

namespace tessera {
namespace io {

struct InputFile::Opened {
  explicit Opened(int descriptor) : fd(descriptor) {}
  ~Opened() { ::close(fd); }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;

  int fd;
  struct stat about {};
};

}  // namespace io

namespace {

using Opened = io::InputFile::Opened;

struct KeptImage {
  std::shared_ptr<const Opened> of;
  std::shared_ptr<ImageSource> source;
};

// Of this process, by path; empty without a KeepOpen.
struct Kept {
  std::mutex mutex;
  int keepers = 0;
  std::map<std::string, std::shared_ptr<const Opened>> files;
  std::map<std::string, KeptImage> images;
};
Kept& kept() {
  static Kept all;
  return all;
}

bool same(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino && a.st_size == b.st_size &&
         a.st_mtim.tv_sec == b.st_mtim.tv_sec && a.st_mtim.tv_nsec == b.st_mtim.tv_nsec;
}

std::shared_ptr<const Opened> find_kept(const std::string& path) {
  Kept& k = kept();
  const std::lock_guard lock(k.mutex);
  const auto found = k.files.find(path);
  struct stat now {};
  if (found == k.files.end() || ::stat(path.c_str(), &now) != 0 || !same(now, found->second->about))
    return {};
  return found->second;
}

void keep(const std::string& path, const std::shared_ptr<const Opened>& file) {
  constexpr std::size_t kMost = 64;  // descriptors are few
  Kept& k = kept();
  const std::lock_guard lock(k.mutex);
  if (k.keepers > 0 && (k.files.size() < kMost || k.files.count(path) > 0)) k.files[path] = file;
}

}  // namespace

KeepOpen::KeepOpen() {
  const std::lock_guard lock(kept().mutex);
  ++kept().keepers;
}

KeepOpen::~KeepOpen() {
  std::map<std::string, KeptImage> images;  // closed last, without the lock
  const std::lock_guard lock(kept().mutex);
  if (--kept().keepers > 0) return;
  images.swap(kept().images);
  kept().files.clear();
}

std::shared_ptr<ImageSource> shared_image(const std::string& path) {
  const auto keeps = [] {
    const std::lock_guard lock(kept().mutex);
    return kept().keepers > 0;
  };
  if (!keeps()) return open_image(path);
  std::string named = image_path(path).file;
  if (const std::string standing = standing_file(named); !standing.empty()) named = standing;
  const io::InputFile file(named);
  {
    const std::lock_guard lock(kept().mutex);
    const auto found = kept().images.find(path);
    if (found != kept().images.end() && found->second.of == file.opened()) return found->second.source;
  }
  std::shared_ptr<ImageSource> source = open_image(path);
  const std::lock_guard lock(kept().mutex);
  if (source->random_access() && kept().files.count(file.path()) > 0)
    kept().images[path] = {file.opened(), source};
  return source;
}

namespace io {

InputFile::InputFile(const std::string& path) : path_(path), opened_(find_kept(path)) {
  if (opened_) return;
  // O_NONBLOCK: a named pipe without a writer must be refused below, not waited for.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  TESSERA_VALIDATE(fd >= 0, "cannot read ", path, " (", std::strerror(errno),
                   ") check the path; relative paths start at the job file");
  const auto made = std::make_shared<Opened>(fd);
  const bool regular = ::fstat(fd, &made->about) == 0 && S_ISREG(made->about.st_mode);
  TESSERA_VALIDATE(regular, "cannot read ", path, " (it is not a regular file) name a file");
  opened_ = made;
  keep(path, made);
}

std::int64_t InputFile::size() const { return opened_->about.st_size; }

void InputFile::read(std::int64_t offset, std::int64_t count, void* to) const {
  const std::int64_t got = read_some(offset, count, to);
  TESSERA_VALIDATE(got == count, "cannot read ", path_, " (it ends at byte ", offset + got, ", ", count - got,
                   " more are needed) is it complete?");
}

std::int64_t InputFile::read_some(std::int64_t offset, std::int64_t count, void* to) const {
  auto* out = static_cast<char*>(to);
  std::int64_t done = 0;
  while (done < count) {
    beat();
    const ssize_t got = ::pread(opened_->fd, out + done,
                                static_cast<std::size_t>(std::min<std::int64_t>(count - done, 1 << 30)),
                                static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    TESSERA_VALIDATE(got >= 0, "cannot read ", path_, " (", std::strerror(errno), ") check the disk");
    if (got == 0) break;
    done += got;
  }
  return done;
}

}  // namespace io
}  // namespace tessera
