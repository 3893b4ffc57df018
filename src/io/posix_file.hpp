// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>

namespace tessera::io {

/// A regular file opened for reading; its size is known before anything is read, so that a length found in
/// the file can be checked against it. Not collective. Errors: InputError with the file's name.
class InputFile {
 public:
  explicit InputFile(const std::string& path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::string& path() const { return path_; }
  std::int64_t size() const { return size_; }
  /// Bytes [offset, offset + count), all of them.
  void read(std::int64_t offset, std::int64_t count, void* to) const;

 private:
  std::string path_;
  int fd_ = -1;
  std::int64_t size_ = 0;
};

/// Puts a finished file in place: fsync, rename, fsync of the folder. RunError where one fails.
void commit_file(const std::string& temporary, const std::string& path);

/// Lower-case ".suffix" of the last path component, or empty.
std::string suffix(const std::string& path);

}  // namespace tessera::io
