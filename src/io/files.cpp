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

#include "posix_file.hpp"
#include "tessera/core/error.hpp"

namespace tessera {
namespace io {

InputFile::InputFile(const std::string& path) : path_(path) {
  // O_NONBLOCK: a named pipe without a writer must be refused below, not waited for.
  fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  TESSERA_VALIDATE(fd_ >= 0, "cannot read ", path, " (", std::strerror(errno),
                   ") check the path; relative paths start at the job file");
  struct stat status {};
  const bool regular = ::fstat(fd_, &status) == 0 && S_ISREG(status.st_mode);
  if (!regular) ::close(fd_);
  TESSERA_VALIDATE(regular, "cannot read ", path, " (it is not a regular file) name a file");
  size_ = status.st_size;
}

InputFile::~InputFile() { ::close(fd_); }

void InputFile::read(std::int64_t offset, std::int64_t count, void* to) const {
  auto* out = static_cast<char*>(to);
  while (count > 0) {
    const ssize_t got = ::pread(fd_, out, static_cast<std::size_t>(std::min<std::int64_t>(count, 1 << 30)),
                                static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    TESSERA_VALIDATE(got >= 0, "cannot read ", path_, " (", std::strerror(errno), ") check the disk");
    TESSERA_VALIDATE(got > 0, "cannot read ", path_, " (it ends at byte ", offset, ", ", count,
                     " more are needed) is it complete?");
    out += got;
    offset += got;
    count -= got;
  }
}

namespace {

void sync_path(const std::string& path, int flags) {
  const int fd = ::open(path.c_str(), flags | O_CLOEXEC);
  const bool good = fd >= 0 && ::fsync(fd) == 0;
  const int error = errno;
  if (fd >= 0) ::close(fd);
  if (!good) throw RunError(concat("cannot sync ", path, " to disk (", std::strerror(error), ")"));
}

}  // namespace

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

void write_whole(const std::string& path, const std::function<void(const std::string& temporary)>& write) {
  const std::string temporary = path + ".tmp";
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
    std::FILE* file = std::fopen(temporary.c_str(), "wb");
    bool good = file && std::fwrite(text.data(), 1, text.size(), file) == text.size();
    int error = errno;
    if (file && std::fclose(file) != 0) {  // a full disk may show here only
      good = false;
      error = errno;
    }
    if (!good) throw RunError(concat("cannot write ", path, " (", std::strerror(error), ")"));
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
