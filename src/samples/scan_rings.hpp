// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tessera/comm/communicator.hpp"

namespace tessera {

/// Some views of some rows of the detector, all columns: `views` by `rows` by `columns`, from view and row `first_view` and
/// `first_row` of `all_views` and `all_rows` on. Without weights all samples count.
struct RingSamples {
  std::span<float> y;
  std::span<const double> weights;
  std::int64_t views = 0, rows = 0, columns = 0;
  std::int64_t first_view = 0, first_row = 0, all_views = 1, all_rows = 1;
};

/// Takes from each column of the detector by how much it differs from its neighbors alike in all views. Three times over:
///   f = y - s(y),  s: a parabola through 9 columns around,
///   o_b = the mean of f over an eighth of the views, by Huber's rule (0.75 deviations of all f),
///   y -= m (1 - (2 d / m)^2),  m, d: the median of the o_b and its error, if the parenthesis is above 0.
/// What a part of the object does to a column is seen in some views and not in others, and stays. Offsets of more than 4
/// usual ones stay where `round`: such are the edges of a round object. Returns the deviation of what was taken.
/// Collective: the views of all ranks together, the same on any.
double take_rings(const RingSamples& samples, bool round, const Communicator& comm);

}  // namespace tessera
