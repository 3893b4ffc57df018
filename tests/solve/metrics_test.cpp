// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/solve/metrics.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/sin.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/groups.hpp"
#include "tessera/domain/tensor.hpp"

namespace tessera {
namespace {

at::Tensor scene(std::int64_t h, std::int64_t w) {
  const at::Tensor i = at::arange(3 * h * w, at::kDouble).reshape({3, h, w});
  return at::sin(i * 0.013) * 0.4 + 0.5;
}

TEST(Metrics, PsnrIsItsDefinitionAtAnyLevel) {
  for (const double db : {20.0, 60.0, 70.0, 140.0})
    EXPECT_NEAR(psnr_of(std::pow(10, -db / 10) * 50, 50), db, 1e-10);
  EXPECT_EQ(psnr_of(0, 50), std::numeric_limits<double>::infinity());
}

// Direct definition at one pixel: the weighted window, reflected at the border.
double ssim_by_hand(const at::Tensor& x, const at::Tensor& y) {
  const auto X = x.accessor<double, 3>(), Y = y.accessor<double, 3>();
  const std::int64_t h = x.size(1), w = x.size(2);
  const auto reflect = [](std::int64_t i, std::int64_t n) { return i < 0 ? -i : i >= n ? 2 * n - 2 - i : i; };
  double total = 0;
  for (std::int64_t c = 0; c < x.size(0); ++c)
    for (std::int64_t i = 0; i < h; ++i)
      for (std::int64_t j = 0; j < w; ++j) {
        double weight = 0, mx = 0, my = 0, xx = 0, yy = 0, xy = 0;
        for (std::int64_t a = -5; a <= 5; ++a)
          for (std::int64_t b = -5; b <= 5; ++b) {
            const double g = std::exp(-static_cast<double>(a * a + b * b) / 4.5);
            const double p = X[c][reflect(i + a, h)][reflect(j + b, w)],
                         q = Y[c][reflect(i + a, h)][reflect(j + b, w)];
            weight += g;
            mx += g * p;
            my += g * q;
            xx += g * p * p;
            yy += g * q * q;
            xy += g * p * q;
          }
        mx /= weight;
        my /= weight;
        xx = xx / weight - mx * mx;
        yy = yy / weight - my * my;
        xy = xy / weight - mx * my;
        total += (2 * mx * my + 1e-4) * (2 * xy + 9e-4) / ((mx * mx + my * my + 1e-4) * (xx + yy + 9e-4));
      }
  return total / static_cast<double>(x.numel());
}

TEST(Metrics, ScoresAreTheSameOnAnyNumberOfRanks) {
  const std::int64_t h = 23, w = 17;
  const at::Tensor truth = scene(h, w), image = truth * 0.9 + 0.02;
  const double by_hand = ssim_by_hand(truth, image);
  EXPECT_LT(by_hand, 0.999);
  test::on_groups([&](const Communicator& comm) {
    const Decomposition d(Box::image2d(h, w), {1, 1, 1}, grids(comm.size(), Box::image2d(h, w))[0]);
    const Box block = d.block(comm.rank());
    Reducer reducer(comm);
    const Space space(comm, &reducer);
    const at::Tensor mine = crop(image, d.image(), block).contiguous();
    Metrics metrics(crop(truth, d.image(), block).contiguous(), d, comm,
                    make_transport(comm, {}, TransportKind::mpi));
    EXPECT_NEAR(metrics.ssim(mine, space).reflected, by_hand, 1e-12);
    const at::Tensor error = image - truth;
    const double psnr = -10 * std::log10((error * error).mean().item().toDouble());
    EXPECT_NEAR(metrics.psnr(mine, space), psnr, 1e-9);
    const Deferred later = metrics.psnr(mine, reducer);
    reducer.launch();
    reducer.finish();
    EXPECT_NEAR(later.value(), psnr, 1e-9);
  });
}

TEST(Metrics, OnlyTheRegionCounts) {
  // Outside of the region everything is wrong: no score may change.
  const std::int64_t h = 31, w = 27;
  const Box whole = Box::image2d(h, w), region({0, 4, 6}, {1, 28, 23});
  const at::Tensor truth = scene(h, w), good = truth * 0.9 + 0.02;
  const at::Tensor image = good + 5.0;
  crop(image, whole, region).copy_(crop(good, whole, region));
  const at::Tensor cut_truth = crop(truth, whole, region).contiguous(),
                   cut_image = crop(good, whole, region).contiguous();
  const at::Tensor error = cut_image - cut_truth;
  const double psnr = -10 * std::log10((error * error).mean().item().toDouble());
  const double by_hand = ssim_by_hand(cut_truth, cut_image);
  test::on_groups([&](const Communicator& comm) {
    for (const Grid3& grid : grids(comm.size(), whole)) {
      const Decomposition d(whole, {1, 1, 1}, grid);
      const Box block = d.block(comm.rank());
      Reducer reducer(comm);
      const Space space(comm, &reducer);
      const at::Tensor mine = crop(image, whole, block).contiguous();
      Metrics metrics(crop(truth, whole, block).contiguous(), d, comm,
                      make_transport(comm, {}, TransportKind::mpi), region);
      EXPECT_NEAR(metrics.psnr(mine, space), psnr, 1e-9);
      EXPECT_NEAR(metrics.ssim(mine, space).reflected, by_hand, 1e-12);
      const Deferred later = metrics.psnr(mine, reducer);
      reducer.launch();
      reducer.finish();
      EXPECT_NEAR(later.value(), psnr, 1e-9);
    }
  });
}

TEST(Metrics, EightBitScoresClampAndRound) {
  const Box whole = Box::image2d(13, 12);
  const Communicator self;
  Reducer reducer(self);
  const Space space(self, &reducer);
  const Decomposition d(whole, {1, 1, 1}, {1, 1, 1});
  const at::Tensor truth = at::ones({1, 13, 12}, at::kFloat);
  Metrics metrics(truth, d, self, make_transport(self, {}, TransportKind::mpi));
  EXPECT_EQ(metrics.psnr_8bit(truth + 0.5, space), std::numeric_limits<double>::infinity());
  EXPECT_EQ(metrics.psnr_8bit(truth - 0.49 / 255, space), std::numeric_limits<double>::infinity());
  EXPECT_NEAR(metrics.psnr_8bit(truth - 0.51 / 255, space), 20 * std::log10(255.0), 1e-12);
  EXPECT_NEAR(metrics.psnr(truth + 0.5, space), -20 * std::log10(0.5), 1e-6);
}

TEST(Metrics, AnImageWithoutAnInsideHasNoValidSsim) {
  const Box whole = Box::image2d(10, 40);
  const Communicator self;
  Reducer reducer(self);
  const Space space(self, &reducer);
  const at::Tensor truth = scene(10, 40);
  Metrics metrics(truth, Decomposition(whole, {1, 1, 1}, {1, 1, 1}), self,
                  make_transport(self, {}, TransportKind::mpi));
  const Ssim ssim = metrics.ssim(truth * 0.9, space);
  EXPECT_TRUE(std::isnan(ssim.valid));
  EXPECT_NEAR(ssim.reflected, ssim_by_hand(truth, truth * 0.9), 1e-12);
}

}  // namespace
}  // namespace tessera
