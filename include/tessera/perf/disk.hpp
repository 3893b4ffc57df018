// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "tessera/core/execution.hpp"
#include "tessera/perf/model.hpp"

namespace tessera {

/// What one iteration reads from a rank's scratch file and writes to it, bytes.
struct DiskBytes {
  double read = 0, written = 0;
  double both() const { return read + written; }
};

/// By arithmetic: the passes over images that the solver's row names (SolverRow::passes), those of the data term, the
/// denoiser and the loop, one after the other through a cache of `cache` bytes that drops what was used longest ago. Each
/// pass writes what it changes, since what is taken from memory is written at once, some of it twice where little is cached. Zeros where the row names none.
DiskBytes disk_bytes(const DataWork& data, const Decomposition& decomposition, const Execution& execution,
                     const Index3& denoiser_halo, double cache, int rank);
/// Of the rank with most.
DiskBytes most_disk_bytes(const DataWork& data, const Decomposition& decomposition,
                          const Execution& execution, const Index3& denoiser_halo, double cache);

}  // namespace tessera
