// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace tessera {

/// What a folder's file system is to a scratch file.
struct ScratchDisk {
  std::int64_t free = 0;   // bytes
  bool in_memory = false;  // tmpfs: what lies there takes memory
  bool remote = false;     // NFS, Lustre, BeeGFS and their like: over a network
  std::string type;        // "ext4", "xfs", "tmpfs", ...; empty: one that we have no name for
};
/// RunError where the folder is not there.
ScratchDisk scratch_disk(const std::string& folder);

/// A file that holds what does not fit into memory. Pieces of it are mapped and used as memory; the process has at most so
/// much resident, that of everything else included, since a thread takes pages from the mapping where it has more. The
/// kernel writes and reads them.
///
/// The file has no name: it ends with the process, however that ends. Its blocks are taken from the disk before a piece is
/// given out, so that a full disk is an error and no signal. Thread safe.
class Scratch {
 public:
  /// `resident`: bytes that the process may have, its program and its other memory included. InputError where no file
  /// can be made in `folder`.
  Scratch(const std::string& folder, std::int64_t resident);
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  /// At a multiple of the page size, of any content. RunError where the disk is full.
  void* take(std::int64_t bytes);
  /// What take() gave; its content is dropped, and not written any more.
  void give(void* data);

  /// Takes pages away where there are too many: by whoever is about to touch more, since the thread that does it comes late
  /// where all cores compute.
  void make_room();
  /// Whether `data` lies in a piece; what follows it there is then read from the disk beside what goes on.
  bool holds(const void* data) const;
  void fetch(const void* data, std::int64_t bytes);
  /// Waits until it is in memory; `written`: to be written as well.
  void await(const void* data, std::int64_t bytes, bool written) const;
  /// What lies there is 0 from now on, but for the bytes of pages at its ends that others share: it is neither written to
  /// the disk any more nor read from it before it is overwritten.
  void forget(void* data, std::int64_t bytes);

  std::int64_t bytes() const;    // of pieces that are out
  std::int64_t largest() const;  // the file's size, the most that was out at once and gaps
  const std::string& folder() const { return folder_; }

 private:
  struct Piece {
    std::int64_t offset, bytes;
  };
  class Pager;

  Piece within(const void* data, std::int64_t bytes) const;  // the part of the file there; of 0 bytes: none
  std::int64_t place(std::int64_t bytes);                    // in the file, grown where no gap serves
  void put_back(std::int64_t offset, std::int64_t bytes);

  std::string folder_;
  int file_ = -1;
  mutable std::mutex mutex_;
  std::map<char*, Piece> pieces_;              // that are out
  std::map<std::int64_t, std::int64_t> gaps_;  // offset, bytes: blocks that the file has and no piece
  std::int64_t size_ = 0, out_ = 0;
  std::unique_ptr<Pager> pager_;
};

/// Bytes per second that a folder's disk writes and reads, measured past the kernel's cache with some 64 MiB, for a third of
/// a second at most; 0 where it cannot be.
double disk_rate(const std::string& folder);

/// Bytes that this process has read from disks and written to them, mapped files included; zeros where unknown.
struct DiskTraffic {
  std::int64_t read = 0, written = 0;

  bool known() const { return read > 0 || written > 0; }
  DiskTraffic& operator+=(const DiskTraffic& more) {
    read += more.read;
    written += more.written;
    return *this;
  }
  friend DiskTraffic operator-(const DiskTraffic& a, const DiskTraffic& b) {
    return {a.read - b.read, a.written - b.written};
  }
};
DiskTraffic disk_traffic();
/// Whether this process has a scratch file.
bool has_scratch();

}  // namespace tessera
