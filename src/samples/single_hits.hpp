// SPDX-License-Identifier: BSD-3-Clause
// Single samples that stand out more than a blur lets them: cosmic rays, hot pixels, thin bright writing.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <vector>

#include "sharp_areas.hpp"

namespace tessera {

/// Of what a bright point stands out of its surroundings, how much at most it stands out of the mean of two samples
/// on both sides of it, by direction; 0: the kernel does not tell. Of points anywhere between samples.
struct HitKernel {
  std::array<double, 4> most{};  // beside, above, along both diagonals
  bool tells() const;
};
HitKernel hit_kernel(const at::Tensor& taps);

/// Places in the plane (row, column) of this rank that are hits. `noise`: its deviation, about. Nothing where so many
/// stand out that noise does. Collective; the same for any number of ranks.
std::vector<std::array<std::int64_t, 2>> single_hits(const NearPlane& plane, double noise,
                                                     const HitKernel& kernel, const Communicator& comm);

}  // namespace tessera
