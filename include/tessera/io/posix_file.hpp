// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

namespace tessera::io {

/// A regular file opened for reading; its size is known before anything is read, so that a length found in
/// the file can be checked against it. Not collective. Errors: InputError with the file's name.
class InputFile {
 public:
  explicit InputFile(const std::string& path);
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::string& path() const { return path_; }
  std::int64_t size() const;
  /// Bytes [offset, offset + count), all of them.
  void read(std::int64_t offset, std::int64_t count, void* to) const;
  /// As many of them as the file has.
  std::int64_t read_some(std::int64_t offset, std::int64_t count, void* to) const;

  struct Opened;
  /// What the system opened; others of the path have the same while it is kept (KeepOpen).
  const std::shared_ptr<const Opened>& opened() const { return opened_; }

 private:
  std::string path_;
  std::shared_ptr<const Opened> opened_;
};

/// A file opened for writing. Writes all or throws: interrupted and short writes go on. Not collective.
/// Errors: RunError with the name `said`.
class OutputFile {
 public:
  /// Makes a file that is not there (links are not followed), or opens the one that another rank made.
  enum class Use { make, open };
  OutputFile() = default;
  OutputFile(const std::string& path, Use use, std::string said);
  ~OutputFile();
  OutputFile(OutputFile&& other) noexcept { *this = std::move(other); }
  OutputFile& operator=(OutputFile&& other) noexcept;

  void append(const void* bytes, std::int64_t count);  // behind what was appended before; from 0
  void write(std::int64_t offset, const void* bytes, std::int64_t count);
  void resize(std::int64_t bytes);
  /// What was written; zeros beyond the end. False where the disk fails.
  bool read(std::int64_t offset, std::int64_t count, void* to) const;
  void seek_end();  // append() goes on behind what is there
  void sync();      // to disk, with beats
  void close();     // a full disk may show here only

 private:
  [[noreturn]] void fail(int error) const;
  int fd_ = -1;
  std::int64_t at_ = 0;
  std::string said_;
};

/// Puts a finished file in place: fsync, rename, fsync of the folder. RunError where one fails.
void commit_file(const std::string& temporary, const std::string& path);

/// Lower-case ".suffix" of the last path component, or empty.
std::string suffix(const std::string& path);

}  // namespace tessera::io
