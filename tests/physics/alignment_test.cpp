// SPDX-License-Identifier: BSD-3-Clause
// The axis of fans, turned detectors and views that stand aside, from closed forms of smooth balls with noise.
#include "tessera/physics/alignment.hpp"

#include <gtest/gtest.h>

#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <array>
#include <cmath>
#include <numbers>
#include <optional>

namespace tessera {
namespace {

// Of balls (1 - r^2)^2 amid the slice, (1, views, columns).
at::Tensor samples_of(const ProjectionGeometry& g) {
  constexpr std::array<std::array<double, 3>, 4> balls{{{0, 0, 34}, {-12, 8, 9}, {15, -10, 6}, {3, 19, 4}}};
  at::Tensor y = at::zeros({1, std::ssize(g.views), g.columns}, at::kDouble);
  double* to = y.mutable_data_ptr<double>();
  for (const ProjectionView& view : g.views)
    for (std::int64_t i = 0; i < g.columns; ++i, ++to) {
      const double off = static_cast<double>(i) - 0.5 * static_cast<double>(g.columns - 1),
                   x = view.center[0] + off * view.u[0], h = view.center[1] + off * view.u[1];
      double dx = view.source[0], dy = view.source[1];
      if (g.beam != Beam::parallel) dx -= x, dy -= h;
      for (const auto& [bx, by, radius] : balls) {
        const double p = ((x - bx) * dy - (h - by) * dx) / std::hypot(dx, dy) / radius, rest = 1 - p * p;
        if (rest > 0) *to += 16.0 / 15 * radius * std::pow(rest, 2.5);
      }
    }
  return y;
}

CircularScan scan_of(Beam beam, int views, double degrees) {
  CircularScan scan;
  scan.beam = beam;
  for (int k = 0; k < views; ++k) scan.angles.push_back((11 + degrees * k / views) * std::numbers::pi / 180);
  scan.columns = beam == Beam::parallel ? 97 : 141;
  scan.source_axis = 150;
  scan.source_detector = 250;
  scan.column_pitch = beam == Beam::parallel ? 1 : 1.3;
  return scan;
}

TEST(Alignment, TheAxisOfAFanIsWhereRaysFromBothSidesAgree) {
  for (const double degrees : {360.0, 230.0})
    for (const double off : {-13.37, 0.0, 0.5, 6.81}) {
      CircularScan scan = scan_of(Beam::fan, 120, degrees);
      scan.axis_offset = off;
      const at::Tensor y = samples_of(circular_geometry(scan, {{1, 80, 80}, {1, 1, 1}}));
      scan.axis_offset = 0;
      at::manual_seed(7);
      const Aligned found = find_fan_axis(y + 0.3 * at::randn(y.sizes(), at::kDouble), scan);
      EXPECT_EQ(found.problem, "");
      EXPECT_NEAR(found.value, off, 0.15) << degrees;
      EXPECT_LT(std::abs(found.value - off), 5 * found.error + 0.01)
          << degrees << ' ' << off << ' ' << found.error;
      EXPECT_LT(found.error, 0.2);
    }
}

TEST(Alignment, WhatNoRaySeesFromBothSidesIsNotFound) {
  CircularScan scan = scan_of(Beam::fan, 120, 360);
  EXPECT_NE(find_fan_axis(at::randn({1, 120, 141}, at::kDouble), scan).problem, "");
  EXPECT_NE(find_fan_axis(at::zeros({1, 120, 141}, at::kDouble), scan).problem, "");
  scan = scan_of(Beam::fan, 120, 100);
  EXPECT_NE(find_fan_axis(samples_of(circular_geometry(scan, {{1, 80, 80}, {1, 1, 1}})), scan).problem, "");
}

TEST(Alignment, RaysFromBothSidesAreAlikeUnderTheRightDistanceAndSenseAlone) {
  CircularScan scan = scan_of(Beam::fan, 120, 360);
  const at::Tensor y = samples_of(circular_geometry(scan, {{1, 80, 80}, {1, 1, 1}}));
  const double right = opposite_unlikeness(y, scan);
  EXPECT_LT(right, 0.02);
  CircularScan other = scan;
  for (double& angle : other.angles) angle = -angle;
  EXPECT_GT(opposite_unlikeness(y, other), 5 * right);
  for (const double times : {0.5, 2.0, 1e5}) {
    other = scan;
    other.source_detector *= times;
    EXPECT_GT(opposite_unlikeness(y, other), 3 * right) << times;
  }
  EXPECT_EQ(opposite_unlikeness(at::zeros_like(y), scan), 2);
}

TEST(Alignment, TheGapAtTheEndOfATurnIsFoundWhateverTheAnglesSay) {
  for (const double degrees : {180.0, 360.0})
    for (const int gap : {0, 1}) {
      const int views = 90;
      CircularScan scan = scan_of(Beam::parallel, views, degrees * views / (views - 1 + gap));
      scan.axis_offset = 2.5;
      const at::Tensor exact = samples_of(circular_geometry(scan, {{1, 80, 80}, {1, 1, 1}}));
      at::manual_seed(7);
      const at::Tensor y = exact + 0.02 * at::randn(exact.sizes(), at::kDouble);
      const std::optional<double> axis = degrees < 360 ? std::optional(48 + 2.5) : std::nullopt;
      for (const int said : {0, 1}) {
        const CircularScan as_said = scan_of(Beam::parallel, views, degrees * views / (views - 1 + said));
        const TurnGap found = find_turn_gap(y, as_said.angles, axis);
        ASSERT_EQ(found.problem, "") << degrees;
        EXPECT_NEAR(found.said, said, 1e-9);
        EXPECT_NEAR(found.found, gap, 0.4) << degrees << ' ' << said << ' ' << found.error;
        EXPECT_LT(found.error, 0.25);
      }
    }
}

TEST(Alignment, NoGapIsFoundWhereViewsAreUnevenlyApartOrAlikeOrEndElsewhere) {
  CircularScan scan = scan_of(Beam::parallel, 90, 180);
  const at::Tensor y = samples_of(circular_geometry(scan, {{1, 80, 80}, {1, 1, 1}}));
  EXPECT_EQ(find_turn_gap(y, scan.angles, 48).problem, "");
  EXPECT_NE(find_turn_gap(at::zeros_like(y), scan.angles, 48).problem, "");
  EXPECT_NE(find_turn_gap(y, scan_of(Beam::parallel, 90, 120).angles, 48).problem, "");
  scan.angles[40] += 0.01;
  EXPECT_NE(find_turn_gap(y, scan.angles, 48).problem, "");
}

TEST(Alignment, ADetectorIsTurnedByWhatMakesOppositeViewsMirrorImages) {
  for (const double degrees : {-3.3, 0.0, 0.4, 6.2}) {
    const double c = std::cos(degrees * std::numbers::pi / 180),
                 s = std::sin(degrees * std::numbers::pi / 180), axis = 3.3;
    at::manual_seed(3);
    at::Tensor frames = at::randn({1, 2, 60, 90}, at::kDouble) * 0.02;
    for (std::int64_t side = 0; side < 2; ++side)
      for (std::int64_t j = 0; j < 60; ++j)
        for (std::int64_t i = 0; i < 90; ++i) {
          const double u = static_cast<double>(i) - 44.5 - axis, v = static_cast<double>(j) - 29.5,
                       x = (u * c - v * s) * (side == 0 ? 1 : -1), z = u * s + v * c;
          frames[0][side][j][i] += std::exp(-((x - 9) * (x - 9) + (z + 8) * (z + 8)) / 60) +
                                   std::exp(-((x + 14) * (x + 14) / 90 + (z - 10) * (z - 10) / 30));
        }
    const Aligned found = find_detector_rotation(frames, axis + 0.2);
    ASSERT_EQ(found.problem, "");
    EXPECT_NEAR(found.value, degrees, 0.1) << found.error;
    EXPECT_LT(found.error, 0.2);
  }
  EXPECT_NE(find_detector_rotation(at::zeros({1, 2, 60, 90}, at::kDouble), 0).problem, "");
  EXPECT_NE(find_detector_rotation(at::zeros({0, 2, 60, 90}, at::kDouble), 0).problem, "");
}

// Of balls above each other, (views, rows, columns).
at::Tensor frames_of(const ProjectionGeometry& g) {
  constexpr std::array<std::array<double, 4>, 5> balls{
      {{0, 0, 0, 26}, {-12, 8, 9, 8}, {13, -8, -12, 6}, {3, 15, 2, 4}, {-6, -14, -4, 5}}};
  at::Tensor y = at::zeros({std::ssize(g.views), g.rows, g.columns}, at::kFloat);
  float* to = y.mutable_data_ptr<float>();
  for (const ProjectionView& view : g.views)
    for (std::int64_t j = 0; j < g.rows; ++j)
      for (std::int64_t i = 0; i < g.columns; ++i, ++to) {
        const double a = static_cast<double>(i) - 0.5 * static_cast<double>(g.columns - 1),
                     b = static_cast<double>(j) - 0.5 * static_cast<double>(g.rows - 1);
        double square = 0;
        Vector3 way{};
        for (std::size_t d = 0; d < 3; ++d) {
          way[d] = view.center[d] + a * view.u[d] + b * view.v[d] - view.source[d];
          square += way[d] * way[d];
        }
        double sum = 0;
        for (const auto& [x, h, z, radius] : balls) {
          const Vector3 off{x - view.source[0], h - view.source[1], z - view.source[2]};
          const double along = off[0] * way[0] + off[1] * way[1] + off[2] * way[2],
                       all = off[0] * off[0] + off[1] * off[1] + off[2] * off[2],
                       rest = 1 - (all - along * along / square) / (radius * radius);
          if (rest > 0) sum += 16.0 / 15 * radius * std::pow(rest, 2.5);
        }
        *to = static_cast<float>(sum);
      }
  return y;
}

TEST(Alignment, AConesDetectorIsTurnedByWhatMakesRaysFromBothSidesSeeTheSame) {
  for (const double degrees : {-3.3, 0.0, 0.4, 6.2}) {
    CircularScan scan = scan_of(Beam::cone, 72, 360);
    scan.rows = 70;
    scan.columns = 90;
    scan.row_pitch = 1.1;
    scan.axis_offset = 2.6;
    scan.detector_shift = {3.5, -2.25};
    scan.rotation = degrees * std::numbers::pi / 180;
    const at::Tensor y = frames_of(circular_geometry(scan, {{60, 60, 60}, {1, 1, 1}}));
    scan.rotation = 0;
    scan.axis_offset += 0.3;
    at::manual_seed(7);
    const Aligned found = find_cone_rotation(y + 0.1 * at::randn(y.sizes(), at::kFloat), scan);
    ASSERT_EQ(found.problem, "");
    EXPECT_NEAR(found.value, degrees, 0.15) << found.error;
    EXPECT_LT(found.error, 0.2);
  }
  const CircularScan scan = scan_of(Beam::cone, 90, 360);
  EXPECT_NE(find_cone_rotation(at::zeros({90, 60, 60}, at::kFloat), scan).problem, "");
  EXPECT_NE(find_cone_rotation(at::randn({90, 60, 60}, at::kFloat), scan).problem, "");
  EXPECT_NE(find_cone_rotation(at::randn({90, 8, 60}, at::kFloat), scan).problem, "");
}

TEST(Alignment, RaysThatAreAboutParallelTellNoShiftsOfAFan) {
  CircularScan scan = scan_of(Beam::fan, 90, 360);
  scan.source_axis = 20000;
  scan.source_detector = 20100;
  const at::Tensor y = samples_of(circular_geometry(scan, {{1, 90, 90}, {1, 1, 1}}))[0].contiguous();
  at::manual_seed(5);
  EXPECT_NE(find_fan_shifts(y + 0.1 * at::randn(y.sizes(), at::kDouble), scan, false).problem, "");
  scan = scan_of(Beam::fan, 90, 230);
  EXPECT_NE(
      find_fan_shifts(samples_of(circular_geometry(scan, {{1, 90, 90}, {1, 1, 1}}))[0], scan, false).problem,
      "");
}

TEST(Alignment, ViewsThatStandAsideAreFoundByReprojectionAndByRaysFromBothSides) {
  for (const Beam beam : {Beam::parallel, Beam::fan}) {
    const CircularScan scan = scan_of(beam, 90, beam == Beam::parallel ? 180 : 360);
    const ProjectionGeometry g = circular_geometry(scan, {{1, 90, 90}, {1, 1, 1}});
    ProjectionGeometry shaken = g;
    std::vector<double> shifts;
    for (std::size_t k = 0; k < g.views.size(); ++k) {
      shifts.push_back(1.2 * std::sin(2.4 * static_cast<double>(k * k)));
      for (std::size_t d = 0; d < 3; ++d) shaken.views[k].center[d] += shifts[k] * g.views[k].u[d];
    }
    const at::Tensor y = samples_of(shaken)[0].contiguous();
    at::manual_seed(5);
    const at::Tensor noisy = y + 0.1 * at::randn(y.sizes(), at::kDouble);
    const ViewShifts found =
        beam == Beam::parallel ? find_view_shifts(noisy, g, false) : find_fan_shifts(noisy, scan, false);
    ASSERT_EQ(found.problem, "");
    // But for what a constant, cosine and sine say: the rest of both is compared by differences to the third view on.
    double squares = 0, of_all = 0;
    for (std::size_t k = 0; k + 2 < shifts.size(); ++k) {
      const double off = found.columns[k] - shifts[k] - found.columns[k + 2] + shifts[k + 2];
      squares += off * off;
      of_all += std::pow(shifts[k] - shifts[k + 2], 2);
    }
    EXPECT_LT(std::sqrt(squares / of_all), 0.1) << word(beam);
    EXPECT_LT(found.error, 0.1);
  }
}

}  // namespace
}  // namespace tessera
