// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <span>

namespace tessera {

/// Line integrals of what a detector counted behind the object, and how much each says:
///   y = -log((counts - dark) / (flat - dark)),  weight = counts - dark.
///
/// The variance of y is that of the counts over their square: gain / (counts - dark) of photons, so that the
/// weight is its inverse up to a factor. Where nothing is said (counts or flat not above the dark, a value that is
/// no number), y and weight are 0. `flat` and `dark` are of one frame, and repeat over `values`. In place: counts
/// become y. Returns how many say nothing. Not collective. Source: J. A. Fessler, in Handbook of Medical Imaging
/// 2 (2000) 1, section 1.2.2.
std::int64_t line_integrals(std::span<double> values, std::span<const double> flat,
                            std::span<const double> dark, std::span<double> weights);

}  // namespace tessera
