// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tessera/comm/communicator.hpp"
#include "tessera/physics/projection_geometry.hpp"

namespace tessera {

/// What a file says of a scan's views, in the frame of vector_geometry().
struct GeometryFile {
  std::optional<Beam> beam;                   // none: it does not say
  std::vector<std::array<double, 12>> views;  // as vector_geometry() takes them
  std::int64_t rows = 0, columns = 0;         // of the detector; 0: it does not say
  bool flat = false;                          // of one slice
};

/// By its contents: JSON (ASTRA's dicts, or rows of numbers), XML (RTK's ThreeDCircularProjectionGeometry), Nikon's
/// .xtekct, else rows of 6 or 12 numbers: text, .npy, FILE.h5:/dataset. 6 are ASTRA's, whose y goes up; 12 have y along
/// rows. `pitch`: between rows and columns, of files that do not say it (RTK). The same on all ranks. Collective;
/// InputError.
GeometryFile read_geometry(const std::string& path, const std::array<double, 2>& pitch,
                           const Communicator& comm);

}  // namespace tessera
