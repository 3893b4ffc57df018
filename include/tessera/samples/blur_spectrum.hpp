// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <vector>

#include "tessera/physics/local_operator.hpp"
#include "tessera/samples/tile_spectra.hpp"

namespace tessera {

/// What the mean spectrum of a blurred picture's tiles says, given its kernel: beyond what the kernel lets through
/// there is noise alone, of whatever color. Bins as TileSpectra has them. Host arithmetic.
struct BlurSpectrum {
  /// The most that the picture can have in each bin. A picture's own spectrum falls with the frequency along each
  /// direction (eight sectors of the half plane), so that no bin has more of it than the least that those before it
  /// show, once the kernel is divided out.
  std::vector<double> picture;
  std::vector<double> beyond;  // 1 where the picture has less than a tenth of what is there, else 0

  /// Levels of white noise, the same unit as the samples', 0 where nothing is seen: `near` where picture and noise
  /// meet; `far` at the finest details; `coarse` what the fall from the one to the other says of the details that the
  /// kernel lets through, which a deconvolution meets first.
  double near = 0, far = 0, coarse = 0;
  /// Noise that falls towards the finest details by more than white noise and remains of a picture do.
  bool colored() const { return far > 0 && near > 1.5 * far; }
};

/// `power`: TileSpectra::mean(); `kernel`: of pictures, not decimating; of several channels the widest-reaching.
BlurSpectrum read_blur_spectrum(const std::vector<double>& power, const Convolution& kernel);

}  // namespace tessera
