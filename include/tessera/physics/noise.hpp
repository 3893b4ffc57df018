// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "tessera/core/box.hpp"

namespace tessera {

/// y = gain P(x / gain) + sigma n, in the image's range.
struct NoiseModel {
  double gaussian = 0;  // sigma, standard deviation; 0: none
  double poisson = 0;   // gain; 0: none
};

/// Adds noise to this rank's samples in place; each number depends on (seed, part, the sample's place in
/// `all`) only, so that it is the same for any number of ranks.
///
/// `clean`: (C, [D,] H, W) over `block`, float64, any device; `all`: the part's global box. Poisson counts
/// jump with their mean, so the mean must be the same too: it is computed in float64, where ranks differ by
/// rounding of about 1e-15, and rounded to 36 bits, so that a flat region whose exact mean lies on a switch
/// of the sampler (such as 10) does not fall to both sides. What remains is the chance that a mean and a
/// random number meet within rounding: about (samples x mean x 1e-15) in a whole measurement. Errors:
/// InputError for a Poisson mean below zero by more than rounding. Not collective.
void add_noise(const at::Tensor& clean, const NoiseModel& model, std::uint64_t seed, std::uint32_t part,
               const Box& all, const Box& block);

}  // namespace tessera
