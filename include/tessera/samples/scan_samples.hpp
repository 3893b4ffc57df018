// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <vector>

#include "tessera/io/measurement_file.hpp"
#include "tessera/samples/scan.hpp"
#include "tessera/samples/weigh_samples.hpp"

namespace tessera {

/// float64 becomes float32, in place: by a power of two, which is returned, where the units are extreme. Collective.
double fit_float(Measurement& parts, const Communicator& comm);

/// Weights as a file has them: what is no number counts 0; float64 becomes float32. Collective; InputError where one is
/// negative.
void take_weights(Samples& samples, const Communicator& comm);

/// A scan's samples as line integrals, each rank its own, views by views. Collective; InputError equal on all ranks.
Samples scan_samples(const Survey& survey, const Scan& scan, const MeasurementOrigin& origin,
                     const ProductSpace& layout, std::vector<std::string>& notices, const Communicator& comm);

}  // namespace tessera
