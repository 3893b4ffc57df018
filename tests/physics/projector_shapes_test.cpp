// SPDX-License-Identifier: BSD-3-Clause
// Projections of shapes whose line integrals are known, for every beam: physical scale, and how the error falls.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <functional>
#include <memory>
#include <numbers>
#include <string>
#include <vector>

#include "physics/projector_cases.hpp"
#include "projector/ray.hpp"
#include "tessera/physics/projector.hpp"

namespace tessera {
namespace {

/// A body and its integral along a ray.
struct Shape {
  std::function<double(const Vector3&)> density;
  std::function<double(const Ray&)> integral;
};

using Matrix = std::array<Vector3, 3>;
Vector3 times(const Matrix& m, const Vector3& p) {
  Vector3 out{};
  for (std::size_t i = 0; i < 3; ++i)
    for (std::size_t j = 0; j < 3; ++j) out[i] += m[i][j] * p[j];
  return out;
}
double dot(const Vector3& a, const Vector3& b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }

// Turned about z, then about x, seen from its center, in units of its half axes.
struct Frame {
  Vector3 center, half;
  double about_z, about_x;
  Matrix matrix() const {
    const double c = std::cos(about_z), s = std::sin(about_z), d = std::cos(about_x), t = std::sin(about_x);
    Matrix m{{{c, s, 0}, {-s * d, c * d, t}, {s * t, -c * t, d}}};
    for (std::size_t i = 0; i < 3; ++i)
      for (std::size_t j = 0; j < 3; ++j) m[i][j] /= half[i];
    return m;
  }
  Vector3 local(const Vector3& p) const {
    return times(matrix(), {p[0] - center[0], p[1] - center[1], p[2] - center[2]});
  }
};

// (1 - r^2)^k inside of an ellipsoid; k = 0: solid, k = 2: smooth. Along a ray 1 - r^2 = q - s^2 with the distance
// s from its middle in its own units, and the integral over s is B q^(k + 1/2), B = 2, 16 / 15.
Shape ellipsoid(const Frame& frame, int k) {
  Shape shape;
  shape.density = [=](const Vector3& p) {
    const Vector3 l = frame.local(p);
    const double q = 1 - dot(l, l);
    return q <= 0 ? 0 : k == 0 ? 1 : q * q;
  };
  shape.integral = [=](const Ray& ray) {
    const Vector3 p = frame.local(ray.point), n = times(frame.matrix(), ray.direction);
    const double square = dot(n, n), along = dot(p, n), q = 1 - dot(p, p) + along * along / square;
    if (q <= 0) return 0.0;
    return (k == 0 ? 2 : 16.0 / 15) * std::pow(q, k + 0.5) *
           std::sqrt(dot(ray.direction, ray.direction) / square);
  };
  return shape;
}

Shape box(const Frame& frame) {
  Shape shape;
  shape.density = [=](const Vector3& p) {
    const Vector3 l = frame.local(p);
    return std::max({std::abs(l[0]), std::abs(l[1]), std::abs(l[2])}) <= 1 ? 1 : 0;
  };
  shape.integral = [=](const Ray& ray) {
    const Vector3 p = frame.local(ray.point), n = times(frame.matrix(), ray.direction);
    double from = -1e300, to = 1e300;
    for (std::size_t d = 0; d < 3; ++d) {
      if (n[d] == 0) {
        if (std::abs(p[d]) > 1) return 0.0;
        continue;
      }
      from = std::max(from, std::min((-1 - p[d]) / n[d], (1 - p[d]) / n[d]));
      to = std::min(to, std::max((-1 - p[d]) / n[d], (1 - p[d]) / n[d]));
    }
    return to > from ? (to - from) * std::sqrt(dot(ray.direction, ray.direction)) : 0.0;
  };
  return shape;
}

/// A scan of a body about 2 across whose voxels and samples are 1 / fine of the coarsest.
ProjectionGeometry scan_of(Beam beam, bool flat, int fine) {
  CircularScan scan;
  scan.beam = beam;
  scan.angles = test::angles(5, 2 * std::numbers::pi, 0.1);
  scan.source_axis = 5;
  scan.source_detector = 8;
  const double enlarged = beam == Beam::parallel ? 1 : 1.6;
  scan.columns = 20 * fine + 1;
  scan.rows = flat ? 1 : beam == Beam::cone ? 20 * fine : 16 * fine;
  scan.column_pitch = 0.15 / fine * enlarged;
  scan.row_pitch = (beam == Beam::cone ? 0.15 * 1.6 : 0.16) / fine;
  scan.axis_offset = 0.3 * fine;
  if (!flat) scan.detector_shift = {0, 0.2 * fine};
  return circular_geometry(scan, {{flat ? 1 : 16 * fine, 18 * fine, 17 * fine},
                                  {0.15 / fine, 0.14 / fine, flat ? 0.5 : 0.16 / fine}});
}

// Voxels hold the mean over points inside of them, as a body with edges needs.
// The sum over all samples is checked too: a wrong scale would be seen there first.
double error_of(const Shape& shape, const ProjectionGeometry& scan, int points, bool flat) {
  const auto g = std::make_shared<const ProjectionGeometry>(scan);
  std::vector<float> x;
  const Index3& size = g->volume.size;
  const Vector3& side = g->volume.voxel;
  for (std::int64_t d = 0; d < size[0]; ++d)
    for (std::int64_t h = 0; h < size[1]; ++h)
      for (std::int64_t w = 0; w < size[2]; ++w) {
        double sum = 0;
        const int deep = flat ? 1 : points;
        for (int a = 0; a < deep; ++a)
          for (int b = 0; b < points; ++b)
            for (int c = 0; c < points; ++c) {
              const auto at = [](std::int64_t i, int k, int n, std::int64_t whole, double length) {
                return (static_cast<double>(i) + (k + 0.5) / n - 0.5 * static_cast<double>(whole)) * length;
              };
              sum += shape.density({at(w, c, points, size[2], side[0]), at(h, b, points, size[1], side[1]),
                                    at(d, a, deep, size[0], side[2])});
            }
        x.push_back(static_cast<float>(sum / (points * points * deep)));
      }
  Projector projector(g, g->volume.box());
  std::vector<float> y(static_cast<std::size_t>(g->samples().pixels()));
  projector.load(x.data());
  projector.project(g->samples(), y.data());
  double error = 0, norm = 0, sum = 0, exact_sum = 0;
  std::size_t n = 0;
  for (const ProjectionView& view : g->views)
    for (std::int64_t j = 0; j < g->rows; ++j)
      for (std::int64_t i = 0; i < g->columns; ++i, ++n) {
        const double exact = shape.integral(ray_of(*g, view, j, i)), miss = exact - static_cast<double>(y[n]);
        error += miss * miss;
        norm += exact * exact;
        sum += static_cast<double>(y[n]);
        exact_sum += exact;
      }
  EXPECT_NEAR(sum / exact_sum, 1, 4e-3);
  return std::sqrt(error / norm);
}

class ShapesTest : public ::testing::TestWithParam<std::pair<Beam, bool>> {
 protected:
  double error(const Shape& shape, int fine, int points) const {
    return error_of(shape, scan_of(GetParam().first, GetParam().second, fine), points, GetParam().second);
  }
  Frame frame() const {
    const bool flat = GetParam().second;  // a slice through the middle, upright
    return {{0.1, -0.05, flat ? 0 : 0.07}, {0.9, 0.6, 0.7}, 0.4, flat ? 0 : 0.5};
  }
};

TEST_P(ShapesTest, ErrorOfASmoothBodyFallsWithTheSquareOfThePixel) {
  const Shape smooth = ellipsoid(frame(), 2);
  const double coarse = error(smooth, 2, 1), fine = error(smooth, 4, 1);
  EXPECT_LT(fine, 4e-3);
  EXPECT_GT(coarse / fine, 3.4);
  EXPECT_LT(coarse / fine, 6);
}

TEST_P(ShapesTest, SphereEllipsoidAndTurnedBoxHaveTheirIntegrals) {
  Frame sphere = frame();
  sphere.half = {0.7, 0.7, 0.7};
  for (const Shape& shape : {ellipsoid(sphere, 0), ellipsoid(frame(), 0), box(frame())}) {
    const double coarse = error(shape, 2, 3), fine = error(shape, 4, 3);
    EXPECT_LT(fine, 0.027);
    EXPECT_GT(coarse / fine, 1.35);  // edges: with the root of the pixel at least
  }
}

INSTANTIATE_TEST_SUITE_P(Beams, ShapesTest,
                         ::testing::Values(std::pair{Beam::parallel, true}, std::pair{Beam::parallel, false},
                                           std::pair{Beam::fan, true}, std::pair{Beam::cone, false}),
                         [](const auto& info) {
                           return std::string(word(info.param.first)) + (info.param.second ? "_flat" : "");
                         });

}  // namespace
}  // namespace tessera
