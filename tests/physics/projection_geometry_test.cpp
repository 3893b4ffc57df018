// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/physics/projection_geometry.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "tessera/core/error.hpp"

namespace tessera {
namespace {

constexpr double kRight = std::numbers::pi / 2;

// Where the middle of voxel (d, h, w) of a 64 x 64 picture stands.
Vector3 pixel(double h, double w) { return {w - 31.5, h - 31.5, 0}; }

TEST(ProjectionGeometry, PixelsAreSeenWhereAstraAndMbirjaxSeeThem) {
  CircularScan scan;
  scan.angles = {0, kRight};
  scan.columns = 64;
  const ProjectionGeometry g = circular_geometry(scan, {{1, 64, 64}, {1, 1, 1}});
  EXPECT_NEAR(project_point(g, 0, pixel(10, 40))[0], 40, 1e-12);
  EXPECT_NEAR(project_point(g, 1, pixel(10, 40))[0], 53, 1e-12);
}

TEST(ProjectionGeometry, FanSourceStandsOnTheSideOfTheLastRow) {
  CircularScan scan;
  scan.beam = Beam::fan;
  scan.angles = {0, kRight, 2 * kRight, 3 * kRight};
  scan.columns = 128;
  scan.source_axis = 128;
  scan.source_detector = 256;
  for (const Beam beam : {Beam::fan, Beam::cone}) {
    scan.beam = beam;
    const ProjectionGeometry g = circular_geometry(scan, {{1, 64, 64}, {1, 1, 1}});
    const double seen[] = {14.53, 46.05, -20.42, -40.34};  // astra's, from the middle of a pixel's profile
    for (std::int64_t v = 0; v < 4; ++v)
      EXPECT_NEAR(project_point(g, v, pixel(10, 40))[0] - 63.5, seen[v], 0.03) << v;
    EXPECT_DOUBLE_EQ(magnification(g, 0), 2);
  }
}

TEST(ProjectionGeometry, OffsetsAreInSamples) {
  for (const Beam beam : {Beam::parallel, Beam::fan, Beam::cone}) {
    CircularScan scan;
    scan.beam = beam;
    scan.angles = {0.3, 1.9, 4};
    scan.columns = 65;
    scan.rows = beam == Beam::cone ? 33 : 1;
    scan.source_axis = 100;
    scan.source_detector = 230;
    scan.column_pitch = 1.5;
    scan.axis_offset = 2.25;
    const ProjectionGeometry right = circular_geometry(scan, {{1, 20, 20}, {1, 1, 1}});
    scan.axis_offset = 0;
    scan.detector_shift = {2.25, 0};
    const ProjectionGeometry left = circular_geometry(scan, {{1, 20, 20}, {1, 1, 1}});
    for (std::int64_t v = 0; v < 3; ++v) {
      EXPECT_NEAR(project_point(right, v, {0, 0, 0})[0], 32 + 2.25, 1e-9);
      EXPECT_NEAR(project_point(left, v, {0, 0, 0})[0], 32 - 2.25, 1e-9);
    }
  }
}

TEST(ProjectionGeometry, HelixRisesByItsPitchInATurn) {
  CircularScan scan;
  scan.beam = Beam::cone;
  scan.angles = {0, 4 * kRight};
  scan.source_axis = 50;
  scan.source_detector = 100;
  scan.columns = scan.rows = 9;
  scan.helical_pitch = 3;
  const ProjectionGeometry g = circular_geometry(scan, {{4, 4, 4}, {1, 1, 1}});
  EXPECT_NEAR(project_point(g, 0, {0, 0, 0})[1], 4, 1e-9);
  EXPECT_NEAR(project_point(g, 1, {0, 0, 3})[1], 4, 1e-9);
  EXPECT_NEAR(project_point(g, 1, {0, 0, 0})[1], 4 - 6, 1e-9);  // twice as large on the detector
}

// The axis is where the detector sees it, whatever way that is turned; its rows run down to the right, its last row and
// column come nearer to the source.
TEST(ProjectionGeometry, DetectorsTurnAboutTheirMiddles) {
  CircularScan scan;
  scan.beam = Beam::cone;
  scan.angles = {0, 1.3};
  scan.source_axis = 50;
  scan.source_detector = 100;
  scan.columns = scan.rows = 9;
  const VolumeGrid grid{{4, 4, 4}, {1, 1, 1}};
  const auto near = [](const ProjectionView& view, int i, int j) {
    double square = 0;
    for (std::size_t d = 0; d < 3; ++d) {
      const double off = view.center[d] + i * view.u[d] + j * view.v[d] - view.source[d];
      square += off * off;
    }
    return std::sqrt(square);
  };
  scan.rotation = 0.1;
  for (const ProjectionView& view : circular_geometry(scan, grid).views) {
    EXPECT_NEAR(view.u[2], std::sin(0.1), 1e-12);
    EXPECT_NEAR(near(view, 4, 0), near(view, -4, 0), 1e-9);
  }
  scan.tilt = 0.2;
  scan.rotation = 0;
  for (const ProjectionView& view : circular_geometry(scan, grid).views)
    EXPECT_LT(near(view, 0, 4), near(view, 0, -4) - 1);
  scan.tilt = 0;
  scan.slant = 0.2;
  for (const ProjectionView& view : circular_geometry(scan, grid).views)
    EXPECT_LT(near(view, 4, 0), near(view, -4, 0) - 1);
  scan.rotation = 0.1;
  scan.tilt = 0.2;
  for (std::int64_t v = 0; v < 2; ++v) {
    const auto at = project_point(circular_geometry(scan, grid), v, {0, 0, 0});
    EXPECT_NEAR(at[0], 4, 1e-9);
    EXPECT_NEAR(at[1], 4, 1e-9);
  }
}

TEST(ProjectionGeometry, AnAxisThatLeansTakesTheSourceBehindTheLastSlice) {
  CircularScan scan;
  scan.angles = {0, 2};
  scan.columns = scan.rows = 9;
  scan.lean = 0.5;
  const ProjectionGeometry g = circular_geometry(scan, {{4, 4, 4}, {1, 1, 1}});
  for (std::int64_t v = 0; v < 2; ++v) {
    EXPECT_NEAR(g.views[static_cast<std::size_t>(v)].source[2], std::sin(0.5), 1e-12);
    EXPECT_NEAR(project_point(g, v, {0, 0, 1})[1] - 4, std::cos(0.5), 1e-9);  // foreshortened
  }
}

TEST(ProjectionGeometry, TheAxisPassesTheImageWhereItIsSaid) {
  for (const Beam beam : {Beam::parallel, Beam::fan, Beam::cone}) {
    CircularScan scan;
    scan.beam = beam;
    scan.angles = {0, 1, 2.5};
    scan.source_axis = 50;
    scan.source_detector = 100;
    scan.columns = 33;
    scan.axis_offset = 1.5;
    scan.center = {0.5, -2};
    const ProjectionGeometry g = circular_geometry(scan, {{1, 8, 8}, {1, 1, 1}});
    for (std::int64_t v = 0; v < 3; ++v) EXPECT_NEAR(project_point(g, v, {0.5, -2, 0})[0], 16 + 1.5, 1e-9);
    EXPECT_NEAR(magnification(g, 1), beam == Beam::parallel ? 1 : 2, 1e-9);
  }
}

TEST(ProjectionGeometry, VectorsAreThoseOfTheCircle) {
  CircularScan scan;
  scan.beam = Beam::cone;
  scan.angles = {0.4};
  scan.source_axis = 50;
  scan.source_detector = 100;
  scan.columns = scan.rows = 9;
  const VolumeGrid grid{{4, 4, 4}, {1, 1, 1}};
  const ProjectionView view = circular_geometry(scan, grid).views[0];
  const ProjectionGeometry g =
      vector_geometry(Beam::cone,
                      {{view.source[0], view.source[1], view.source[2], view.center[0], view.center[1],
                        view.center[2], view.u[0], view.u[1], view.u[2], view.v[0], view.v[1], view.v[2]}},
                      9, 9, grid);
  EXPECT_EQ(g.views[0].source, view.source);
  EXPECT_EQ(g.views[0].v, view.v);
}

TEST(ProjectionGeometry, FieldOfViewIsWhatAllViewsSee) {
  CircularScan scan;
  scan.angles = {0, 1, 2};
  scan.columns = 41;
  scan.rows = 11;
  const VolumeGrid grid{{11, 20, 20}, {1, 1, 1}};
  EXPECT_NEAR(field_of_view(circular_geometry(scan, grid)).radius, 20.5, 1e-9);
  EXPECT_NEAR(field_of_view(circular_geometry(scan, grid)).height, 11, 1e-9);
  scan.axis_offset = 4;
  EXPECT_NEAR(field_of_view(circular_geometry(scan, grid)).radius, 16.5, 1e-9);
  scan.axis_offset = 30;
  EXPECT_EQ(field_of_view(circular_geometry(scan, grid)).radius, 0);
  scan.axis_offset = 0;
  scan.beam = Beam::cone;
  scan.source_axis = 100;
  scan.source_detector = 200;
  const FieldOfView cone = field_of_view(circular_geometry(scan, grid));
  EXPECT_NEAR(cone.radius, 100 * 20.5 / std::hypot(200, 20.5), 1e-9);
  EXPECT_NEAR(cone.height, 5.5, 1e-9);
}

TEST(ProjectionGeometry, ImpossibleScansAreRefused) {
  CircularScan scan;
  scan.angles = {0};
  const VolumeGrid grid{{8, 8, 8}, {1, 1, 1}};
  const auto refused = [&](const CircularScan& s, const VolumeGrid& g) {
    EXPECT_THROW(circular_geometry(s, g), InputError);
  };
  EXPECT_NO_THROW(circular_geometry(scan, grid));
  CircularScan other = scan;
  other.angles.clear();
  refused(other, grid);
  other = scan;
  other.column_pitch = 0;
  refused(other, grid);
  other = scan;
  other.columns = 0;
  refused(other, grid);
  other = scan;
  other.angles = {std::nan("")};
  refused(other, grid);
  refused(scan, {{8, 8, 8}, {1, -1, 1}});
  other = scan;
  other.beam = Beam::cone;
  refused(other, grid);   // no distances
  other.source_axis = 4;  // inside
  other.source_detector = 30;
  refused(other, grid);
  EXPECT_THROW(vector_geometry(Beam::parallel, {{1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1}}, 1, 8, grid),
               InputError);
  EXPECT_THROW(vector_geometry(Beam::parallel, {{0, 1, 0, 0, 0, 0, 1, 0, 0, 2, 0, 0}}, 1, 8, grid),
               InputError);
}

}  // namespace
}  // namespace tessera
