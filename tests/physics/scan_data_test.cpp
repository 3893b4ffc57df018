// SPDX-License-Identifier: BSD-3-Clause
// From counts to line integrals, and where the axis is.
#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <random>
#include <vector>

#include "tessera/physics/rotation_axis.hpp"
#include "tessera/physics/transmission.hpp"

namespace tessera {
namespace {

TEST(Transmission, LineIntegralsAndWeightsByHand) {
  const std::vector<double> flat{110, 110, 210}, dark{10, 10, 10};
  std::vector<double> counts{60, 110, 10 + 200 / std::exp(1.0), 35, 210, 210}, weights(6);
  EXPECT_EQ(line_integrals(counts, flat, dark, weights), 0);
  const std::vector<double> wanted{std::log(2.0), 0, 1, std::log(4.0), -std::log(2.0), 0};
  for (std::size_t k = 0; k < 6; ++k) EXPECT_NEAR(counts[k], wanted[k], 1e-12) << k;
  EXPECT_DOUBLE_EQ(weights[0], 50);
  EXPECT_DOUBLE_EQ(weights[3], 25);
}

TEST(Transmission, WhatSaysNothingWeighsNothing) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN(),
                   kInf = std::numeric_limits<double>::infinity();
  const std::vector<double> flat{100, 10, 9, kNan, 100, 100, 100, 100},
      dark{10, 10, 10, 10, 10, 10, 10, kNan};
  std::vector<double> counts{10, 50, 50, 50, kNan, kInf, 3, 50}, weights(8, -1);
  EXPECT_EQ(line_integrals(counts, flat, dark, weights), 8);
  for (std::size_t k = 0; k < 8; ++k) {
    EXPECT_EQ(counts[k], 0) << k;
    EXPECT_EQ(weights[k], 0) << k;
  }
}

struct Ellipse {
  double x, y, a, b, turn, density;
};

// Line integrals of ellipses over columns, each the mean of 4 rays; the axis is seen at `axis`.
at::Tensor sinogram(const std::vector<double>& angles, std::int64_t columns, double axis,
                    const std::vector<Ellipse>& ellipses) {
  at::Tensor out = at::empty({1, static_cast<std::int64_t>(angles.size()), columns}, at::kDouble);
  double* to = out.data_ptr<double>();
  for (const double t : angles)
    for (std::int64_t i = 0; i < columns; ++i, ++to) {
      *to = 0;
      for (int sub = 0; sub < 4; ++sub) {
        const double s = static_cast<double>(i) + (sub - 1.5) / 4 - axis;
        for (const Ellipse& e : ellipses) {
          const double c = std::cos(t + e.turn), d = std::sin(t + e.turn),
                       square = e.a * e.a * c * c + e.b * e.b * d * d,
                       off = s - (e.x * std::cos(t) - e.y * std::sin(t)), rest = square - off * off;
          if (rest > 0) *to += e.density * e.a * e.b * std::sqrt(rest) / square / 2;
        }
      }
    }
  return out;
}

std::vector<Ellipse> phantom(double width) {
  const double w = width / 2;
  std::vector<Ellipse> out{{0.02 * w, 0, 0.8 * w, 0.6 * w, 0.3, 1}};
  std::mt19937 random(3);
  std::uniform_real_distribution<double> any(-0.45, 0.45), size(0.02, 0.15);
  for (int k = 0; k < 20; ++k)
    out.push_back(
        {any(random) * w, any(random) * w, size(random) * w, size(random) * w, any(random), any(random)});
  return out;
}

std::vector<double> even(std::int64_t views, double range) {
  std::vector<double> out;
  for (std::int64_t k = 0; k < views; ++k)
    out.push_back(range * static_cast<double>(k) / static_cast<double>(views));
  return out;
}

constexpr double kTurn = 2 * std::numbers::pi;

TEST(RotationAxis, IsFoundToATenthOfAColumn) {
  for (const std::int64_t columns : {61, 128, 257})
    for (const double off : {-0.08 * static_cast<double>(columns), -0.3, 0.0, 7.25}) {
      const double axis = 0.5 * static_cast<double>(columns - 1) + off,
                   width = static_cast<double>(columns) * 0.78;
      for (const double range : {kTurn / 2, kTurn}) {
        const std::vector<double> angles = even(range > 4 ? 240 : 121, range);
        const RotationAxis found =
            find_rotation_axis(sinogram(angles, columns, axis, phantom(width)), angles);
        ASSERT_EQ(found.problem, "");
        EXPECT_NEAR(found.column, axis, 0.1) << columns << " columns, " << off << ", over " << range;
      }
    }
}

TEST(RotationAxis, OrderDirectionAndEndsOfTheAnglesDoNotMatter) {
  const double axis = 58.4;
  std::vector<double> angles = even(120, kTurn / 2);
  angles.push_back(kTurn / 2);  // both ends
  std::shuffle(angles.begin(), angles.end(), std::mt19937(1));
  EXPECT_NEAR(find_rotation_axis(sinogram(angles, 128, axis, phantom(100)), angles).column, axis, 0.1);
  for (double& angle : angles) angle = 0.7 - angle;
  EXPECT_NEAR(find_rotation_axis(sinogram(angles, 128, axis, phantom(100)), angles).column, axis, 0.1);
  std::vector<double> golden;
  for (int k = 0; k < 144; ++k) golden.push_back(std::fmod(k * kTurn / 2 * 0.6180339887498949, kTurn / 2));
  EXPECT_NEAR(find_rotation_axis(sinogram(golden, 128, axis, phantom(100)), golden).column, axis, 0.1);
}

TEST(RotationAxis, ABackgroundAndNoiseMoveItLittle) {
  const double axis = 60.2;
  const std::vector<double> angles = even(180, kTurn / 2);
  at::Tensor y = sinogram(angles, 128, axis, phantom(98));
  std::mt19937 random(5);
  std::normal_distribution<double> noise(0, 0.5);  // 0.6 % of the peak
  for (std::int64_t k = 0; k < y.numel(); ++k)
    y.data_ptr<double>()[k] += noise(random) + 4 + 0.03 * static_cast<double>(k % 128);
  EXPECT_NEAR(find_rotation_axis(y, angles).column, axis, 0.15);
}

TEST(RotationAxis, AnObjectWiderThanTheDetectorIsSeenByItsEdges) {
  const double axis = 52.3;
  const std::vector<double> angles = even(180, kTurn / 2);
  const RotationAxis found = find_rotation_axis(sinogram(angles, 128, axis, phantom(220)), angles);
  EXPECT_NEAR(found.by_edges, axis, 1.2);
  EXPECT_NEAR(found.column, axis, 1.2);
}

TEST(RotationAxis, AnglesCountModuloATurn) {
  const double axis = 43.25;
  for (const double step : {111.246117975, 137.50776405, 1.0 + 360, -221.0}) {
    std::vector<double> angles;
    for (int k = 0; k < 233; ++k) angles.push_back(k * step * kTurn / 360);
    const RotationAxis found = find_rotation_axis(sinogram(angles, 96, axis, phantom(72)), angles);
    ASSERT_EQ(found.problem, "") << step;
    EXPECT_NEAR(found.column, axis, 0.1) << step;
  }
  // In groups of steps of 4 and 1, up to 176 degrees; three exposures of each with an encoder's reading.
  std::vector<double> grouped, exposed;
  for (int k = 0; k < 36; ++k)
    for (const double within : {0.0, 1.0}) grouped.push_back((5 * k + within) * kTurn / 360);
  std::mt19937 random(4);
  std::normal_distribution<double> reading(0, 4e-6);
  for (int k = 0; k < 540; ++k) exposed.push_back((k / 3) * kTurn / 360 + reading(random));
  for (const std::vector<double>& angles : {grouped, exposed})
    EXPECT_NEAR(find_rotation_axis(sinogram(angles, 96, axis, phantom(72)), angles).column, axis, 0.15);
}

TEST(RotationAxis, IsFoundNearAnEndOverAWholeTurn) {
  const std::vector<double> angles = even(360, kTurn);
  for (const double axis : {10.0, 14.0, 16.0, 20.3, 30.0, 72.0, 77.5}) {
    const double width = 2 * std::max(axis, 87 - axis) * 0.85;
    at::Tensor y = sinogram(angles, 88, axis, phantom(width));
    std::mt19937 random(5);
    std::normal_distribution<double> noise(0, 0.3);
    for (std::int64_t k = 0; k < y.numel(); ++k) y.data_ptr<double>()[k] += noise(random);
    const RotationAxis found = find_rotation_axis(y, angles);
    ASSERT_EQ(found.problem, "") << axis;
    EXPECT_NEAR(found.column, axis, 0.25) << axis;
  }
}

TEST(RotationAxis, CentersOfMassTellItWhereAirIsOnBothSides) {
  for (const double range : {150.0, 170.0, 180.0})
    for (const double axis : {21.0, 50.0, 70.5}) {
      const std::vector<double> angles = even(150, kTurn * range / 360);
      const double width = std::min(76.0, 2 * (std::min(axis, 95 - axis) - 4));
      const RotationAxis found = find_rotation_axis(sinogram(angles, 96, axis, phantom(width)), angles);
      ASSERT_EQ(found.problem, "") << range << ", " << axis;
      EXPECT_NEAR(found.column, axis, 0.2) << range << ", " << axis;
    }
}

TEST(RotationAxis, SaysWhyThereIsNone) {
  const std::vector<double> quarter = even(90, kTurn / 4);
  EXPECT_EQ(find_rotation_axis(sinogram(quarter, 64, 31, phantom(50)), quarter).problem,
            "the views go over less than half a turn");
  const std::vector<double> few = even(6, kTurn / 2);
  EXPECT_NE(find_rotation_axis(sinogram(few, 64, 31, phantom(50)), few).problem, "");
  const std::vector<double> all = even(90, kTurn / 2);
  EXPECT_NE(find_rotation_axis(sinogram(all, 12, 5, phantom(9)), all).problem, "");
  EXPECT_NE(find_rotation_axis(sinogram(all, 64, 31, {}), all).problem, "");
  std::vector<double> gap = even(90, kTurn / 2);
  gap.erase(gap.begin() + 30, gap.begin() + 50);
  EXPECT_EQ(find_rotation_axis(sinogram(gap, 64, 31, phantom(90)), gap).problem,
            "the angles have gaps, and no half a turn is without one");
}

}  // namespace
}  // namespace tessera
