// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include "scenes.hpp"

namespace tessera::training {

/// A made volume, channels x side x side x side values in [0, 1], planar: what microscopes and scanners see, roughly.
///
/// Four kinds: opaque things of all sizes in front of each other (ellipsoids, shells, boxes, sheets, rods, folds),
/// sizes by a power law as of dead leaves; threads and blobs in the dark; cells with walls; and textures alone.
/// Textures are sums of plane waves whose spectrum follows a power law in a band. Edges are one voxel soft. A share
/// of the volumes has slices farther apart than pixels, and is blurred along them; a share is blurred all round;
/// contrast, brightness and the sense of light and dark are drawn.
/// Source of the sizes: Lee, Mumford, Huang, "Occlusion models for natural images", Int. J. Comput. Vis. 41 (2001)
/// 35; in three dimensions a density r^-4 looks alike at every scale.
void drawn_volume(std::int64_t channels, std::int64_t side, Draws& draws, float* out);

}  // namespace tessera::training
