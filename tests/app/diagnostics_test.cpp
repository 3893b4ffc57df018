// SPDX-License-Identifier: BSD-3-Clause
// What diagnostics say about residuals and denoisers whose statistics are known.
#include "tessera/app/diagnostics.hpp"

#include <ATen/ops/clamp.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/roll.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <limits>
#include <utility>

#include "domain/operators.hpp"
#include "tessera/physics/noise.hpp"
#include "tessera/physics/operators.hpp"
#include "tessera/samples/residual_statistics.hpp"

namespace tessera {
namespace {

constexpr std::int64_t kHeight = 97, kWidth = 130, kChannels = 2;

// White, normal, variance 1.
at::Tensor noise(std::uint64_t seed) {
  at::Tensor n = at::zeros({kChannels, kHeight, kWidth}, at::kDouble);
  const Box all = Box::image2d(kHeight, kWidth);
  add_noise(n, {.gaussian = 1}, seed, 0, all, all);
  return n;
}

// Of the image 0 under data y and the identity, on every grid of every number of ranks; `check` sees each.
template <class Check>
void on_all_grids(const at::Tensor& y, const at::Tensor& weights, double noise_sigma, Check check) {
  const Box all = Box::image2d(kHeight, kWidth);
  test::on_groups([&](const Communicator& comm) {
    for (const Grid3& grid : grids(comm.size(), all)) {
      const Decomposition d(all, {1, 1, 1}, grid);
      const Box block = d.block(comm.rank());
      test::Stack parts;
      parts.push_back(make_identity());
      const std::shared_ptr<DistributedOperator> A = test::place(parts, d, kChannels, comm);
      Reducer reducer(comm);
      const Space space(comm, &reducer);
      Measurement w;
      if (weights.defined()) w.push_back(test::part_of(weights, all, block));
      const auto data = make_least_squares(
          {.A = A, .y = {test::part_of(y, all, block)}, .weights = w, .noise_sigma = noise_sigma, .prox = {}},
          space);
      const Fit fit = data->fit(A->make_image().zero_());
      check(residual_statistics(fit, 0, A->range(), A->transport(), comm));
    }
  });
}

TEST(Diagnostics, WhiteNoiseOfTheStatedLevelHasNothingToSay) {
  const at::Tensor n = noise(1);
  const double chi2 = (n * n).mean().item().toDouble(), mean = n.mean().item().toDouble();
  ASSERT_NEAR(chi2, 1, 0.05);
  on_all_grids(n * 0.02, {}, 0.02, [&](const ResidualStatistics& s) {
    EXPECT_EQ(s.samples, kChannels * kHeight * kWidth);
    EXPECT_NEAR(s.chi2, chi2, 1e-12);
    EXPECT_NEAR(s.mean, -mean, 1e-12);
    EXPECT_LT(std::abs(s.correlation), 4 * s.white);
    EXPECT_NEAR(s.white, 1 / std::sqrt(kChannels * kHeight * kWidth), 0.1 * s.white);
    EXPECT_EQ(s.rows, 4);
    EXPECT_EQ(s.columns, 5);
  });
}

TEST(Diagnostics, NoiseStatedTwiceTooLargeShowsAsAQuarter) {
  const at::Tensor n = noise(2);
  on_all_grids(n * 0.02, {}, 0.04, [&](const ResidualStatistics& s) {
    EXPECT_NEAR(s.chi2, (n * n).mean().item().toDouble() / 4, 1e-12);
  });
}

TEST(Diagnostics, TheFarthestCorrelationIsFoundAcrossBlocks) {
  const at::Tensor n = noise(3);
  for (const std::array<int, 2> lag : {std::array{0, 1}, std::array{2, -3}, std::array{5, 5}}) {
    // y(p) = n(p) + n(p + lag): the correlation at this lag is 1/2 but for chance.
    const at::Tensor y = n + at::roll(n, {-lag[0], -lag[1]}, {1, 2});
    double on_one = 0;
    on_all_grids(y, {}, 1, [&](const ResidualStatistics& s) {
      EXPECT_EQ(s.lag, lag);
      EXPECT_NEAR(s.correlation, 0.5, 6 * s.white);
      if (on_one == 0) on_one = s.correlation;
      EXPECT_NEAR(s.correlation, on_one, 1e-12);
    });
  }
}

TEST(Diagnostics, SamplesWithoutWeightSayNothing) {
  const at::Tensor n = noise(4);
  const at::Tensor kept = noise(5), counted = kept.gt(0).to(at::kDouble);
  at::Tensor y = n.masked_fill(counted.eq(0), 1e6);
  y.masked_fill_(kept.gt(2), std::numeric_limits<double>::quiet_NaN());
  const at::Tensor seen = counted.mul(kept.le(2).to(at::kDouble));
  const double samples = seen.sum().item().toDouble();
  ASSERT_GT(samples, 1000);
  on_all_grids(y, counted * 4.0, 2, [&](const ResidualStatistics& s) {  // W = 4 undoes the noise level 2
    EXPECT_EQ(s.samples, static_cast<std::int64_t>(samples));
    EXPECT_NEAR(s.chi2, (n * n * seen).sum().item().toDouble() / samples, 1e-12);
    EXPECT_LT(std::abs(s.correlation), 4 * s.white);
    EXPECT_LT(s.largest, 100);
  });
}

TEST(Diagnostics, CorrelationsOfFewNeighborsStayWithinOne) {
  // One sample in 36 counts, quiet ones; and a loud block where all of them do, which is all that has neighbors.
  at::Tensor counted = at::zeros({kChannels, kHeight, kWidth}, at::kDouble), y = noise(11) * 0.1;
  counted.slice(1, 0, kHeight, 6).slice(2, 0, kWidth, 6).fill_(1);
  counted.narrow(1, 30, 12).narrow(2, 40, 12).fill_(1);
  const at::Tensor wave = at::ones({12, 12}, at::kDouble) * 5;
  wave.narrow(0, 6, 6).neg_();
  y.narrow(1, 30, 12).narrow(2, 40, 12).add_(wave);
  double on_one = 0;
  on_all_grids(y, counted, 1, [&](const ResidualStatistics& s) {
    EXPECT_GT(std::abs(s.correlation), 0.9) << "the block is one wave";
    EXPECT_LE(std::abs(s.correlation), 1);
    if (on_one == 0) on_one = s.correlation;
    EXPECT_NEAR(s.correlation, on_one, 1e-12);
  });
}

TEST(Diagnostics, ClippedSamplesAreCounted) {
  const at::Tensor n = noise(6);
  const double count = static_cast<double>(n.numel());
  const double below = n.le(-2).sum().item().toDouble(), above = n.ge(1).sum().item().toDouble();
  ASSERT_GT(below, 100);
  on_all_grids(at::clamp(n, -2, 1), {}, 1, [&](const ResidualStatistics& s) {
    EXPECT_NEAR(s.at_smallest, below / count, 1e-15);
    EXPECT_NEAR(s.at_largest, above / count, 1e-15);
    EXPECT_EQ(s.smallest, -2);
    EXPECT_EQ(s.largest, 1);
  });
}

TEST(Diagnostics, TheMapShowsWhereTheFitIsBad) {
  at::Tensor y = noise(7);
  y.narrow(1, 32, 32).narrow(2, 96, 32).mul_(3);  // tile (1, 3)
  const at::Tensor bad = y.narrow(1, 32, 32).narrow(2, 96, 32);
  on_all_grids(y, {}, 1, [&](const ResidualStatistics& s) {
    ASSERT_EQ(s.tiles.size(), 20U);
    EXPECT_NEAR(s.tiles[1 * 5 + 3], (bad * bad).mean().item().toDouble(), 1e-11);
    EXPECT_GT(s.tiles[1 * 5 + 3], 7);
    for (std::size_t i = 0; i < 20; ++i)
      if (i != 8 && !std::isnan(s.tiles[i])) {
        EXPECT_NEAR(s.tiles[i], 1, 0.5) << "tile " << i;
      }
    EXPECT_TRUE(std::isnan(s.tiles[19]));  // (3, 4): one row of two columns
  });
}

TEST(Diagnostics, CountsAroundTheirMeanHaveChi2One) {
  // Poisson counts of gain 1/50 around 0.2 to 0.8: the loss knows their variance, which differs by sample.
  constexpr double gain = 0.02;
  const Box all = Box::image2d(kHeight, kWidth);
  const at::Tensor mean = at::clamp(noise(9) * 0.1 + 0.5, 0.2, 0.8);
  at::Tensor y = mean.clone();
  add_noise(y, {.poisson = gain}, 9, 0, all, all);
  test::on_groups([&](const Communicator& comm) {
    const Decomposition d = test::cut(all, comm.size());
    const Box block = d.block(comm.rank());
    test::Stack parts;
    parts.push_back(make_identity());
    const std::shared_ptr<DistributedOperator> A = test::place(parts, d, kChannels, comm);
    Reducer reducer(comm);
    const Space space(comm, &reducer);
    const auto data = make_pointwise_term(
        {.A = A, .y = {test::part_of(y, all, block)}, .weights = {}, .noise_sigma = 0.1, .prox = {}},
        make_poisson_loss(gain, 0, 0.1), space);
    const Fit fit = data->fit(test::part_of(mean, all, block));
    EXPECT_EQ(fit.noise_sigma, 0.1);
    const ResidualStatistics s = residual_statistics(fit, 0, A->range(), A->transport(), comm);
    EXPECT_NEAR(s.chi2, 1, 0.05);
    EXPECT_NEAR(s.mean, 0, 0.03);
    EXPECT_LT(std::abs(s.correlation), 4 * s.white);
  });
}

// Halves every value but those of row 40, which it expands; every other call is of another map, as with a
// cycle.
class RowDenoiser final : public Denoiser {
 public:
  explicit RowDenoiser(const Box& block) {
    factor_ = at::ones({1, block.extent(1), 1}, at::kDouble) * 0.5;
    if (block.lo()[1] <= 40 && 40 < block.hi()[1]) factor_.narrow(1, 40 - block.lo()[1], 1).fill_(1.08);
  }
  void apply(const at::Tensor& in, double, at::Tensor& out) override {
    out.copy_(in * factor_ * (calls_ % 2 == 0 ? 1.0 : -3.0));
    ++calls_;
  }
  std::int64_t bytes_sent() const override { return 0; }
  std::string description() const override { return "row"; }
  std::vector<StateField> state() override { return {{.name = "calls", .count = &calls_}}; }
  std::int64_t calls_ = 4;

