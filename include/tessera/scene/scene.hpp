// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include "tessera/core/box.hpp"

namespace tessera {

/// A synthetic picture without limits: relief, overlapping leaves of all sizes with shadows, gratings, star
/// targets and lines of letters, in the range [0, 1].
///
/// Every pixel is a function of (seed, row, column, channel, channels) alone: whoever renders a region gets
/// the same bits, on any processor. Sizes follow a power law from 3 to some 10^4 pixels, so that the picture
/// is rich at every zoom; letters and gratings reach the resolution limit.
/// Channels: 3 are RGB, 1 is its luminance; n others run evenly from R over G to B, a smooth spectrum.
/// Time and memory are those of the region; thread-safe. Pixels have rows and columns in [0, 2^31).
/// Source of the size law: Lee, Mumford, Huang, "Occlusion models for natural images", IJCV 41 (2001) 35.
class Scene {
 public:
  explicit Scene(std::uint64_t seed) : seed_(seed) {}

  /// Pixels of `region` (depth 1) as float32 to out[c * channel_stride + i * row_stride + k], contiguous
  /// along k. InputError where the region leaves the scene's range.
  void render(const Box& region, std::int64_t channels, float* out, std::int64_t channel_stride,
              std::int64_t row_stride) const;

 private:
  std::uint64_t seed_;
};

}  // namespace tessera
