// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/solve/metrics.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/sin.h>
#include <gtest/gtest.h>

#include <cmath>

#include "support/groups.hpp"
#include "tessera/domain/tensor.hpp"

namespace tessera {
namespace {

at::Tensor scene(std::int64_t h, std::int64_t w) {
  const at::Tensor i = at::arange(3 * h * w, at::kDouble).reshape({3, h, w});
  return at::sin(i * 0.013) * 0.4 + 0.5;
}

TEST(Metrics, PsnrHasItsClosedFormAndItsCap) {
  EXPECT_NEAR(psnr_of(0.01 * 50, 50), 20, 1e-5);
  EXPECT_NEAR(psnr_of(0, 50), 80, 1e-12);
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
    EXPECT_NEAR(metrics.ssim(mine, space), by_hand, 1e-12);
    const at::Tensor error = image - truth;
    const double psnr = -10 * std::log10((error * error).mean().item().toDouble() + 1e-8);
    EXPECT_NEAR(metrics.psnr(mine, space), psnr, 1e-9);
    const Deferred later = metrics.psnr(mine, reducer);
    reducer.launch();
    reducer.finish();
    EXPECT_NEAR(later.value(), psnr, 1e-9);
  });
}

}  // namespace
}  // namespace tessera
