// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "tessera/domain/distributed_operator.hpp"

namespace tessera {

/// Noise that the samples of a measurement show: variance = gain * mean + sigma^2, in the samples' range.
struct NoiseEstimate {
  double sigma = 0;        // standard deviation of what does not depend on the signal
  double sigma_error = 0;  // standard error of it, without what texture adds
  double gain = 0;         // 0: the variance does not grow significantly with the signal
  double gain_error = 0;
  double proportional =
      0;  // above 0: it fits better that the deviation is so much of the signal, as of speckle
  /// Without a gain, and where they differ by more than a fifth: the standard deviation of each channel of
  /// each part, [part][channel]. Empty: sigma serves all.
  std::vector<std::vector<double>> each{};
  bool coarse = false;  // found in the means of 2 x 2 samples: compression took the finest details
  /// Above 0: the finest details hold nothing but the rounding of the samples, those of twice their size so
  /// much. A picture that was enlarged, demosaicked or compressed before is like that, and so is one of smooth
  /// areas without noise.
  double hidden = 0;
};

/// Estimates white noise from the measurement's finest details, robustly.
///
/// A stencil that takes smooth images to (nearly) 0 is applied everywhere: the tensor product of fourth
/// differences, 5 x 5 samples; where a mask leaves too few of them whole, of second differences (3 x 3), of
/// first differences (2 x 2), or a pair of neighbors. sigma is the smaller of two robust figures: the median
/// of its absolute values / 0.6745 (Donoho, Johnstone, Biometrika 81 (1994) 425), and the lowest 20th of its
/// root mean squares in tiles of 16 x 16, which finds the flat regions of images that are not blurred; both
/// are unbiased where the image is smooth. The gain comes from a line through the same two figures in 12 bins
/// of the tiles' means, and is kept where it is above 5 standard errors (Foi et al., IEEE Trans. Image
/// Process. 17 (2008) 1737, with tiles in place of level sets). Values that stand at the measurement's
/// smallest or largest in numbers are clipped and left out. Whole multiples of a step from 0 on, 50 on average at
/// most, whose variance is their mean are counts of that gain.
///
/// `step`: to what the finest details were rounded, as JPEG does, in the samples' range; 0: they were not. Where
/// the noise that is found is below half of it, it was rounded away with them, and is what the means of 2 x 2
/// samples show instead.
///
/// `y`, `counted`: per part, this rank's samples, float32 on the host; counted is 1 where a sample counts,
/// else 0. Collective; tiles and selections are anchored globally and exact, so that any number of ranks
/// gives the same bits. InputError where too few samples have neighbors.
NoiseEstimate estimate_noise(const Measurement& y, const Measurement& counted, const ProductSpace& layout,
                             const Communicator& comm, double step = 0);

/// The gain of photons as a detector counts them, few per sample (see above); 0: the samples are none. Collective.
double gain_of_counts(const Measurement& y, const Measurement& counted, const ProductSpace& layout,
                      const Communicator& comm);

/// Levels that fourth differences show of details of 1, 2 and 4 samples, of white noise about its deviation: in the
/// flattest 20th of the tiles (which is 0.7 to 0.8 of it), and in the middle one of them. All channels and parts together; 0 where there are too few.
/// Collective; the same bits for any number of ranks.
struct FlatLevel {
  double quiet = 0, middle = 0;
};
std::array<FlatLevel, 3> flat_levels(const Measurement& y, const Measurement& counted,
                                     const ProductSpace& layout, const Communicator& comm);

}  // namespace tessera
