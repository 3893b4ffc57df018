// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cmath>
#include <cstdint>
#include <memory>
#include <numbers>
#include <random>
#include <string>
#include <vector>

#include "tessera/physics/projection_geometry.hpp"
#include "tessera/physics/projector.hpp"

namespace tessera::test {

inline std::vector<double> angles(int n, double turn, double start = 0) {
  std::vector<double> all;
  for (int k = 0; k < n; ++k) all.push_back(start + turn * k / n);
  return all;
}

inline std::vector<double> random_numbers(std::int64_t n, unsigned seed) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<double> draw(-1, 1);
  std::vector<double> all(static_cast<std::size_t>(n));
  for (double& x : all) x = draw(engine);
  return all;
}

struct ProjectorCase {
  std::string name;
  std::shared_ptr<const ProjectionGeometry> geometry;
};

/// Every beam and every way that the code can go, of sizes that nothing divides.
inline std::vector<ProjectorCase> projector_cases() {
  constexpr double kTurn = 2 * std::numbers::pi;
  std::vector<ProjectorCase> all;
  const auto add = [&](const std::string& name, const CircularScan& scan, const VolumeGrid& grid) {
    all.push_back({name, std::make_shared<const ProjectionGeometry>(circular_geometry(scan, grid))});
  };
  CircularScan flat;
  flat.angles = angles(24, kTurn);  // 0, 45 and 90 degrees among them
  flat.columns = 61;
  const VolumeGrid picture{{1, 37, 45}, {1, 1, 1}};
  add("parallel", flat, picture);
  CircularScan shifted = flat;
  shifted.axis_offset = 3.3;
  shifted.detector_shift = {-1.7, 0};
  add("parallel, anisotropic, shifted", shifted, {{1, 70, 83}, {0.8, 0.9, 1.2}});
  CircularScan fine = flat;
  fine.column_pitch = 0.72;
  add("parallel, fine", fine, picture);
  fine.column_pitch = 0.23;
  add("parallel, very fine", fine, picture);
  CircularScan coarse = flat;
  coarse.column_pitch = 2.6;
  add("parallel, coarse", coarse, picture);
  CircularScan stack = flat;
  stack.rows = 19;
  stack.detector_shift = {0.4, 0};
  const VolumeGrid volume{{19, 21, 26}, {1, 1, 1}};
  add("parallel, stack", stack, volume);
  stack.row_pitch = 1.3;
  stack.detector_shift = {0.4, 0.6};
  stack.column_pitch = 0.6;
  add("parallel, stack, rows between slices", stack, volume);
  add("parallel, three slices, rows between slices", stack, {{3, 21, 26}, {0.8, 0.8, 1}});

  CircularScan wide = flat;
  wide.angles = angles(8, kTurn);
  wide.columns = 130;
  wide.rows = 9;
  add("parallel, stack, many tiles", wide, {{9, 81, 100}, {1, 1, 1}});

  CircularScan fan = flat;
  fan.beam = Beam::fan;
  fan.source_axis = 90;
  fan.source_detector = 170;
  fan.column_pitch = 2.2;
  fan.axis_offset = 0.4;
  add("fan", fan, picture);
  fan.column_pitch = 1.2;
  fan.columns = 101;
  add("fan, fine", fan, {{1, 37, 45}, {1, 0.7, 1}});
  fan.rows = 12;
  fan.columns = 61;
  fan.detector_shift = {0, 0.25};
  add("fan, stack", fan, {{13, 37, 30}, {1, 1, 1}});

  CircularScan cone = fan;
  cone.beam = Beam::cone;
  cone.column_pitch = cone.row_pitch = 2;
  cone.rows = 37;
  cone.columns = 43;
  const VolumeGrid ball{{23, 25, 29}, {1, 1, 1}};
  add("cone", cone, ball);
  cone.angles = angles(8, kTurn, 0.2);
  cone.columns = 130;
  cone.source_axis = 200;
  cone.source_detector = 300;
  add("cone, many tiles", cone, {{23, 81, 100}, {1, 1, 1}});
  cone.angles = fan.angles;
  cone.source_axis = 90;
  cone.source_detector = 170;
  cone.axis_offset = -2.4;
  cone.detector_shift = {1.2, -3.3};
  cone.column_pitch = cone.row_pitch = 0.9;
  cone.rows = 70;
  cone.columns = 80;
  add("cone, fine, anisotropic, shifted", cone, {{23, 25, 29}, {1, 0.9, 1.2}});
  cone.helical_pitch = 6;
  cone.row_pitch = 1.7;
  add("cone, helical", cone, ball);
  cone.row_pitch = 4.5;
  add("cone, coarse rows", cone, ball);
  cone.source_axis = 34;
  cone.source_detector = 40;
  cone.helical_pitch = 0;
  cone.row_pitch = cone.column_pitch = 1.5;
  add("cone, wide", cone, {{41, 17, 19}, {1, 1, 1}});

  CircularScan lamino = cone;
  lamino.lean = 0.4;
  lamino.rotation = 0.05;
  lamino.slant = -0.1;
  lamino.center = {1.5, -0.5};
  lamino.source_axis = 90;
  lamino.source_detector = 130;
  add("cone, laminography", lamino, {{9, 19, 17}, {1, 1.1, 0.9}});

  // The detector's rows upside down, columns the other way; then one that leans.
  ProjectionGeometry turned = circular_geometry(cone, {{19, 17, 19}, {1, 1, 1}});
  for (ProjectionView& view : turned.views)
    for (std::size_t d = 0; d < 3; ++d) view.u[d] = -view.u[d], view.v[d] = -view.v[d];
  all.push_back({"cone, turned detector", std::make_shared<const ProjectionGeometry>(turned)});
  for (std::size_t k = 0; k < turned.views.size(); k += 2) {
    turned.views[k].v = {0.2, 0.1, 1.4};
    turned.views[k].u[2] = 0.3;
  }
  all.push_back({"cone, leaning detector", std::make_shared<const ProjectionGeometry>(turned)});
  ProjectionGeometry tilted = circular_geometry(stack, volume);
  for (ProjectionView& view : tilted.views) view.source[2] = 0.7;
  all.push_back({"parallel, tilted", std::make_shared<const ProjectionGeometry>(tilted)});
  return all;
}

/// The kernels that this CPU can run.
inline std::vector<ProjectorKernels> all_kernels() {
  std::vector<ProjectorKernels> all{ProjectorKernels::plain};
  if (fastest_projector_kernels() != ProjectorKernels::plain) all.push_back(ProjectorKernels::avx2);
  if (fastest_projector_kernels() == ProjectorKernels::avx512) all.push_back(ProjectorKernels::avx512);
  return all;
}

}  // namespace tessera::test
