// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/physics/ramp_filter.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <numbers>

#include "physics/projector_cases.hpp"
#include "tessera/core/error.hpp"
#include "tessera/physics/projector.hpp"

namespace tessera {
namespace {

// A solid ball's (a disk's) samples, from its closed form.
at::Tensor ball_samples(const ProjectionGeometry& g, double radius, const Vector3& center) {
  at::Tensor y = at::zeros({g.samples().hi()[0], g.rows, g.columns}, at::kFloat);
  float* to = y.mutable_data_ptr<float>();
  for (const ProjectionView& view : g.views)
    for (std::int64_t j = 0; j < g.rows; ++j)
      for (std::int64_t i = 0; i < g.columns; ++i) {
        double square = 0, along = 0, length = 0;
        for (std::size_t d = 0; d < 3; ++d) {
          const double p = view.center[d] +
                           (static_cast<double>(i) - 0.5 * static_cast<double>(g.columns - 1)) * view.u[d] +
                           (static_cast<double>(j) - 0.5 * static_cast<double>(g.rows - 1)) * view.v[d];
          const double way = g.beam == Beam::parallel ? view.source[d] : p - view.source[d],
                       off = p - center[d];
          square += off * off;
          along += off * way;
          length += way * way;
        }
        const double rest = radius * radius - square + along * along / length;
        *to++ = rest > 0 ? static_cast<float>(2 * std::sqrt(rest)) : 0;
      }
  return y;
}

at::Tensor reconstruct(const std::shared_ptr<const ProjectionGeometry>& g, const at::Tensor& y,
                       RampWindow window) {
  const DirectReconstruction direct = direct_reconstruction(*g);
  const at::Tensor before = direct_weights(*g, direct, g->samples()).to(at::kFloat);
  const at::Tensor q = ramp_filtered(y * before, direct.pitch, window, direct.sharp).contiguous();
  at::Tensor x = at::zeros({g->volume.size[0], g->volume.size[1], g->volume.size[2]}, at::kFloat);
  backproject_pixels(*g, g->volume.box(), g->samples(), q, x);
  return x;
}

TEST(RampFilter, DiskHasItsDensityForAnyPixelPitchAndWindow) {
  for (const double side : {0.5, 1.0, 2.0}) {
    for (const double pitch : {0.5, 1.0}) {
      for (const RampWindow window : {RampWindow::ram_lak, RampWindow::hann, RampWindow::cosine}) {
        CircularScan scan;
        scan.angles = test::angles(180, std::numbers::pi);
        scan.columns = static_cast<std::int64_t>(140 / pitch) + 1;
        scan.column_pitch = pitch;
        const auto n = static_cast<std::int64_t>(96 / side);
        const auto g =
            std::make_shared<const ProjectionGeometry>(circular_geometry(scan, {{1, n, n}, {side, side, 1}}));
        const at::Tensor x = reconstruct(g, ball_samples(*g, 40, {3, -2, 0}), window);
        const std::int64_t some = n / 8;
        const double mean =
            x.narrow(1, n / 2 - some, 2 * some).narrow(2, n / 2 - some, 2 * some).mean().item<double>();
        EXPECT_NEAR(mean, 1, 0.0075) << side << ' ' << pitch << ' ' << word(window);
        EXPECT_NEAR(x[0][0][0].item<double>(), 0, 0.03);
      }
    }
  }
}

// Where views are many, windows give back what means over columns take from a pixel; few views keep the plain window.
TEST(RampFilter, WindowsAreAsSharpAsTheViewsAllow) {
  std::vector<double> sharp;
  for (const int views : {20, 100, 400}) {
    CircularScan scan;
    scan.angles = test::angles(views, std::numbers::pi);
    scan.columns = 141;
    const ProjectionGeometry g = circular_geometry(scan, {{1, 96, 96}, {1, 1, 1}});
    sharp.push_back(direct_reconstruction(g).sharp);
  }
  EXPECT_NEAR(sharp[0], 40 / std::numbers::pi / 141, 1e-12);
  EXPECT_NEAR(sharp[1], 200 / std::numbers::pi / 141, 1e-12);
  EXPECT_EQ(sharp[2], 1);
  // At half of the highest frequency Hann's window is 1/2, and f / sin f is pi / 4 over the sine of it.
  const at::Tensor wave = at::arange(1024, at::kDouble).mul_(std::numbers::pi / 2).cos_().unsqueeze(0);
  const auto middle = [&](RampWindow window, double power) {
    return ramp_filtered(wave, 1, window, power)[0].narrow(0, 500, 24).abs().max().item<double>();
  };
  const double gain = std::numbers::pi / 4 / std::sin(std::numbers::pi / 4);
  EXPECT_NEAR(middle(RampWindow::hann, 1) / middle(RampWindow::hann, 0), gain, 0.01);
  EXPECT_NEAR(middle(RampWindow::cosine, 0.5) / middle(RampWindow::cosine, 0), std::sqrt(gain), 0.01);
  EXPECT_EQ(middle(RampWindow::ram_lak, 1), middle(RampWindow::ram_lak, 0));
}

TEST(RampFilter, FdkGivesABallItsDensity) {
  CircularScan scan;
  scan.beam = Beam::cone;
  scan.angles = test::angles(120, 2 * std::numbers::pi);
  scan.source_axis = 300;
  scan.source_detector = 600;
  scan.rows = scan.columns = 80;
  scan.column_pitch = scan.row_pitch = 2;
  const auto g =
      std::make_shared<const ProjectionGeometry>(circular_geometry(scan, {{60, 60, 60}, {1, 1, 1}}));
  const at::Tensor x = reconstruct(g, ball_samples(*g, 22, {0, 0, 0}), RampWindow::hann);
  EXPECT_NEAR(x.narrow(0, 28, 4).narrow(1, 25, 10).narrow(2, 25, 10).mean().item<double>(), 1, 0.007);
  EXPECT_NEAR(x.narrow(0, 42, 2).narrow(1, 25, 10).narrow(2, 25, 10).mean().item<double>(), 1,
              0.012);  // off the middle
  EXPECT_NEAR(x.narrow(0, 28, 4).narrow(1, 0, 3).mean().item<double>(), 0, 0.01);
}

TEST(RampFilter, AShortScanOfAConeGivesABallItsDensity) {
  for (const double span : {210.0, 250.0, 320.0}) {
    CircularScan scan;
    scan.beam = Beam::cone;
    for (int k = 0; k < 180; ++k) scan.angles.push_back((17 + span * k / 180) * std::numbers::pi / 180);
    scan.columns = 73;
    scan.rows = 41;
    scan.source_axis = 200;
    scan.source_detector = 300;
    scan.column_pitch = scan.row_pitch = 1.5;
    const auto g =
        std::make_shared<const ProjectionGeometry>(circular_geometry(scan, {{9, 64, 64}, {1, 1, 1}}));
    const at::Tensor x = reconstruct(g, ball_samples(*g, 18, {6, -5, 0}), RampWindow::hann);
    EXPECT_NEAR(x.narrow(1, 21, 12).narrow(2, 32, 12).mean().item<double>(), 1, 0.01) << span;
    EXPECT_NEAR(x.narrow(1, 50, 8).narrow(2, 8, 12).mean().item<double>(), 0, 0.01) << span;
  }
}

TEST(RampFilter, TensorsGiveThePixelsOfTheHost) {
  for (const Beam beam : {Beam::parallel, Beam::fan, Beam::cone})
    for (const double side : {0.6, 1.0, 2.7}) {  // of a pixel, in columns: other numbers of taps
      CircularScan scan;
      scan.beam = beam;
      scan.angles = test::angles(8, 2 * std::numbers::pi);  // two along the axes
      scan.columns = 21;
      scan.rows = 5;
      scan.source_axis = 50;
      scan.source_detector = 75;
      const ProjectionGeometry g = circular_geometry(scan, {{3, 16, 13}, {side, side, 1}});
      const at::Tensor y = at::randn({8, 5, 21}, at::kFloat);
      const at::Tensor host = at::zeros({3, 16, 13}, at::kFloat), tensors = at::zeros_like(host);
      backproject_pixels(g, g.volume.box(), g.samples(), y, host);
      backproject_by_tensors(g, g.volume.box(), g.samples(), y, tensors);
      EXPECT_GT(host.abs().max().item<double>(), 0.1);
      EXPECT_LT((host - tensors).abs().max().item<double>(), 1e-4) << static_cast<int>(beam) << " " << side;
    }
}

TEST(RampFilter, ImpulseBecomesTheKernel) {
  // Of three samples the middle one: pitch h, by hand.
  const at::Tensor y = at::zeros({1, 3}, at::kDouble);
  y[0][1] = 1;
  const at::Tensor q = ramp_filtered(y, 0.5, RampWindow::ram_lak);
  const double pi = std::numbers::pi;
  EXPECT_NEAR(q[0][1].item<double>(), 0.5, 1e-12);  // pitch / (4 pitch^2)
  EXPECT_NEAR(q[0][0].item<double>(), -1 / (pi * pi * 0.5), 1e-12);
  EXPECT_NEAR(q[0][2].item<double>(), -1 / (pi * pi * 0.5), 1e-12);
}

// A disk off the middle, whatever the distances, with an axis that is not in the detector's middle; slices of a volume
// are disks of their own.
TEST(RampFilter, FansGiveADiskItsDensity) {
  for (const double near : {120.0, 300.0})
    for (const double side : {0.5, 1.0})
      for (const std::int64_t slices : {1, 3}) {
        SCOPED_TRACE(testing::Message() << near << ' ' << side << ' ' << slices);
        CircularScan scan;
        scan.beam = Beam::fan;
        scan.angles = test::angles(360, 2 * std::numbers::pi);
        scan.source_axis = near;
        scan.source_detector = 2 * near;
        scan.columns = 220;
        scan.column_pitch = 1.5;
        scan.axis_offset = 4.25;
        scan.rows = slices;
        scan.row_pitch = 1;
        const auto n = static_cast<std::int64_t>(100 / side);
        const ProjectionGeometry g = circular_geometry(scan, {{slices, n, n}, {side, side, 1}});
        at::Tensor y = ball_samples(g, 30, {12, -9, 0});
        if (slices > 1) {  // the same disk in all slices: that of the middle row
          y.select(1, 0).copy_(y.select(1, 1));
          y.select(1, 2).copy_(y.select(1, 1));
        }
        DirectReconstruction direct = direct_reconstruction(g);
        direct.once.clear();  // the disk is seen from all sides
        const at::Tensor q = ramp_filtered(y * direct_weights(g, direct, g.samples()).to(at::kFloat),
                                           direct.pitch, RampWindow::hann);
        const at::Tensor x = at::zeros({slices, n, n}, at::kFloat);
        backproject_pixels(g, g.volume.box(), g.samples(), q, x);
        const auto at = [&](double v) { return static_cast<std::int64_t>(std::lround(v / side)) + n / 2; };
        const auto some = static_cast<std::int64_t>(16 / side);
        EXPECT_NEAR(x.narrow(1, at(-17), some).narrow(2, at(4), some).mean().item<double>(), 1, 0.006);
        EXPECT_NEAR(x.narrow(1, at(30), some).narrow(2, at(-40), some).mean().item<double>(), 0, 0.006);
        // Blocks of it, from the samples that they need, are those of the whole.
        const Box block({slices / 2, n / 3, n / 2}, {slices, n - 3, n});
        const at::Tensor part = at::zeros({block.extent(0), block.extent(1), block.extent(2)}, at::kFloat);
        Box seen = shadow(g, block, 0, 360);
        seen = seen.grow({{0, 1, 1}, {0, 1, 1}}).intersect(g.samples());
        backproject_pixels(
            g, block, seen,
            q.narrow(1, seen.lo()[1], seen.extent(1)).narrow(2, seen.lo()[2], seen.extent(2)).contiguous(),
            part);
        const at::Tensor same = x.narrow(0, slices / 2, block.extent(0))
                                    .narrow(1, n / 3, block.extent(1))
                                    .narrow(2, n / 2, block.extent(2));
        EXPECT_LT((part - same).abs().max().item<double>(), 1e-5);
      }
}

TEST(RampFilter, RefusesFansOverLessThanATurn) {
  CircularScan scan;
  scan.beam = Beam::fan;
  scan.angles = test::angles(90, std::numbers::pi);
  scan.columns = 9;
  scan.source_axis = 50;
  scan.source_detector = 100;
  EXPECT_NE(refuse_direct(circular_geometry(scan, {{1, 4, 4}, {1, 1, 1}})).find("is a fan beam over less"),
            std::string::npos);
}

TEST(RampFilter, SaysHelixOfAHelixThatBeginsFarBelow) {
  CircularScan scan;
  scan.beam = Beam::cone;
  scan.angles = test::angles(90, 6 * std::numbers::pi);
  for (double& angle : scan.angles) angle -= 3 * std::numbers::pi;
  scan.columns = scan.rows = 9;
  scan.source_axis = 50;
  scan.source_detector = 100;
  scan.helical_pitch = 10;
  const std::string why = refuse_direct(circular_geometry(scan, {{4, 4, 4}, {1, 1, 1}}));
  EXPECT_TRUE(why.starts_with("is a helix")) << why;
}

TEST(RampFilter, SirtLeavesOutWhatNoRaySees) {
  at::Tensor sums = at::ones({4}, at::kDouble).mul_(2);
  sums[3] = 0;
  const at::Tensor scale = sirt_scaling(sums, 2);
  EXPECT_EQ(scale[0].item<double>(), 0.5);
  EXPECT_EQ(scale[3].item<double>(), 0);
}

}  // namespace
}  // namespace tessera
