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
  Box box;          // all samples
  Layout layout;    // who holds which
  ArrayView block;  // this rank's samples
};

/// What a measurement file says of a part. A picture, .npy, or one HDF5 dataset is a measurement of one part.
struct MeasurementPartInfo {
  Box box;
  std::int64_t channels = 1;
  double full_scale = 1;
};
std::vector<MeasurementPartInfo> measurement_info(const std::string& path,
                                                  const Communicator& comm);  ///< collective
bool has_weights(const std::string& path, const Communicator& comm);          ///< collective

/// Collective. `group`: "measurements" or "weights"; of a single-part source the group does not matter. Reads
/// file values unscaled. InputError (equal on all ranks) where sizes or channels do not fit.
void read_measurements(const std::string& path, const std::string& group,
                       const std::vector<MeasurementPart>& parts, const Communicator& comm);

/// Collective. HDF5 with /measurements/0 ..., /weights/0 ... when given, and the job's text as attribute
/// `job`.
void write_measurements(const std::string& path, const std::vector<MeasurementPart>& measurements,
                        const std::vector<MeasurementPart>& weights, const std::string& job,
                        const Communicator& comm);

}  // namespace tessera
