// SPDX-License-Identifier: BSD-3-Clause
// How the variance of noise depends on the signal.
#pragma once

#include <optional>
#include <vector>

namespace tessera {

/// Tiles of about one level: their variance, and its relative error. `uneven`: how much more the middle tile scatters
/// than the flattest, 1 of white noise.
struct NoiseBin {
  double level = 0, variance = 0, error = 0, uneven = 1;
};

/// variance = gain * level + offset; `error`: of the gain.
struct NoiseLine {
  double gain = 0, offset = 0, error = 0;
};

/// Of the bins, weighted, with outlying ones held down. Nothing where the gain is not significant.
std::optional<NoiseLine> line_through(const std::vector<NoiseBin>& bins);

/// The deviation of noise that is in proportion to the level, as speckle is, in parts of it; 0 where that of photons, a
/// line through 0, fits about as well, or where texture may look like that. The noise of photons above an offset that was
/// not subtracted rises as steeply.
double proportional_noise(const std::vector<NoiseBin>& bins);

}  // namespace tessera
