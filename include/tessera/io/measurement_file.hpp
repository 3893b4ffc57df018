// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/comm/array.hpp"
#include "tessera/comm/communicator.hpp"
#include "tessera/comm/exchange_plan.hpp"

namespace tessera {

/// One part of a measurement on this rank.
struct MeasurementPart {
  Box box;          // all samples; starts at 0
  Layout layout;    // who holds which
  ArrayView block;  // this rank's samples, on the host; may be empty
};

/// What a measurement file says of a part. A picture, .npy, or one HDF5 dataset is a measurement of one part.
struct MeasurementPartInfo {
  Box box;
  std::int64_t channels = 1;
  double full_scale = 1;
};

/// Collective. Checks the whole file: parts numbered from 0 without a gap, weights on the grid of their part.
/// InputError equal on all ranks.
std::vector<MeasurementPartInfo> measurement_info(const std::string& path, const Communicator& comm);

/// Collective. Whether a measurement file has weights beside at least one part.
bool has_weights(const std::string& path, const Communicator& comm);

/// Collective. `group`: "measurements" or "weights"; of a single-part source the group does not matter. Reads
/// file values unscaled. Weights of one channel count for every channel; a part without weights beside
/// others that have them gets 1. InputError (equal on all ranks) where sizes or channels do not fit.
void read_measurements(const std::string& path, const std::string& group,
                       const std::vector<MeasurementPart>& parts, const Communicator& comm);

/// Collective. HDF5 with /measurements/0 ..., /weights/0 ... when given, and as attributes of /measurements
/// the job's text (`job`) and the version of this layout (`schema`). Whole or absent, and the same file for
/// any number of ranks. RunError equal on all ranks.
void write_measurements(const std::string& path, const std::vector<MeasurementPart>& measurements,
                        const std::vector<MeasurementPart>& weights, const std::string& job,
                        const Communicator& comm);

}  // namespace tessera
