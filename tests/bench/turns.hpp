// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

namespace tessera {

/// A row of a benchmark's table that can be measured by itself.
struct TimedRow {
  std::string name;
  std::function<double()> milliseconds;
};

/// What in_turn.py talks to: says how many rows there are and their names, a line each; then for every number on
/// standard input the milliseconds of that row, until the input ends.
inline void measure_in_turn(const std::vector<TimedRow>& rows) {
  std::printf("%zu\n", rows.size());
  for (const TimedRow& row : rows) std::printf("%s\n", row.name.c_str());
  std::fflush(stdout);
  for (std::size_t row = 0; std::scanf("%zu", &row) == 1 && row < rows.size();) {
    std::printf("%.6f\n", rows[row].milliseconds());
    std::fflush(stdout);
  }
}

}  // namespace tessera
