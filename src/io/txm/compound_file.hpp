// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tessera/io/posix_file.hpp"

namespace tessera::io {

/// A compound file (OLE2): streams of bytes with names, "Folder/Name", in sectors of one file. Read only. Not collective.
/// Lengths and chains are checked before they are used: what a damaged file says takes no memory that it does not have.
/// InputError with the file's name. Source: Microsoft, [MS-CFB] Compound File Binary File Format.
class CompoundFile {
 public:
  explicit CompoundFile(const std::string& path);

  /// A stream: its length, and the pieces of the file that it is made of (place, bytes), in order.
  struct Stream {
    std::int64_t size = 0;
    std::vector<std::pair<std::int64_t, std::int64_t>> pieces{};
    std::vector<std::int64_t> starts{};  // of each piece, within the stream
  };
  bool has(const std::string& name) const;           // upper and lower case are one
  std::int64_t size(const std::string& name) const;  // 0 where there is none
  Stream stream(const std::string& name) const;
  /// Bytes [offset, offset + count) of a stream, all of them.
  void read(const Stream& stream, std::int64_t offset, std::int64_t count, void* to) const;
  /// Names of all streams that begin so, in order.
  std::vector<std::string> names(const std::string& prefix) const;
  const std::string& path() const { return file_.path(); }

  /// Whether a file that begins so is one.
  static bool knows(std::string_view head);

 private:
  struct Entry {
    std::uint32_t start = 0;
    std::int64_t size = 0;
    bool root = false;
  };
  [[noreturn]] void damaged(const std::string& what) const;
  std::int64_t place(std::uint32_t sector) const { return (static_cast<std::int64_t>(sector) + 1) * sector_; }
  void read_tables(const std::vector<std::uint8_t>& header);
  void read_directory(std::uint32_t first);
  std::vector<std::uint32_t> chain(const std::vector<std::uint32_t>& table, std::uint32_t first,
                                   std::int64_t most, const std::string& of) const;
  Stream in_sectors(const Entry& entry, const std::string& name) const;
  const Entry* find(const std::string& name) const;

  InputFile file_;
  std::int64_t sector_ = 512, small_ = 64, cutoff_ = 4096, sectors_ = 0;
  bool version3_ = true;
  std::vector<std::uint32_t> next_, small_next_;  // of each sector the next one of its stream
  Stream smalls_;                                 // what holds the small sectors
  std::map<std::string, Entry> entries_;          // by their names in lower case
};

}  // namespace tessera::io
