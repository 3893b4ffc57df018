// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "tessera/domain/distributed_operator.hpp"

namespace tessera {

/// Details of a picture by place: second differences of neighbors (3 x 3 samples), and of every second sample, of which
/// white noise has as many and a picture more of the latter. Samples count where `counted` is not 0; all float32 on the
/// host. Collective; the same for any number of ranks.

/// Tiles of 16 x 16 samples (their middle detail) that scatter by more than twice `sigma` though what scatters is white
/// there, as noise is and textures are not.
struct StrongerPlaces {
  double share = 0;                               // of all tiles
  double white = 0;                               // share of them among all tiles that scatter so much
  double level = 0;                               // deviation in the middle one of them
  std::array<std::int64_t, 2> rows{}, columns{};  // between which nine tenths of them lie
};
std::optional<StrongerPlaces> stronger_places(const Measurement& y, const Measurement& counted, double sigma,
                                              const ProductSpace& layout, const Communicator& comm);

/// Median details of neighbors and of every second sample, as deviations of white noise. The second ones are smaller
/// where neighbors are of different kinds: a sensor's colors, fields of a video.
struct Alternation {
  double neighbors = 0, every_second = 0;
};
Alternation alternation(const Measurement& y, const Measurement& counted, const ProductSpace& layout,
                        const Communicator& comm);

/// How the variance of details goes with a weight: as its power `slope`, -1 where weights are inverse variances.
struct WeightSense {
  double slope = 0;
  double range = 1;  // of the weights: those of the last sixth of the samples over those of the first
  double texture =
      1;  // details of every second sample over those of neighbors where weights are largest; noise: 1
};
std::optional<WeightSense> weight_sense(const Measurement& y, const Measurement& counted,
                                        const Measurement& weights, const ProductSpace& layout,
                                        const Communicator& comm);

}  // namespace tessera
