// SPDX-License-Identifier: BSD-3-Clause
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <vector>

#include "support/groups.hpp"
#include "support/once.hpp"
#include "support/threads.hpp"
#include "tessera/core/error.hpp"
#include "tessera/denoise/denoiser.hpp"
#include "tessera/denoise/total_variation.hpp"
#include "tessera/domain/tensor.hpp"
#include "tv/total_variation_step.hpp"

namespace tessera {
namespace {

// Edges and texture that every rank makes alike.
at::Tensor picture(std::int64_t channels, std::int64_t height, std::int64_t width, at::ScalarType type) {
  at::Tensor x = at::zeros({channels, height, width}, at::kDouble);
  auto a = x.accessor<double, 3>();
  for (std::int64_t c = 0; c < channels; ++c)
    for (std::int64_t i = 0; i < height; ++i)
      for (std::int64_t j = 0; j < width; ++j)
        a[c][i][j] =
            (3 * i > 2 * j + c ? 0.7 : 0.2) + 0.1 * std::sin(12.9898 * double(i) + 78.233 * double(j));
  return x.to(type);
}

DenoiserContext context(const Communicator& comm, const at::Tensor& image) {
  const Decomposition d =
      Decomposition::choose(Box::image2d(image.size(1), image.size(2)), {1, 1, 1}, comm.size(),
                            [](const Box& b) { return static_cast<double>(b.pixels()); });
  return {d, ImageSpace(d.image(), image.size(0)), comm, make_transport(comm, Device{}, TransportKind::mpi)};
}

at::Tensor denoised(const at::Tensor& image, double sigma, const TotalVariationOptions& options) {
  const auto d = make_total_variation(options, context(Communicator(), image), image.options());
  at::Tensor out = at::empty_like(image);
  d->apply(image, sigma, out);
  return out;
}

// 1/2 |x - v|^2 + strength TV(x).
double objective(const at::Tensor& x, const at::Tensor& v, double strength) {
  at::Tensor rows = at::zeros_like(x), columns = at::zeros_like(x);
  const std::int64_t h = x.size(1), w = x.size(2);
  rows.narrow(1, 0, h - 1).copy_(x.narrow(1, 1, h - 1) - x.narrow(1, 0, h - 1));
  columns.narrow(2, 0, w - 1).copy_(x.narrow(2, 1, w - 1) - x.narrow(2, 0, w - 1));
  return 0.5 * (x - v).square().sum().item<double>() +
         strength * (rows.square() + columns.square()).sqrt().sum().item<double>();
}

TEST(TotalVariation, step_edge_moves_as_in_closed_form) {
  if (test::other_rank()) return;
  // Constant along columns: one-dimensional. Each side moves towards the other by strength / its length.
  const std::int64_t left = 5, right = 9;
  for (const bool transposed : {false, true}) {
    at::Tensor v = at::zeros({1, 6, left + right}, at::kDouble);
    v.narrow(2, left, right).fill_(1.0);
    at::Tensor want = at::zeros_like(v);
    want.narrow(2, 0, left).fill_(0.3 / 5);
    want.narrow(2, left, right).fill_(1.0 - 0.3 / 9);
    if (transposed) {
      v = v.transpose(1, 2).contiguous();
      want = want.transpose(1, 2);
    }
    const at::Tensor x = denoised(v, 0.1, {.weight = 3, .iterations = 4000, .tolerance = 0});
    EXPECT_LT((x - want).abs().max().item<double>(), 1e-6);
  }
}

TEST(TotalVariation, reaches_the_minimum) {
  if (test::other_rank()) return;
  const at::Tensor v = picture(1, 24, 31, at::kDouble);
  const double strength = 0.1;
  const at::Tensor best = denoised(v, strength, {.iterations = 20000, .tolerance = 0});
  const double least = objective(best, v, strength);
  // A minimum: convex, and nothing nearby is less.
  for (int k = 0; k < 20; ++k) {
    const at::Tensor other = best + 1e-3 * (at::rand(best.sizes(), at::kDouble) - 0.5);
    EXPECT_GT(objective(other, v, strength), least);
  }
  EXPECT_LT(least, objective(v, v, strength));
  const at::Tensor usual = denoised(v, strength, {});
  EXPECT_LT(objective(usual, v, strength) / least - 1, 1e-3);
  EXPECT_NEAR(best.mean().item<double>(), v.mean().item<double>(), 1e-12);  // TV does not see constants
}

TEST(TotalVariation, rows_equal_operators) {
  if (test::other_rank()) return;
  const at::Tensor image = picture(2, 40, 37, at::kDouble);
  for (const TvPart part : {TvPart{0, 40, 0, 37}, {1, 39, 2, 36}, {0, 17, 5, 37}, {3, 3, 0, 5}}) {
    at::Tensor a = at::rand({8, 40, 37}, at::kDouble) - 0.5, b = a.clone();
    tv_step(a, image, 0.1, 0.4, part);
    tv_step_operators(b, image, 0.1, 0.4, part);
    EXPECT_LT((a - b).abs().max().item<double>(), 1e-13);
  }
}

// 200 x 130: rows enough for three threads, in pieces that do not divide them.
TEST(TotalVariation, is_the_same_on_any_threads) {
  if (test::other_rank()) return;
  const at::Tensor image = picture(1, 200, 130, at::kFloat);
  test::same_on_any_threads(
      [&] { return std::vector<at::Tensor>{denoised(image, 0.1, {.iterations = 7, .tolerance = 0})}; });
}

TEST(TotalVariation, is_the_same_on_any_ranks) {
  for (const auto& [height, width] : {std::pair<std::int64_t, std::int64_t>{64, 64}, {97, 45}, {3, 2}}) {
    for (const at::ScalarType type : {at::kDouble, at::kFloat}) {
      const at::Tensor image = picture(3, height, width, type);
      const at::Tensor want = test::once([&] { return denoised(image, 0.1, {}); });
      ASSERT_GT((want - image).abs().max().item<double>(), 1e-3);
      test::on_groups([&](const Communicator& comm) {
        const DenoiserContext c = context(comm, image);
        const auto d = make_total_variation({}, c, image.options());
        const Box own = c.decomposition.block(comm.rank());
        const Box all = c.decomposition.image();
        const at::Tensor in = crop(image, all, own).contiguous();
        at::Tensor out = at::empty_like(in);
        for (int call = 0; call < 2; ++call) {  // the second must not depend on the first
          d->apply(in, 0.1, out);
          if (!own.empty()) {
            EXPECT_LT((out - crop(want, all, own)).abs().max().item<double>(),
                      type == at::kDouble ? 1e-10 : 1e-6);
          }
        }
      });
    }
  }
}

// A ball in a volume, and a grain that every rank makes alike.
at::Tensor ball(at::ScalarType type) {
  at::Tensor x = at::zeros({2, 12, 17, 14}, at::kDouble);
  auto a = x.accessor<double, 4>();
  for (std::int64_t c = 0; c < 2; ++c)
    for (std::int64_t d = 0; d < 12; ++d)
      for (std::int64_t i = 0; i < 17; ++i)
        for (std::int64_t j = 0; j < 14; ++j)
          a[c][d][i][j] = ((d - 5) * (d - 5) + (i - 8) * (i - 8) + (j - 6) * (j - 6) < 20 ? 0.8 : 0.2) +
                          0.1 * std::sin(12.9898 * double(i + 3 * d) + 78.233 * double(j));
  return x.to(type);
}

at::Tensor denoised_on(const Communicator& comm, const at::Tensor& volume, const Grid3& grid,
                       const TotalVariationOptions& options, Box& own) {
  const Box all({0, 0, 0}, {volume.size(1), volume.size(2), volume.size(3)});
  const DenoiserContext c{Decomposition(all, {1, 1, 1}, grid), ImageSpace(all, volume.size(0)), comm,
                          make_transport(comm, Device{}, TransportKind::mpi)};
  own = c.decomposition.block(comm.rank());
  const at::Tensor in = crop(volume, all, own).contiguous();
  at::Tensor out = at::empty_like(in);
  make_total_variation(options, c, volume.options())->apply(in, 0.1, out);
  return out;
}

TEST(TotalVariation, volumes_are_the_same_on_any_ranks) {
  Box whole;
  for (const at::ScalarType type : {at::kDouble, at::kFloat}) {
    const at::Tensor volume = ball(type);
    const at::Tensor want = denoised_on(Communicator(), volume, {1, 1, 1}, {}, whole);
    ASSERT_GT((want - volume).abs().max().item<double>(), 1e-3);
    test::on_groups([&](const Communicator& comm) {
      for (const Grid3& grid :
           {Grid3{comm.size(), 1, 1}, Grid3{1, comm.size(), 1}, Grid3{1, 1, comm.size()}}) {
        Box own;
        const at::Tensor out = denoised_on(comm, volume, grid, {}, own);
        if (!own.empty()) {
          EXPECT_LT((out - crop(want, whole, own)).abs().max().item<double>(),
                    type == at::kDouble ? 1e-10 : 1e-6);
        }
      }
    });
  }
}

TEST(TotalVariation, volumes_of_equal_slices_are_pictures) {
  if (test::other_rank()) return;
  const at::Tensor slice = picture(1, 20, 15, at::kDouble);
  const at::Tensor volume = slice.unsqueeze(1).expand({1, 4, 20, 15}).contiguous();
  const TotalVariationOptions options{.iterations = 6000, .tolerance = 0};
  Box own;
  const at::Tensor x = denoised_on(Communicator(), volume, {1, 1, 1}, options, own);
  const at::Tensor want = denoised(slice, 0.1, options);
  for (std::int64_t d = 0; d < 4; ++d) EXPECT_LT((x.select(1, d) - want).abs().max().item<double>(), 1e-4);
}

// sum |D x| by its definition.
double variation(const at::Tensor& x) {
  at::Tensor squares = at::zeros_like(x, at::kDouble);
  for (std::int64_t d = 1; d < x.dim(); ++d) {
    const at::Tensor along = x.to(at::kDouble).diff(1, d);
    squares.narrow(d, 0, along.size(d)).add_(along.square());
  }
  return squares.sqrt().sum().item<double>();
}

TEST(TotalVariation, its_value_is_that_of_one_rank) {
  const auto is = [](const at::Tensor& image, double want) {
    test::on_groups([&](const Communicator& comm) {
      const Box all = image.dim() == 3 ? Box::image2d(image.size(1), image.size(2))
                                       : Box({0, 0, 0}, {image.size(1), image.size(2), image.size(3)});
      for (const Grid3& grid :
           {Grid3{image.dim() == 3 ? 1 : comm.size(), image.dim() == 3 ? comm.size() : 1, 1},
            Grid3{1, 1, comm.size()}}) {
        const DenoiserContext c{Decomposition(all, {1, 1, 1}, grid), ImageSpace(all, image.size(0)), comm,
                                make_transport(comm, Device{}, TransportKind::mpi)};
        const auto d = make_total_variation({.weight = 3}, c, image.options());
        d->set_noise(0.2);
        const at::Tensor mine = crop(image, all, c.decomposition.block(comm.rank())).contiguous();
        const at::Tensor own = d->prior(mine, 0.1);
        ASSERT_TRUE(own.scalar_type() == at::kDouble && own.dim() == 0);
        std::array<double, 1> sum{own.item<double>()};
        comm.all_reduce(sum, Reduce::sum);
        EXPECT_NEAR(sum[0], 3 * 0.1 * 0.1 / 0.2 * want, 1e-6 * want);
      }
    });
  };
  at::Tensor step = at::zeros({1, 6, 14}, at::kDouble);
  step.narrow(2, 5, 9).fill_(0.5);
  is(step, 6 * 0.5);
  for (const at::ScalarType type : {at::kDouble, at::kFloat}) {
    for (const auto& [height, width] :
         {std::pair<std::int64_t, std::int64_t>{64, 61}, {1, 9}, {7, 1}, {3, 2}})
      is(picture(3, height, width, type), variation(picture(3, height, width, type)));
    is(ball(type), variation(ball(type)));
  }
}

TEST(TotalVariation, bad_options_and_no_noise) {
  if (test::other_rank()) return;
  const at::Tensor image = picture(1, 8, 8, at::kFloat);
  EXPECT_TRUE(denoised(image, 0, {}).equal(image));
  EXPECT_THROW(denoised(image, 0.1, {.weight = -1}), InputError);
  EXPECT_THROW(denoised(image, 0.1, {.iterations = 0}), InputError);
}

}  // namespace
}  // namespace tessera
