// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/samples/blur_spectrum.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/ones_like.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <vector>

#include "support/groups.hpp"
#include "tessera/domain/light.hpp"
#include "tessera/domain/tensor.hpp"
#include "tessera/physics/local_operator.hpp"
#include "tessera/physics/noise.hpp"
#include "tessera/physics/operators.hpp"

namespace tessera {
namespace {

const Box kImage = Box::image2d(203, 181);

// Noise of 0.02, alone or as the mean of 2 x 2 (which falls towards fine details), so many times, on one rank's block.
struct Made {
  ProductSpace layout;
  at::Tensor y, marks;

  Made(const Communicator& comm, int means, std::int64_t channels = 1) {
    const Decomposition blocks =
        Decomposition::choose(kImage, {1, 4, 4}, comm.size(), [](const Box& b) { return b.pixels(); });
    layout = ProductSpace({{"identity", ImageSpace(kImage, channels), blocks.layout()}});
    const Box block = layout.block(0, comm.rank());
    at::Tensor whole = empty_block(channels, kImage, at::kDouble).fill_(0.5);
    for (std::int64_t c = 0; c < channels; ++c)
      add_noise(whole.narrow(0, c, 1), {.gaussian = 0.02}, 5, static_cast<std::uint32_t>(c), kImage, kImage);
    for (int k = 0; k < means; ++k)
      whole = (whole + whole.roll(1, 1) + whole.roll(1, 2) + whole.roll({1, 1}, {1, 2})) / 4;
    y = crop(whole, kImage, block).to(at::kFloat).contiguous();
    marks = at::ones_like(y);
  }
  TileSpectra spectra(const Communicator& comm) const {
    return {y, marks, layout, 0, comm, make_transport(comm, {}, TransportKind::mpi)};
  }
};

Convolution gaussian_blur(double sigma) {
  BlurOptions blur;
  blur.kernel = gaussian_kernel({sigma, sigma}, 0);
  blur.boundary = Boundary::valid;
  return *make_blur(std::move(blur))->convolution();
}

TEST(TileSpectra, AreFlatForWhiteNoiseAndTheSameOnAnyRanks) {
  std::vector<double> first;
  double uneven = 0;
  test::on_groups([&](const Communicator& comm) {
    const Made made(comm, 0, 2);
    const TileSpectra tiles = made.spectra(comm);
    EXPECT_EQ(tiles.tiles(), 11 * 10);
    const std::vector<double> mean = tiles.mean(comm), ones(TileSpectra::kBins, 1.0);
    const double unevenness = tiles.unevenness(ones, comm), few = tiles.concentration(ones, comm);
    if (comm.size() == 1) first = mean, uneven = unevenness;
    if (comm.rank() == 0) {
      EXPECT_EQ(mean, first);
      EXPECT_EQ(unevenness, uneven);
    }
    double sum = 0, n = 0;
    for (std::size_t b = 0; b < mean.size(); ++b) {
      if (TileSpectra::frequency(b) < 0.08) continue;  // the tile's mean was taken off
      sum += TileSpectra::times(b) * mean[b];
      n += TileSpectra::times(b);
    }
    EXPECT_NEAR(std::sqrt(sum / n), 0.02, 0.0004);
    EXPECT_LT(unevenness, 0.1);
    EXPECT_NEAR(few, 1, 0.05);
  });
}

TEST(TileSpectra, TellGrainFromWhatPicturesHave) {
  double picture = 0, grain = 0;
  test::on_groups([&](const Communicator& comm) {
    Made smooth(comm, 8), grained(comm, 8);
    grained.y = grained.y + 0.5 * Made(comm, 0).y;
    const double a = smooth.spectra(comm).grain(comm), b = grained.spectra(comm).grain(comm);
    if (comm.size() == 1) picture = a, grain = b;
    EXPECT_LT(a, 0.2);
    EXPECT_GT(b, 0.5);
    if (comm.rank() == 0) {
      EXPECT_EQ(a, picture);
      EXPECT_EQ(b, grain);
    }
  });
}

TEST(TileSpectra, LeaveOutTilesThatDoNotCount) {
  if (test::other_rank()) return;
  Made made(Communicator(), 0);
  made.marks.narrow(1, 0, 100).zero_();
  EXPECT_EQ(made.spectra(Communicator()).tiles(), 4 * 10);
}

TEST(TileSpectra, ExpectWhatAProcessHas) {
  if (test::other_rank()) return;
  const std::vector<double> white(128 * 128, 1.0);
  for (const double v : TileSpectra::expected(white, 128)) EXPECT_NEAR(v, 1, 1e-9);
}

TEST(BlurSpectrum, TellsWhiteNoiseFromNoiseThatFalls) {
  test::on_groups([](const Communicator& comm) {
    for (const double sigma : {1.2, 2.5}) {
      const BlurSpectrum white =
          read_blur_spectrum(Made(comm, false).spectra(comm).mean(comm), gaussian_blur(sigma));
      EXPECT_FALSE(white.colored()) << sigma;
      EXPECT_NEAR(white.far, 0.02, 0.001);
      EXPECT_NEAR(white.near, 0.02, 0.002);
      const BlurSpectrum falls =
          read_blur_spectrum(Made(comm, true).spectra(comm).mean(comm), gaussian_blur(sigma));
      EXPECT_TRUE(falls.colored()) << sigma;
      EXPECT_GT(falls.coarse, falls.near * 0.99);
      EXPECT_GT(falls.near, 1.5 * falls.far);
      EXPECT_LT(falls.coarse, 0.03) << "no more than there is of coarse details";
    }
  });
}

TEST(Light, TensorsGoThereAndBackWhereverTheyLie) {
  if (test::other_rank()) return;
  const at::Tensor stored = Made(Communicator(), false).y;
  const ToneCurve srgb = ToneCurve::srgb();
  EXPECT_TRUE(light_of(stored, ToneCurve()).is_same(stored));
  EXPECT_LT((stored_of(light_of(stored, srgb), srgb) - stored).abs().max().item<double>(), 1e-6);
  const at::Tensor part = stored.narrow(1, 3, 50).narrow(2, 7, 31);
  EXPECT_TRUE(light_of(part, srgb).equal(light_of(stored, srgb).narrow(1, 3, 50).narrow(2, 7, 31)));
}

}  // namespace
}  // namespace tessera
