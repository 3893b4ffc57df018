// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <vector>

#include "tessera/app/operator_table.hpp"
#include "tessera/physics/projection_geometry.hpp"

namespace tessera {

/// The row of projections: geometry by rules, from a scan or none.
OperatorRow tomography();
/// The row's `global`: the geometry that its options describe.
std::unique_ptr<OperatorPlan> plan_tomography(const OperatorRequest& request);

/// What a scan is and sees, a line each for the user: beam, views and their angles, detector, magnification; field of view
/// and what of the image is outside. Not collective.
std::vector<std::string> in_words(const ProjectionGeometry& geometry);

/// The row's `scan` and `complete`.
Scan tomography_scan(const ProblemConfig& problem, ScanFile file);
void complete_tomography(OperatorConfig& part, OperatorConfig& said, Scan* scan,
                         std::vector<std::string>& notices, const Communicator& comm);

}  // namespace tessera
