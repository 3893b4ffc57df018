// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <string>
#include <vector>

#include "tessera/app/problem.hpp"

namespace tessera {

/// Smallest and largest where `marks` is not 0; of host tensors. Collective.
std::array<double, 2> range_of(const Measurement& parts, const Measurement& marks, const Communicator& comm);

/// A line for each thing about measured values that is probably not meant: they fill little of the range,
/// leave it, or pile up at their smallest or largest value. `marks`: 1 where a sample counts. Collective.
void warn_of_values(const Geometry& g, const Measurement& y, const Measurement& marks,
                    std::vector<std::string>& warnings, const Communicator& comm);

/// Whether weights of a file only say which samples count: nothing but 0 and one of 1, 255, 65535. Where they
/// are 0 and another number, inverse variances are assumed and held against the noise that the data show.
/// Says so in problem.notices or warnings. Collective.
bool weights_are_mask(const Geometry& g, const Measurement& weights, const Measurement& y,
                      const Measurement& marks, Problem& problem, const Communicator& comm);

}  // namespace tessera
