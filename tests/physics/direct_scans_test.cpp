// SPDX-License-Identifier: BSD-3-Clause
// Drawn scans, by direct reconstruction: densities are right to 1 %, or the scan is refused.
#include <ATen/TensorOperators.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numbers>
#include <random>
#include <string>
#include <vector>

#include "tessera/physics/projector.hpp"
#include "tessera/physics/ramp_filter.hpp"

namespace tessera {
namespace {

constexpr double kPi = std::numbers::pi;

struct Ellipse {
  double x, y, a, b, tilt, density;
};

// Along x, y (down) as the geometry has them: in its own frame the ellipse is a disk of radius 1.
double chord(const Ellipse& e, double x, double y, double dx, double dy) {
  const double c = std::cos(e.tilt), s = std::sin(e.tilt), length = std::hypot(dx, dy);
  const double px = (c * (x - e.x) + s * (y - e.y)) / e.a, py = (-s * (x - e.x) + c * (y - e.y)) / e.b,
               ex = (c * dx + s * dy) / length / e.a, ey = (-s * dx + c * dy) / length / e.b;
  const double square = ex * ex + ey * ey, half = px * ex + py * ey,
               rest = half * half - square * (px * px + py * py - 1);
  return rest > 0 ? 2 * std::sqrt(rest) / square : 0;
}

// Samples of upright ellipses, or of ellipsoids of revolution about the axis in `height` (0: they have no end along z).
at::Tensor samples_of(const ProjectionGeometry& g, const std::vector<Ellipse>& body) {
  constexpr int kParts = 4;  // of a column
  at::Tensor y = at::zeros({g.samples().hi()[0], g.rows, g.columns}, at::kFloat);
  auto* to = y.mutable_data_ptr<float>();
  for (const ProjectionView& view : g.views)
    for (std::int64_t j = 0; j < g.rows; ++j)
      for (std::int64_t i = 0; i < g.columns; ++i, ++to)
        for (int part = 0; part < kParts; ++part) {
          const double off =
              static_cast<double>(i) - 0.5 * static_cast<double>(g.columns - 1) + (part + 0.5) / kParts - 0.5;
          const double x = view.center[0] + off * view.u[0], z = view.center[1] + off * view.u[1];
          const bool level = g.beam == Beam::parallel;
          const double dx = level ? view.source[0] : x - view.source[0],
                       dy = level ? view.source[1] : z - view.source[1];
          for (const Ellipse& e : body)
            *to += static_cast<float>(e.density * chord(e, x, z, dx, dy) / kParts);
        }
  return y;
}

at::Tensor truth_of(const VolumeGrid& grid, const std::vector<Ellipse>& body) {
  constexpr int kParts = 4;
  at::Tensor x = at::zeros({grid.size[1], grid.size[2]}, at::kDouble);
  auto* to = x.mutable_data_ptr<double>();
  for (std::int64_t h = 0; h < grid.size[1]; ++h)
    for (std::int64_t w = 0; w < grid.size[2]; ++w, ++to)
      for (int part = 0; part < kParts * kParts; ++part) {
        const double px = static_cast<double>(w) - 0.5 * static_cast<double>(grid.size[2] - 1) +
                          (part % kParts + 0.5) / kParts - 0.5,
                     py = static_cast<double>(h) - 0.5 * static_cast<double>(grid.size[1] - 1) +
                          (part / kParts + 0.5) / kParts - 0.5;
        for (const Ellipse& e : body) {
          const double c = std::cos(e.tilt), s = std::sin(e.tilt),
                       u = (c * (px - e.x) + s * (py - e.y)) / e.a,
                       v = (-s * (px - e.x) + c * (py - e.y)) / e.b;
          if (u * u + v * v < 1) *to += e.density / (kParts * kParts);
        }
      }
  return x;
}

at::Tensor reconstruct(const ProjectionGeometry& scan, const at::Tensor& measured) {
  const DirectReconstruction direct = direct_reconstruction(scan);
  const WideDetector wide = wide_detector(scan, direct);
  const auto g = std::make_shared<const ProjectionGeometry>(wide.geometry);
  const at::Tensor y = at::zeros({measured.size(0), measured.size(1), g->columns}, at::kFloat);
  y.narrow(2, wide.left, scan.columns).copy_(measured);
  at::Tensor q = ramp_filtered(y * direct_weights(*g, direct, g->samples()).to(at::kFloat), direct.pitch,
                               RampWindow::ram_lak);
  at::Tensor x = at::zeros({1, g->volume.size[1], g->volume.size[2]}, at::kFloat);
  backproject_pixels(*g, g->volume.box(), g->samples(), q.contiguous(), x);
  return x[0].to(at::kDouble);
}

// The mean over pixels at these distances from the middle.
double mean_between(const at::Tensor& x, double from, double to) {
  double sum = 0, n = 0;
  const auto* v = x.const_data_ptr<double>();
  for (std::int64_t h = 0; h < x.size(0); ++h)
    for (std::int64_t w = 0; w < x.size(1); ++w, ++v) {
      const double r = std::hypot(static_cast<double>(h) - 0.5 * static_cast<double>(x.size(0) - 1),
                                  static_cast<double>(w) - 0.5 * static_cast<double>(x.size(1) - 1));
      if (r < from || r >= to) continue;
      sum += *v;
      n += 1;
    }
  return sum / n;
}

constexpr int kKinds = 11;
// Angles as instruments bring them, radians.
std::vector<double> drawn_angles(int kind, double turn, std::mt19937& random) {
  std::uniform_real_distribution<double> part(0, 1);
  std::normal_distribution<double> normal;
  std::vector<double> out;
  const int n = static_cast<int>(64 * turn / kPi) + static_cast<int>(24 * part(random));
  const auto even = [&](double range, int count) {
    for (int k = 0; k < count; ++k) out.push_back(range * k / count);
  };
  switch (kind) {
    case 0:
      even(turn, n);
      break;
    case 1:  // exposures with an encoder's reading of each
      for (int k = 0; k < n; ++k)
        for (int e = 0; e < 3; ++e) out.push_back(turn * k / n + 4e-6 * normal(random));
      break;
    case 2:  // steps that jitter
      for (int k = 0; k < n; ++k) out.push_back(turn * (k + 0.8 * (part(random) - 0.5)) / n);
      break;
    case 3:  // the golden ratio, on and on
      for (int k = 0; k < n; ++k) out.push_back(k * kPi * (turn > 4 ? 2 : 1) * 0.6180339887498949);
      break;
    case 4:  // at random
      for (int k = 0; k < 2 * n; ++k) out.push_back(turn * part(random));
      break;
    case 5:
      even(1.4 * turn, static_cast<int>(1.4 * n));
      break;  // over a turn
    case 6:   // groups, a gap between each
      for (int k = 0; k < n / 3; ++k)
        for (int e = 0; e < 10; ++e) out.push_back(turn * (k + 0.03 * e) / (n / 3));
      break;
    case 7:  // finer in one part
      even(turn, n);
      for (int k = 0; k < n; ++k) out.push_back(0.7 + 0.3 * k / n);
      break;
    case 8:  // a few that are missing
      even(turn, n);
      out.erase(out.begin() + n / 3, out.begin() + n / 3 + 1 + static_cast<int>(5 * part(random)));
      break;
    case 9:
      even((0.6 + 0.35 * part(random)) * turn, n);
      break;  // ended before
    default:  // few
      even(turn, 3 + static_cast<int>(20 * part(random)));
  }
  if (part(random) < 0.3) std::shuffle(out.begin(), out.end(), random);
  const double start = 6 * part(random);
  for (double& angle : out) angle += start;
  return out;
}

TEST(DirectScans, DensitiesAreRightOrTheScanIsRefused) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> part(0, 1), both(-1, 1);
  int refused = 0, outside = 0;
  for (int draw = 0; draw < 110; ++draw) {
    const int kind = draw % kKinds;
    CircularScan scan;
    scan.beam = draw % 3 == 2 ? Beam::fan : Beam::parallel;
    const bool fan = scan.beam == Beam::fan, aside = draw % 2 == 1;  // the axis near an end of the detector
    scan.angles = drawn_angles(kind, fan || aside || part(random) < 0.4 ? 2 * kPi : kPi, random);
    scan.columns = 64;
    double radius = 28;
    if (aside) {
      scan.axis_offset = (part(random) < 0.5 ? -1 : 1) * (10 + 15 * part(random));
      radius = 30 + std::abs(scan.axis_offset);
    }
    if (fan) {
      scan.source_axis = 200 + 200 * part(random);
      scan.source_detector = scan.source_axis * (1.2 + part(random));
      scan.column_pitch = scan.source_detector / scan.source_axis;
      radius *= 0.93;
      if (aside && part(random) < 0.5) {  // the detector alone stands aside
        scan.detector_shift[0] = -scan.axis_offset;
        scan.axis_offset = 0;
      }
    }
    std::vector<Ellipse> body{
        {0, 0, 0.97 * radius, (0.75 + 0.2 * part(random)) * radius, 3 * part(random), 1}};
    for (int k = 0; k < 5; ++k)
      body.push_back({0.5 * radius * both(random), 0.4 * radius * both(random),
                      radius * (0.08 + 0.1 * part(random)), radius * (0.08 + 0.1 * part(random)),
                      3 * part(random), both(random)});
    const auto side = 2 * static_cast<std::int64_t>(radius + 2);
    const ProjectionGeometry g = circular_geometry(scan, {{1, side, side}, {1, 1, 1}});
    SCOPED_TRACE(testing::Message() << "draw " << draw << ", kind " << kind << (fan ? ", fan" : "")
                                    << ", axis " << scan.axis_offset << ", shift " << scan.detector_shift[0]
                                    << ", " << scan.angles.size() << " views");
    if (const std::string why = refuse_direct(g); !why.empty()) {
      ++refused;
      EXPECT_TRUE(kind >= 8) << why;  // what has no gap is not refused
      continue;
    }
    const at::Tensor x = reconstruct(g, samples_of(g, body)), truth = truth_of(g.volume, body);
    // Of rays that half of the views leave out nothing follows where they are not all there.
    const bool seen = !aside || !direct_reconstruction(g).once.empty();
    outside += aside && seen;
    if (!seen) continue;
    for (const auto& [from, to] : {std::pair{0.0, 0.35}, std::pair{0.35, 0.65}, std::pair{0.0, 0.7}}) {
      const double got = mean_between(x, from * radius, to * radius),
                   wanted = mean_between(truth, from * radius, to * radius);
      EXPECT_NEAR(got / wanted, 1, 0.01) << from << " to " << to << " of the radius";
    }
  }
  EXPECT_GT(refused, 5);
  EXPECT_LT(refused, 35);
  EXPECT_GT(outside, 25);
}

}  // namespace
}  // namespace tessera
