// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <span>

#include "tessera/comm/communicator.hpp"

namespace tessera {

/// How many values all ranks have together. Collective.
std::int64_t count_values(std::span<const float> values, const Communicator& comm);

/// The value at `place` (from 0) of all ranks' values in ascending order, exactly, without sorting or
/// gathering them: three histograms over the bits of a float, whose counts are whole numbers. The same bits
/// for any number of ranks. Values are finite; some rank has more than `place` of them in all. Collective.
float order_statistic(std::span<const float> values, std::int64_t place, const Communicator& comm);

/// The upper median; 0 where there are no values. Collective.
float median(std::span<const float> values, const Communicator& comm);

/// Sum of values >= 0, the same bits for any number of ranks and any order: values are cut into two whole
/// numbers of 30 bits below the largest, which are summed as such. Exact but for what lies 2^-60 below the
/// largest; up to 2^33 values. Collective.
double ordered_sum(std::span<const float> values, const Communicator& comm);

}  // namespace tessera
