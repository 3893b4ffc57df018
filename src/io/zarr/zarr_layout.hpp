// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tessera/io/image_sink.hpp"
#include "zarr/zarr_codecs.hpp"

namespace tessera::io {

/// One array of a pyramid that is written: axes c (where there are several channels), z (of volumes), y, x.
struct ZarrLevel {
  Index3 size{}, chunk{}, file{};  // slices, rows, columns; a file is a chunk, or a shard of whole ones
  Index3 step{1, 1, 1};            // samples of the level above that are one here
  std::array<double, 3> scale{}, place{};  // of a sample, and of the center of the first
  Index3 files() const;                    // how many along each axis
};

/// What is written of an image, as plain arithmetic: equal on all ranks.
class ZarrLayout {
 public:
  explicit ZarrLayout(const ImageRecord& record);

  int format() const { return format_; }
  const std::vector<ZarrLevel>& levels() const { return levels_; }
  const std::vector<ZarrCodec>& codecs() const { return codecs_; }
  std::int64_t element() const { return record_.bits / 8; }
  std::string type() const;
  /// Below the store: "0/c/0/1/2".
  std::string key(std::size_t level, std::int64_t channel, const Index3& file) const;
  bool sharded(std::size_t level) const { return levels_[level].file != levels_[level].chunk; }
  /// Name and text of the files of metadata; `range`: least and most of each channel.
  std::vector<std::pair<std::string, std::string>> array_metadata(std::size_t level) const;
  std::vector<std::pair<std::string, std::string>> group_metadata(
      const std::string& name, const std::vector<std::array<double, 2>>& range) const;

 private:
  using Json = nlohmann::ordered_json;
  template <class T>
  Json of_axes(const T& channel, const std::array<T, 3>& others) const;
  Json multiscales(const std::string& name) const;
  Json omero(const std::vector<std::array<double, 2>>& range) const;
  Json ours() const;

  ImageRecord record_;
  int format_ = 3;
  std::vector<ZarrCodec> codecs_;
  std::vector<ZarrLevel> levels_;
};

}  // namespace tessera::io
