// SPDX-License-Identifier: BSD-3-Clause
// Scans of small pictures and volumes, placed on groups of ranks.
#pragma once

#include <cmath>
#include <memory>
#include <numbers>
#include <string>
#include <vector>

#include "domain/operators.hpp"
#include "tessera/domain/projection.hpp"

namespace tessera::test {

inline std::vector<double> angles(std::int64_t count, double range) {
  std::vector<double> all;
  for (std::int64_t k = 0; k < count; ++k)
    all.push_back(range * static_cast<double>(k) / static_cast<double>(count));
  return all;
}

struct Case {
  std::string name;
  VolumeGrid volume;
  CircularScan scan;
  std::shared_ptr<const ProjectionGeometry> geometry() const {
    return std::make_shared<ProjectionGeometry>(circular_geometry(scan, volume));
  }
};

inline std::vector<Case> cases() {
  constexpr double kPi = std::numbers::pi;
  return {
      {"parallel picture", {{1, 23, 31}}, {.angles = angles(70, kPi), .columns = 41, .axis_offset = 1.3}},
      {"fan picture",
       {{1, 23, 31}},
       {.beam = Beam::fan,
        .angles = angles(33, 2 * kPi),
        .source_axis = 60,
        .source_detector = 110,
        .columns = 90}},
      {"parallel volume", {{7, 12, 11}}, {.angles = angles(37, kPi), .rows = 7, .columns = 19}},
      {"cone volume",
       {{7, 12, 11}},
       {.beam = Beam::cone,
        .angles = angles(35, 2 * kPi),
        .source_axis = 40,
        .source_detector = 80,
        .rows = 21,
        .columns = 40,
        .helical_pitch = 3}},
      {"circular cone volume",
       {{7, 12, 11}},
       {.beam = Beam::cone,
        .angles = angles(36, 2 * kPi),
        .source_axis = 40,
        .source_detector = 80,
        .rows = 21,
        .columns = 40,
        .axis_offset = 1.3}},
  };
}

struct Placed {
  std::unique_ptr<OperatorPlan> plan;
  ProductSpace domain;
  std::unique_ptr<DistributedOperator> A;
  Placed(const Case& c, const Grid3& grid, const Communicator& comm, at::ScalarType type = at::kDouble)
      : plan(plan_projection(c.geometry())),
        domain(ImageSpace(c.volume.box(), 2), Decomposition(c.volume.box(), {1, 1, 1}, grid)),
        A(plan->place(
            {domain, at::TensorOptions(type), make_transport(comm, {}, TransportKind::mpi), comm})) {}
};

}  // namespace tessera::test
