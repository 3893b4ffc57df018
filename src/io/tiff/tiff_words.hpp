// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "tessera/io/image_sink.hpp"
#include "tiff/tiff_file.hpp"

namespace tessera::io {

/// What a TIFF says of its pixels' size, its channels and of anything else.
///
/// Sizes are OME's or ImageJ's, else those of the resolution tags, in the units that are written there.
struct TiffWords {
  std::array<ImageSpace::Axis, 3> grid = ImageSpace().grid;
  std::vector<std::string> channel_names{};  // OME's, of all channels
  Metadata metadata{};
  // ImageJ's: samples are calibration[0] + calibration[1] * stored; one of another kind than a line is only said.
  std::array<double, 2> calibration{0, 1};
  std::string curved{};
};
/// `file` stands at the page that is read, `description` is the first page's.
TiffWords tiff_words(const TiffFile& file, const std::string& description);

/// Sets the tags of a page that is written: resolution, profile, text and, on the first page, OME's description
/// where the tags cannot say it all. Units that are no lengths are left out.
void set_tiff_words(TIFF* tiff, const ImageRecord& record, bool first_page);

}  // namespace tessera::io
