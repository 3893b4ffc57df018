// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <vector>

namespace tessera::io {

/// The color map of a palette page, and what it says of the indices: all but a picture's show measured values.
struct TiffPalette {
  enum class Kind {
    picture,
    ramp,     // small steps from entry to entry
    gray,     // of any order
    rising,   // black to white in equal steps: as samples without a palette
    falling,  // white to black
  };
  Kind kind = Kind::picture;
  std::vector<std::uint8_t> colors;  // red of all entries, green, blue

  bool operator==(const TiffPalette&) const = default;
};

/// `n` entries of 16 bits each, or of 8, as old programs wrote.
TiffPalette read_palette(const std::uint16_t* red, const std::uint16_t* green, const std::uint16_t* blue,
                         int n);

}  // namespace tessera::io
