// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "tessera/domain/distributed_operator.hpp"

namespace tessera {

/// Samples that repeat their neighbors exactly, which noise hardly does.
struct Repeats {
  struct Area {
    float value = 0;
    std::int64_t samples = 0;
  };
  /// Values of which whole neighborhoods of 3 x 3 samples are made, and how many samples lie in such: each has
  /// more than half of those that the ones before it leave, and a thousandth of all samples or more. What an
  /// empty part was filled with is such a value; the flat parts of a drawing have many.
  std::vector<Area> areas;
  /// The smallest difference above 0 between neighbors: the step of whole numbers; next to nothing of others.
  double step = 0;
  /// Every sample is there so often, along rows and columns: an image enlarged by repeating pixels. 1: not.
  std::array<int, 2> enlarged{1, 1};
  /// Share of rows and columns that are the next one's equals, sample by sample, though they vary: an image enlarged by
  /// its nearest pixels, whatever the factor.
  std::array<double, 2> repeated{};
};

/// Over the samples that count (`counted` is 1, else 0); both float32 on the host, planes apart. Collective;
/// the same for any number of ranks.
Repeats find_repeats(const Measurement& y, const Measurement& counted, const ProductSpace& layout,
                     const Communicator& comm);

/// `counted` without the samples that have the value of an area, in its neighborhoods or everywhere. Collective.
enum class Where { neighborhoods, everywhere };
Measurement without_areas(const Measurement& y, const Measurement& counted, const Repeats& repeats,
                          Where where, const ProductSpace& layout, const Communicator& comm);

/// Whether noise of this deviation cannot make the areas by itself, which rounding to steps can.
inline bool empty_areas(const Repeats& repeats, double sigma) {
  return !repeats.areas.empty() && sigma > 0.7 * repeats.step;
}

}  // namespace tessera