 private:
  at::Tensor factor_;
};

TEST(Diagnostics, PowerIterationFindsWhatADenoiserExpands) {
  const Box all = Box::image2d(kHeight, kWidth);
  const at::Tensor x = noise(8) * 0.1 + 0.5;
  std::vector<double> on_one;
  test::on_groups([&](const Communicator& comm) {
    const Decomposition d = test::cut(all, comm.size());
    const Box block = d.block(comm.rank());
    Reducer reducer(comm);
    const Space space(comm, &reducer);
    RowDenoiser denoiser(block);
    const Expansion e = expansion(denoiser, test::part_of(x, all, block), 0.1, 10, 1, d, space);
    ASSERT_EQ(e.gains.size(), 10U);
    EXPECT_LT(e.gains.front(), 0.6);  // most of a random change is on other rows
    EXPECT_NEAR(e.last(), 1.08, 1e-4);
    EXPECT_EQ(e.largest(), e.last());
    EXPECT_EQ(denoiser.calls_, 4);
    const Expansion own = expansion(denoiser, test::part_of(x, all, block), 0.1, 14, 0, d, space);
    EXPECT_NEAR(own.last(), 1.08, 1e-3);
    if (on_one.empty()) on_one = e.gains;
    for (std::size_t i = 0; i < 10; ++i) EXPECT_NEAR(e.gains[i], on_one[i], 1e-12);
  });
}

}  // namespace
}  // namespace tessera
