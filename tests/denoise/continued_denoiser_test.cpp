// SPDX-License-Identifier: BSD-3-Clause
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/linspace.h>
#include <gtest/gtest.h>

#include "tessera/denoise/denoiser.hpp"

namespace tessera {
namespace {

// Shrinks by a factor that its level decides, and remembers the level that it was asked for.
class Shrink final : public Denoiser {
 public:
  void apply(const at::Tensor& in, double sigma, at::Tensor& out) override {
    asked = sigma;
    out.copy_(in).mul_(1 / (1 + sigma));
  }
  std::int64_t bytes_sent() const override { return 7; }
  std::string description() const override { return "shrink"; }
  double asked = 0;
};

constexpr double kLevel = 0.25;

double change(Denoiser& D, double sigma) {
  const at::Tensor x = at::linspace(-1, 1, 15, at::kDouble).reshape({1, 3, 5});
  at::Tensor out = at::empty_like(x);
  D.apply(x, sigma, out);
  return (out - x).norm().item<double>();
}

TEST(ContinuedDenoiser, IsTheDenoiserFromTheLevelUp) {
  Shrink inner;
  const auto D = make_continued(inner, kLevel);
  for (const double sigma : {kLevel, 0.5, 1.0}) {
    EXPECT_EQ(change(*D, sigma), change(inner, sigma)) << sigma;
    EXPECT_EQ(inner.asked, sigma);
  }
  EXPECT_EQ(D->bytes_sent(), 7);
  EXPECT_EQ(D->description(), "shrink");
}

TEST(ContinuedDenoiser, ChangesByTheSquareOfSigmaBelow) {
  Shrink inner;
  const auto D = make_continued(inner, kLevel);
  const double whole = change(inner, kLevel);
  for (const double sigma : {0.2, 0.1, 1e-3}) {
    EXPECT_NEAR(change(*D, sigma), whole * sigma * sigma / (kLevel * kLevel), 1e-14) << sigma;
    EXPECT_EQ(inner.asked, kLevel);
  }
  EXPECT_EQ(change(*D, 0), 0);
}

// With a state that two of them could not share.
class Counts final : public Denoiser {
 public:
  void apply(const at::Tensor& in, double sigma, at::Tensor& out) override { out.copy_(in); }
  std::int64_t bytes_sent() const override { return 0; }
  std::string description() const override { return "counts"; }
  std::vector<StateField> state() override { return {{.name = "calls", .scalar = &calls}}; }
  double calls = 0;
};

class Halves final : public Denoiser {
 public:
  explicit Halves(std::vector<std::string>& log) : log_(log) {}
  void apply(const at::Tensor& in, double sigma, at::Tensor& out) override {
    log_.push_back("half");
    out.copy_(in).mul_(0.5);
  }
  void release() override { log_.push_back("release"); }
  std::int64_t bytes_sent() const override { return 3; }
  std::string description() const override { return "halves"; }

 private:
  std::vector<std::string>& log_;
};

TEST(EarlyDenoiser, IsTheEarlyOneFromTheLevelUpAndTheExactOneBelow) {
  Shrink exact;
  std::vector<std::string> log;
  const auto D = make_early(std::make_unique<Halves>(log), exact, kLevel);
  Halves halves(log);
  for (const double sigma : {1.0, kLevel}) EXPECT_EQ(change(*D, sigma), change(halves, sigma)) << sigma;
  log.clear();
  for (const double sigma : {0.2, 0.1}) EXPECT_EQ(change(*D, sigma), change(exact, sigma)) << sigma;
  EXPECT_EQ(log, std::vector<std::string>{"release"});  // its features make room, once
  EXPECT_EQ(change(*D, 0.5), change(halves, 0.5));      // and it is there again
  EXPECT_EQ(D->bytes_sent(), 7);
  EXPECT_FALSE(D->bytes_are_exact());
}

TEST(EarlyDenoiser, RefusesStatesThatACheckpointWouldHaveToTellApart) {
  Shrink exact;
  EXPECT_ANY_THROW(make_early(std::make_unique<Counts>(), exact, kLevel));
}

}  // namespace
}  // namespace tessera
