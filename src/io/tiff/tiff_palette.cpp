// SPDX-License-Identifier: BSD-3-Clause
#include "tiff/tiff_palette.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace tessera::io {

TiffPalette read_palette(const std::uint16_t* r, const std::uint16_t* g, const std::uint16_t* b, int n) {
  bool gray = true, bytes = true;
  int largest = 0;
  for (int k = 0; k < n; ++k) {
    gray = gray && r[k] == g[k] && g[k] == b[k];
    bytes = bytes && std::max({r[k], g[k], b[k]}) < 256;
    for (const std::uint16_t* map : {r, g, b})
      if (k > 0) largest = std::max(largest, std::abs(map[k] - map[k - 1]));
  }
  TiffPalette out;
  for (const std::uint16_t* map : {r, g, b})
    for (int k = 0; k < n; ++k) out.colors.push_back(static_cast<std::uint8_t>(bytes ? map[k] : map[k] >> 8));
  bool rises = gray, falls = gray;
  for (int k = 0; k < n; ++k) {
    constexpr double kRounded = 1.5;  // of 255, as different programs make 16 bits of them
    const double at = 255.0 * k / (n - 1), is = out.colors[static_cast<std::size_t>(k)];
    rises = rises && std::abs(is - at) < kRounded;
    falls = falls && std::abs(is - (255 - at)) < kRounded;
  }
  constexpr int kRampStep = 8;  // of the map's entries: spectra have 6 at most
  const bool ramp = n >= 64 && largest <= kRampStep * (bytes ? 255 : 65535) / (n - 1);
  using Kind = TiffPalette::Kind;
  out.kind = rises   ? Kind::rising
             : falls ? Kind::falling
             : gray  ? Kind::gray
             : ramp  ? Kind::ramp
                     : Kind::picture;
  return out;
}

}  // namespace tessera::io
