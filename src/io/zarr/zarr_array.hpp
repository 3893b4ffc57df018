// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "zarr/zarr_meta.hpp"

namespace tessera::io {

/// A Zarr array on disk, read by boxes: each chunk that a box meets is unpacked once, and the last ones are kept.
/// Of chunks that are not packed the rows that a box needs are read alone. Not collective; one reader at a time.
/// Errors: InputError with the name of the chunk's file.
class ZarrArray {
 public:
  enum class Missing { fill, refuse };  // chunks that are not stored
  explicit ZarrArray(const ZarrNode& node, Missing missing = Missing::fill);
  const ZarrMeta& meta() const { return meta_; }

  /// Elements [start, start + count) of each axis; that of index i goes to to[sum of (i - start) * stride].
  void read(const std::vector<std::int64_t>& start, const std::vector<std::int64_t>& count,
            const std::vector<std::int64_t>& stride, double* to);
  void read(const std::vector<std::int64_t>& start, const std::vector<std::int64_t>& count,
            const std::vector<std::int64_t>& stride, float* to);

  /// Of some of its files, evenly over all and at most 1024, how many there are.
  struct Files {
    std::int64_t all = 0, looked = 0, found = 0;
  };
  Files files() const;

 private:
  using Index = std::vector<std::int64_t>;
  // A chunk, or of one that is not packed some planes of the axis that is stored slowest.
  struct Part {
    std::shared_ptr<const ZarrBytes> bytes;  // null: not stored
    std::int64_t first = 0;                  // plane
  };
  struct Shard {
    Index at;
    std::vector<std::uint8_t> index;  // 16 bytes a chunk; empty: not stored
  };
  template <class T>
  void read_as(const Index& start, const Index& count, const Index& stride, T* to);
  Part load(const Index& chunk, std::int64_t first, std::int64_t planes);
  std::pair<std::int64_t, std::int64_t> place_in_shard(const Index& chunk);  // offset, bytes; -1: not stored

  std::string folder_;
  ZarrMeta meta_;
  Missing missing_;
  Index inside_;  // of a chunk: elements between neighbors along each axis
  Shard shard_;   // the last one
  std::list<std::pair<Index, Part>> kept_;
};

}  // namespace tessera::io
