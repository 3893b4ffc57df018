// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tiff/tiff_file.hpp"

namespace tessera::io {

/// What a TIFF's description says of its planes: ImageJ's, OME's or tifffile's; pages are slices where nothing
/// is said.
struct TiffAxes {
  std::string from;                                   // who says it, empty: nobody
  std::int64_t channels = 1, slices = 1, frames = 1;  // of planes, without the samples of a pixel
  std::vector<std::int64_t> order;  // plane of channel, slice, frame; the channel runs fastest
  std::string problem;              // why the planes have no order, empty: they have
  std::int64_t planes = 1;
  bool one_directory = false;  // the planes lie behind each other, the file has a directory for the first
  // Separate samples are planes of an array, which tifffile calls RGB where they are 3 or 4: plane k is sample
  // k % samples of page k / samples.
  bool samples_are_planes = false;
  bool may_be_colors = false;  // one such page of 3 samples, and nothing says that they are something else

  std::int64_t plane(std::int64_t c, std::int64_t z, std::int64_t t) const {
    return order[static_cast<std::size_t>((t * slices + z) * channels + c)];
  }
  std::string counts() const;  // "2 channels, 4 slices"
};

/// `description`: of the first page, which is one to be read where it is the only one.
TiffAxes tiff_axes(const std::string& description, const std::vector<TiffPage>& pages,
                   std::int64_t file_bytes);

}  // namespace tessera::io
