// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/comm/array.hpp"
#include "tessera/comm/communicator.hpp"
#include "tessera/comm/exchange_plan.hpp"
#include "tessera/io/distributed_image.hpp"

namespace tessera {

/// One part of a measurement on this rank.
struct MeasurementPart {
  Box box;          // all samples; starts at 0
  Layout layout;    // who holds which
  ArrayView block;  // this rank's samples, on the host; may be empty
};

/// What a measurement file says of a part. A picture, .npy, or one HDF5 dataset is a measurement of one part.
struct MeasurementPartInfo {
  SourceInfo source;  // the array that holds the samples
  std::string path;   // of it: FILE.h5:/measurements/0
};

/// Collective. Checks the whole file: parts numbered from 0 without a gap, weights on the grid of their part.
/// InputError equal on all ranks.
std::vector<MeasurementPartInfo> measurement_info(const std::string& path, const Communicator& comm);

/// Collective. Whether a measurement file has weights beside at least one part.
bool has_weights(const std::string& path, const Communicator& comm);

/// What a measurement file says of itself; nothing where it is a picture or another array.
struct MeasurementOrigin {
  std::string problem;    // YAML of the problem that made it, as tessera simulate writes it
  bool internal = false;  // samples are in internal range, not in file units
  double factor = 0;      // file units = internal value * factor + offset; 0: not said
  double offset = 0;
};
/// Collective. InputError for units that this tessera does not know.
MeasurementOrigin measurement_origin(const std::string& path, const Communicator& comm);

/// Collective. `group`: "measurements", "weights", or for arrays in the layout of a measurement file (dark
/// frames, flat fields) "frames"; of a single-part source the group does not matter. Reads values as they are
/// stored. Weights and frames of one channel count for every channel; a part without weights beside others
/// that have them gets 1. InputError (equal on all ranks) where sizes or channels do not fit.
void read_measurements(const std::string& path, const std::string& group,
                       const std::vector<MeasurementPart>& parts, const Communicator& comm);

/// What is written beside the samples.
struct MeasurementRecord {
  std::string job;             // the job's text
  MeasurementOrigin origin{};  // attributes problem, units, factor, offset
  struct Array {
    std::string name;  // such as /kernels/0
    MeasurementPart part;
  };
  std::vector<Array> arrays = {};  // that the problem names
};

/// Collective. HDF5 with /measurements/0 ..., /weights/0 ... when given, and as attributes of /measurements
/// the record and the version of this layout (`schema`). Whole or absent, and the same file for any number of
/// ranks. RunError equal on all ranks.
void write_measurements(const std::string& path, const std::vector<MeasurementPart>& measurements,
                        const std::vector<MeasurementPart>& weights, const MeasurementRecord& record,
                        const Communicator& comm);

}  // namespace tessera
