// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tiff/tiff_axes.hpp"

namespace tessera::io {

/// What a path names of a TIFF: planes and samples, in the order of channels and slices.
///
/// FILE.tif:/2 is the third plane; :/all all of them as their description says, where words such as c1, z2, t0
/// hold one channel, slice, frame fixed; :/slices and :/channels all of them whatever it says. A word more,
/// index or rgb, says what a palette's image is; rgb also takes an array's planes for the colors of its tags.
struct TiffChoice {
  struct Plane {
    std::int64_t plane = 0;
    std::uint16_t sample = 0;
  };
  std::vector<std::vector<Plane>> slices;  // of each slice its channels
  std::size_t model = 0;                   // page that says which samples a pixel has: the others are like it
  std::string note;
  std::optional<bool> colors;  // of a palette

  std::int64_t channels() const { return static_cast<std::int64_t>(slices[0].size()); }
};

/// InputError, with the ways to write it, where the part is unknown or more than one image could be meant.
TiffChoice choose_in_tiff(const std::string& path, const std::string& part, const TiffAxes& axes,
                          const std::vector<TiffPage>& pages);

}  // namespace tessera::io
