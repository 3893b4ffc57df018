// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/comm/communicator.hpp"
#include "tessera/core/box.hpp"

namespace tessera {

/// A part of one row of a picture.
struct Run {
  std::int64_t row = 0, begin = 0, end = 0;
  std::int64_t size() const { return end - begin; }
};

/// Runs of a plane, ascending and apart, and of which connected area each is, counted from 0.
struct Areas {
  std::vector<Run> runs;
  std::vector<std::int32_t> area;
  std::int32_t count = 0;
  std::vector<std::int64_t> sizes() const;
};

/// The runs of all ranks as each has them of its own block, ascending, joined where blocks meet: the same for any number
/// of ranks. Empty where they are more than `most`. Collective.
std::vector<Run> gather_runs(const std::vector<Run>& own, std::int64_t most, const Communicator& comm);

enum class Corners { join, part };  // whether areas are one where they meet at a corner only
Areas connect(std::vector<Run> runs, Corners corners);

/// Wider by a sample on all sides.
std::vector<Run> grown(const std::vector<Run>& runs, const Box& frame);

/// All of both.
std::vector<Run> both(std::vector<Run> a, const std::vector<Run>& b);

/// With what their areas at the frame enclose: areas of the rest that are less than a twentieth of its largest one.
std::vector<Run> without_holes(const std::vector<Run>& runs, const Box& frame);

}  // namespace tessera
