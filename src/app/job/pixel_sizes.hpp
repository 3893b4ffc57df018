// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <string>

#include "tessera/core/image_space.hpp"

namespace tessera {

using Grid = std::array<ImageSpace::Axis, 3>;

/// Spacing of `other` over that of `own` along each axis, in the same unit; 0 where one of them is not known, units
/// do not compare, or a size is one that pictures are printed in (inches and centimeters of more than 4 micrometers).
std::array<double, 3> pixel_ratios(const Grid& other, const Grid& own);

/// Whether two files mean different pixels: a ratio beyond 2 %.
bool pixels_differ(const std::array<double, 3>& ratios);

/// "0.2 x 0.1 x 0.1 um", of the axes that have a ratio.
std::string pixel_text(const Grid& grid, const std::array<double, 3>& ratios);

/// Taps (C, d, h, w) on a grid whose pixels are 1 / ratio times as large (0: the same). The origin, which is given in
/// the old taps, becomes the middle of an odd number of taps; the sum stays. Coarser taps are means over the new
/// pixel as far as the old ones were not, finer ones cubic between the old.
at::Tensor resampled(const at::Tensor& taps, const std::array<double, 3>& ratios,
                     const std::array<std::int64_t, 3>& origin);

}  // namespace tessera
