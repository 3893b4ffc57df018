// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "zarr/zarr_codecs.hpp"

namespace tessera::io {

/// A folder of a Zarr store: a group, an array, or neither (format 0).
struct ZarrNode {
  std::string folder;
  int format = 0;  // 2: .zgroup, .zarray, .zattrs; 3: zarr.json
  bool array = false;
  nlohmann::json about;       // .zarray or zarr.json; null of a group of format 2
  nlohmann::json attributes;  // an object
};
/// InputError where its metadata cannot be read.
ZarrNode zarr_node(const std::string& folder);
/// The file that says so: of a folder that is no node "".
std::string zarr_mark(const std::string& folder);

/// What an array's metadata say. All lengths are above 0, and a chunk and a shard have less than 2^31 bytes.
struct ZarrMeta {
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> chunk;      // what is decoded together
  std::vector<std::int64_t> shard;      // what is a file, whole chunks; empty: a chunk is one
  std::vector<std::string> names{};     // of the axes, or empty
  std::string type;                     // bool, uint8, ... float64
  std::int64_t element = 1;             // bytes of a sample
  bool swapped = false;                 // not in this machine's order of bytes
  std::vector<std::size_t> order;       // axes of a chunk as it is stored, slowest first
  std::vector<ZarrCodec> codecs;        // of a chunk, in the order of writing
  std::vector<ZarrCodec> index_codecs;  // of a shard's index
  bool index_first = false;             // of a shard; else at its end
  double fill = 0;                      // of chunks that are not stored
  std::string key_prefix;               // "c/" of format 3
  char separator = '.';

  std::int64_t chunk_bytes() const;
  std::int64_t chunks_per_shard() const;
  /// The file of a chunk or shard, below the array's folder.
  std::string key(const std::vector<std::int64_t>& index) const;
};
/// InputError, with the way out, for what is not known.
ZarrMeta zarr_meta(const ZarrNode& array);

}  // namespace tessera::io
