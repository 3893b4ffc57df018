// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>

#include "leaves.hpp"
#include "noise.hpp"

namespace tessera::scene {

using Row = std::array<float, kTile>;

/// How much of the leaf's ink there is, in [0, 1], at the points (u, v) of one row of pixels; edges are one
/// pixel soft. `coarse`: noise there.
void texture_row(const Leaf& leaf, const Row& u, const Row& v, const float* coarse, std::int64_t n, Row& out);

}  // namespace tessera::scene
