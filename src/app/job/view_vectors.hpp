// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/comm/communicator.hpp"
#include "tessera/core/options.hpp"
#include "tessera/samples/scan.hpp"

namespace tessera {

/// Reads the file of a geometry into the options of type tomography: views.vectors, beam, the detector's size, which is
/// also that of the scan. Collective; InputError.
void take_geometry(Options& options, const Scan* scan, const Communicator& comm);

/// Of views by vectors: degrees, as if their steps along columns went around a circle.
std::vector<double> vector_angles(const Options& options);

/// By which the middle of the volume is seen right of the detector's middle in the first view, columns.
double vector_axis(const Options& options);

/// The vectors of the frames that are left.
void keep_vectors(Options& options, const std::vector<std::int64_t>& before,
                  const std::vector<std::int64_t>& after);

}  // namespace tessera
