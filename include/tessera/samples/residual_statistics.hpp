// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "tessera/comm/exchange.hpp"
#include "tessera/domain/data_term.hpp"

namespace tessera {

/// What the standardized residual r of one part says, over the samples that count. docs/metrics.md.
struct ResidualStatistics {
  std::int64_t samples = 0;
  double mean = 0, chi2 = 0;  // of r, of r^2
  /// Of the normalized autocorrelations of r - mean at lags of up to 5 samples in both axes, the one farthest
  /// from 0, never beyond 1; channels apart, pairs of samples that both count.
  double correlation = 0;
  std::array<int, 2> lag{};  // rows, columns
  double white = 0;          // standard deviation of that correlation for white noise: 1 / sqrt(pairs)
  /// Shares of samples that equal the smallest and the largest of the part's data.
  double at_smallest = 0, at_largest = 0;
  double beside_smallest = 0, beside_largest = 0;  // that equal the next value there
  double smallest = 0, largest = 0;
  /// Mean of r^2 over square tiles of all channels, row by row; NaN where less than a quarter of a tile
  /// counts.
  std::int64_t side = 0, rows = 0, columns = 0;
  std::vector<double> tiles;
};
/// Collective; the same on any number of ranks up to rounding. Whiteness and tiles: of volumes, within slices.
ResidualStatistics residual_statistics(const Fit& fit, std::size_t part, const ProductSpace& layout,
                                       const std::shared_ptr<Transport>& transport, const Communicator& comm);

}  // namespace tessera
