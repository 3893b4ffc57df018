// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/io/files.hpp"

#include <fcntl.h>
#include <glib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <random>
#include <regex>
#include <utility>

#include "tessera/core/error.hpp"
#include "tessera/core/leftovers.hpp"
#include "tessera/core/phase.hpp"
#include "tessera/io/posix_file.hpp"

namespace tessera {
namespace io {

OutputFile::OutputFile(const std::string& path, Use use, std::string said) : said_(std::move(said)) {
  const int how = use == Use::make ? O_CREAT | O_EXCL | O_NOFOLLOW : 0;
  do fd_ = ::open(path.c_str(), O_RDWR | O_CLOEXEC | how, 0666);
  while (fd_ < 0 && errno == EINTR);
  if (fd_ < 0) fail(errno);
}

OutputFile::~OutputFile() {
  if (fd_ >= 0) ::close(fd_);
}

OutputFile& OutputFile::operator=(OutputFile&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(at_, other.at_);
  std::swap(said_, other.said_);
  return *this;
}

void OutputFile::fail(int error) const {
  throw RunError(concat("cannot write ", said_, " (", std::strerror(error), ")"));
}

void OutputFile::append(const void* bytes, std::int64_t count) {
  write(at_, bytes, count);
  at_ += count;
}

void OutputFile::write(std::int64_t offset, const void* bytes, std::int64_t count) {
  const auto* from = static_cast<const char*>(bytes);
  while (count > 0) {
    const ssize_t put = ::pwrite(fd_, from, static_cast<std::size_t>(std::min<std::int64_t>(count, 1 << 30)),
                                 static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) fail(put < 0 ? errno : EIO);
    from += put;
    offset += put;
    count -= put;
  }
}

void OutputFile::resize(std::int64_t bytes) {
  int code = 0;
  do code = ::ftruncate(fd_, static_cast<off_t>(bytes));
  while (code != 0 && errno == EINTR);
  if (code != 0) fail(errno);
}

bool OutputFile::read(std::int64_t offset, std::int64_t count, void* to) const {
  auto* out = static_cast<char*>(to);
  while (count > 0) {
    const ssize_t got = ::pread(fd_, out, static_cast<std::size_t>(count), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return false;
    if (got == 0) std::memset(out, 0, static_cast<std::size_t>(count));
    if (got == 0) return true;
    out += got;
    offset += got;
    count -= got;
  }
  return true;
}

void OutputFile::seek_end() {
  const off_t end = ::lseek(fd_, 0, SEEK_END);
  if (end < 0) fail(errno);
  at_ = end;
}

namespace {

/// 0, or what went wrong. In slices with a beat between: a whole image takes minutes to reach a slow disk.
int sync_file(int fd) {
  constexpr off_t kSlice = 64 << 20;
  struct stat about {};
  if (::fstat(fd, &about) == 0 && S_ISREG(about.st_mode))
    for (off_t at = 0; at < about.st_size; at += kSlice) {
      beat();
      // Where it is not known, fsync does it all.
      ::sync_file_range(fd, at, kSlice,
                        SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
    }
  beat();
  int code = 0;
  do code = ::fsync(fd);
  while (code != 0 && errno == EINTR);
  return code == 0 ? 0 : errno;
}

void sync_path(const std::string& path, int flags) {
  int fd = -1;
  do fd = ::open(path.c_str(), flags | O_CLOEXEC);
  while (fd < 0 && errno == EINTR);
  int error = fd < 0 ? errno : sync_file(fd);
  if (fd >= 0) ::close(fd);
  // Some file systems cannot sync a folder.
  if ((flags & O_DIRECTORY) && (error == EINVAL || error == ENOTSUP)) error = 0;
  if (error != 0) throw RunError(concat("cannot sync ", path, " to disk (", std::strerror(error), ")"));
}

}  // namespace

void OutputFile::sync() {
  if (const int error = sync_file(fd_)) fail(error);
}

void OutputFile::close() {
  // The descriptor is gone also where it was interrupted.
  if (::close(std::exchange(fd_, -1)) != 0 && errno != EINTR) fail(errno);
}

void commit_file(const std::string& temporary, const std::string& path) {
  sync_path(temporary, O_RDONLY);
  if (::rename(temporary.c_str(), path.c_str()) != 0)
    throw RunError(concat("cannot rename ", temporary, " to ", path, " (", std::strerror(errno), ")"));
  const std::string folder = std::filesystem::path(path).parent_path().string();
  sync_path(folder.empty() ? "." : folder, O_RDONLY | O_DIRECTORY);
}

std::string suffix(const std::string& path) {
  std::string text = std::filesystem::path(path).extension().string();
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

}  // namespace io

std::string temporary_name(const std::string& path) {
  static const unsigned mine = std::random_device()();
  char text[16];  // a forked process is another one
  std::snprintf(text, sizeof text, ".%08x.tmp", mine ^ (2654435761U * static_cast<unsigned>(::getpid())));
  const std::string name = path + text;
  remember_leftover(name);
  return name;
}

bool is_temporary(const std::string& name) {
  static const std::regex form(R"(.*\.[0-9a-f]{8}\.tmp)");
  return std::regex_match(name, form);
}

void write_whole(const std::string& path, const std::function<void(const std::string& temporary)>& write) {
  const std::string temporary = temporary_name(path);
  try {
    write(temporary);
    io::commit_file(temporary, path);
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
}

void write_text(const std::string& path, const std::string& text) {
  write_whole(path, [&](const std::string& temporary) {
    io::OutputFile file(temporary, io::OutputFile::Use::make, path);
    file.append(text.data(), static_cast<std::int64_t>(text.size()));
    file.close();
  });
}

std::string read_text(const std::string& path) {
  const io::InputFile file(path);
  std::string text(static_cast<std::size_t>(file.size()), '\0');
  file.read(0, file.size(), text.data());
  return text;
}

std::string sha256(const std::string& path) {
  const io::InputFile file(path);
  const std::unique_ptr<GChecksum, void (*)(GChecksum*)> sum(g_checksum_new(G_CHECKSUM_SHA256),
                                                             g_checksum_free);
  std::vector<unsigned char> buffer(1 << 20);
  for (std::int64_t done = 0; done < file.size();) {
    const auto part = std::min<std::int64_t>(file.size() - done, static_cast<std::int64_t>(buffer.size()));
    file.read(done, part, buffer.data());
    g_checksum_update(sum.get(), buffer.data(), static_cast<gssize>(part));
    done += part;
  }
  return g_checksum_get_string(sum.get());
}

}  // namespace tessera
