// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tessera/comm/array.hpp"
#include "tessera/io/hdf5.hpp"
#include "tessera/io/posix_file.hpp"

namespace tessera::io {

/// Chunks of a dataset that is packed by gzip behind a shuffle of bytes, as HDF5 has them. Each rank packs whole chunks
/// into a file without a name beside the output, until the places of all are known.
class PackedChunks {
 public:
  /// Collective. Of an image that begins at 0.
  PackedChunks(const std::string& path, const Box& image, std::int64_t channels, bool wide,
               const Communicator& comm);
  ~PackedChunks();
  PackedChunks(const PackedChunks&) = delete;
  PackedChunks& operator=(const PackedChunks&) = delete;

  Index3 side() const { return side_; }
  /// One chunk's pixels, all channels. Not collective.
  void add(const ArrayView& pixels);
  /// Collective: makes the dataset, and writes what all ranks have added. The bytes do not depend on the number of ranks.
  void write(Hdf5File& file, const std::string& dataset);

 private:
  struct Place {
    std::int64_t index = 0, at = 0, bytes = 0;  // among all chunks, in the file without a name
  };
  template <class T>
  void pack_channel(const ArrayView& pixels, std::int64_t channel);
  std::int64_t index_of(std::int64_t channel, const Index3& first) const;

  std::string path_;
  Box image_;
  std::int64_t channels_ = 1;
  bool wide_ = false;
  Communicator comm_;
  Index3 side_{}, count_{};
  int fd_ = -1;
  std::int64_t end_ = 0;
  std::vector<Place> mine_;
};

}  // namespace tessera::io
