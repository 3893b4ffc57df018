// SPDX-License-Identifier: BSD-3-Clause
// What files of masks and kernels, and empty parts of measurements, are taken for.
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/roll.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <regex>
#include <string>
#include <tuple>
#include <vector>

#include "support/groups.hpp"
#include "tessera/app/kernel_look.hpp"
#include "tessera/core/error.hpp"
#include "tessera/core/random.hpp"
#include "tessera/domain/tensor.hpp"
#include "tessera/samples/marks.hpp"
#include "tessera/samples/noise_estimate.hpp"
#include "tessera/samples/repeats.hpp"

namespace tessera {
namespace {

// The values dealt to the ranks in turn.
MarkValues survey(const std::vector<float>& values, const Communicator& comm = Communicator()) {
  return survey_marks(
      [&](const auto& take) {
        for (std::size_t i = 0; i < values.size(); ++i)
          if (const double value = values[i]; static_cast<int>(i) % comm.size() == comm.rank())
            take(&value, 1);
      },
      comm);
}

std::vector<float> many(std::int64_t n, const std::function<double(std::int64_t)>& value) {
  std::vector<float> v;
  for (std::int64_t i = 0; i < n; ++i) v.push_back(static_cast<float>(value(i)));
  return v;
}

std::vector<float> marked(const std::vector<float>& values) {
  const MarkRule rule = rule_of_mask("m.png", survey(values));
  std::vector<float> out;
  for (const float v : values) out.push_back(rule.marks(v));
  return out;
}

TEST(Marks, AreWhatIsNotZeroWhateverTheTwoValues) {
  if (test::other_rank()) return;
  for (const float one : {1.0F, 255.0F, 65535.0F, 1e-3F, -1.0F, 4294967295.0F, 0.5F}) {
    EXPECT_EQ(marked({0, one, one, 0, one}), (std::vector<float>{0, 1, 1, 0, 1})) << one;
    EXPECT_EQ(rule_of_mask("m", survey({0, one, one})).note, "");
  }
  EXPECT_EQ(marked({0, 1, 2, 3, 0, 60}), (std::vector<float>{0, 1, 1, 1, 0, 1})) << "labels";
  EXPECT_EQ(marked({0, 256, 4096, 2, 0}), (std::vector<float>{0, 1, 1, 1, 0})) << "flags";
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(marked({0, nan, 1}), (std::vector<float>{0, 0, 1}));
  EXPECT_NE(rule_of_mask("m", survey({0, nan, 1})).note.find("1 of 3 samples that are not numbers"),
            std::string::npos);
  EXPECT_NE(rule_of_mask("m", survey({1, 1})).note.find("has no 0"), std::string::npos);
  EXPECT_THROW(rule_of_mask("m", survey({nan, nan})), InputError);
  EXPECT_THROW(rule_of_mask("m", survey({-1, 0, 1})), InputError);
}

TEST(Marks, OfLabelsBesideOneFarNumberAreWhatIsNotZero) {
  if (test::other_rank()) return;
  // 17 classes and 255 for what has none; 100 and 65535.
  for (const auto& [classes, aside] : {std::pair{17, 255.0}, {2, 255.0}, {100, 65535.0}}) {
    const std::vector<float> values =
        many(5000, [&](std::int64_t i) { return i % 91 == 0 ? aside : static_cast<double>(i % classes); });
    const MarkRule rule = rule_of_mask("m", survey(values));
    EXPECT_EQ(rule.threshold, 0) << rule.note;
    EXPECT_NE(rule.note.find("labels or flags"), std::string::npos) << rule.note;
  }
  // Shares of 1, as a mask that was compressed and divided by 255; inverse variances of 0 to 1 are none.
  const std::vector<float> soft = many(5000, [](std::int64_t i) {
    const double ends = i % 3 == 0 ? 0.0 : 1.0;
    return i % 50 == 7 ? 0.3 + 0.001 * static_cast<double>(i % 400)
                       : std::abs(ends - 0.004 * static_cast<double>(i % 11));
  });
  const std::optional<MarkRule> rule = rule_of_weights(survey(soft));
  ASSERT_TRUE(rule);
  EXPECT_TRUE(rule->marks(0.9F) && !rule->marks(0.2F));
  EXPECT_FALSE(rule_of_weights(
      survey(many(5000, [](std::int64_t i) { return static_cast<double>(i % 1000) / 999; }))));
  EXPECT_FALSE(
      rule_of_weights(survey(many(5000, [](std::int64_t i) { return static_cast<double>(i % 4 + 1) / 4; }))));
}

TEST(Marks, OfACompressedOrResampledMaskStandAtHalf) {
  test::on_groups([&](const Communicator& comm) {
    // A third is missing; beside both ends all values, as JPEG leaves them; edges in between.
    const auto jpeg = many(3000, [](std::int64_t i) {
      return i % 100 == 7 ? 30 + i % 190 : i % 3 == 0 ? i % 20 : 255 - i % 12;
    });
    const MarkValues values = survey(jpeg, comm);
    EXPECT_EQ(values.samples, 3000);
    EXPECT_EQ(values.distinct.size(), MarkValues::kMany);
    EXPECT_TRUE(values.two_ended());
    const MarkRule rule = rule_of_mask("m.jpg", values);
    EXPECT_EQ(rule.threshold, 127);
    EXPECT_FALSE(rule.marks(24));
    EXPECT_TRUE(rule.marks(232));
    EXPECT_NE(rule.note.find("30 of 3000 samples are neither"), std::string::npos) << rule.note;
    EXPECT_TRUE(rule_of_weights(values));
  });
  if (test::other_rank()) return;
  const auto smooth = many(1000, [](std::int64_t i) {
    return i < 300 ? 0.0 : i < 320 ? 0.05 * (i - 300) : 1.0;
  });
  EXPECT_EQ(rule_of_mask("m.npy", survey(smooth)).threshold, 0.5);
  // A photograph, a vignette, and a random mask that JPEG has blurred are no marks.
  EXPECT_THROW(rule_of_mask("m", survey(many(1000, [](std::int64_t i) { return i % 256; }))), InputError);
  EXPECT_THROW(rule_of_mask("m", survey(many(1000, [](std::int64_t i) { return 0.3 + 0.7 * i / 999; }))),
               InputError);
  // Inverse variances stay what they are.
  EXPECT_FALSE(
      rule_of_weights(survey(many(1000, [](std::int64_t i) { return i % 3 == 0 ? 0 : 0.01 + 1e-5 * i; }))));
  EXPECT_FALSE(rule_of_weights(survey({0, 255, 255})));
  EXPECT_FALSE(rule_of_weights(survey({0, 1, 2, 3, 4, 5})));
}

at::Tensor kernel(std::int64_t h, std::int64_t w, const std::function<double(double, double)>& value) {
  at::Tensor k = at::empty({1, h, w}, at::kDouble);
  for (std::int64_t r = 0; r < h; ++r)
    for (std::int64_t c = 0; c < w; ++c)
      k[0].data_ptr<double>()[r * w + c] =
          value(static_cast<double>(r - h / 2), static_cast<double>(c - w / 2));
  return k;
}

at::Tensor gaussian(std::int64_t n, double sigma, double off = 0) {
  return kernel(n, n, [=](double r, double c) {
    return std::exp(-((r - off) * (r - off) + c * c) / (2 * sigma * sigma));
  });
}

at::Tensor noise(const at::Tensor& like, double sigma) {
  at::Tensor n = at::empty_like(like);
  const Random random(3, RandomStream::scene);
  for (std::int64_t i = 0; i < n.numel(); ++i) n.data_ptr<double>()[i] = sigma * random.normal(i);
  return n;
}

KernelLook look(const at::Tensor& taps, FileKernel file = {}) {
  file.path = "k.npy";
  return look_at_kernel(file, taps.dim() == 3 ? taps.unsqueeze(1) : taps, true);
}

TEST(KernelLook, SaysNothingOfOrdinaryKernels) {
  if (test::other_rank()) return;
  const auto airy = [](double r, double c) {
    const double v = std::hypot(r, c) * 0.9;
    return v == 0 ? 0.25 : std::pow(std::cyl_bessel_j(1, v) / v, 2);
  };
  const auto keys = [](double t) {
    t = std::abs(t);
    return t < 1 ? (1.5 * t - 2.5) * t * t + 1 : t < 2 ? ((-0.5 * t + 2.5) * t - 4) * t + 2 : 0.0;
  };
  const std::vector<std::pair<std::string, at::Tensor>> ordinary = {
      {"Gaussian", gaussian(21, 3.3)},
      {"Gaussian of 2 sigma", gaussian(21, 5)},
      {"wide Gaussian, 8 bits", gaussian(121, 20).mul(255).round()},
      {"Gaussian, 16 bits", gaussian(31, 3).mul(65535).round()},
      {"binomial", kernel(3, 3, [](double r, double c) { return (2 - std::abs(r)) * (2 - std::abs(c)); })},
      {"tent", kernel(7, 7, [](double r, double c) { return (4 - std::abs(r)) * (4 - std::abs(c)); })},
      {"box", at::ones({1, 9, 9}, at::kDouble)},
      {"line", at::ones({1, 1, 15}, at::kDouble)},
      {"disk", kernel(31, 31, [](double r, double c) { return r * r + c * c <= 225 ? 255 : 0; })},
      {"diagonal motion",
       kernel(15, 15, [](double r, double c) { return r == c && std::abs(r) < 5 ? 1 : 0; })},
      {"diagonal motion, drawn in 8 bits", kernel(15, 15,
                                                  [](double r, double c) {
                                                    return std::abs(r) > 4 || std::abs(r - c) > 1 ? 0
                                                           : r == c                               ? 255
                                                                                                  : 120;
                                                  })},
      {"Airy", kernel(41, 41, airy)},
      {"Moffat", kernel(41, 41, [](double r, double c) { return std::pow(1 + (r * r + c * c) / 9, -2.5); })},
      {"bicubic", kernel(17, 17, [&](double r, double c) { return keys(r / 4) * keys(c / 4); })},
      {"turned",
       kernel(25, 25,
              [](double r, double c) { return std::exp(-(r + c) * (r + c) / 60 - (r - c) * (r - c) / 8); })},
      {"bead without its offset", gaussian(21, 2).mul(2000).add(noise(gaussian(21, 2), 5))},
      {"one per channel", at::cat({gaussian(15, 1.2), gaussian(15, 1.6) * 3, gaussian(15, 2) * 9}, 0)},
      {"donut",
       kernel(31, 31, [](double r, double c) { return std::abs(std::hypot(r, c) - 9) < 2 ? 1 : 0; })},
      {"coded aperture",
       kernel(31, 31, [](double r, double c) { return std::fmod(std::abs(r * 7 + c * 13), 3) < 1 ? 1 : 0; })},
      {"shaken", kernel(31, 31,
                        [](double r, double c) {
                          return std::abs(r - 8 * std::sin(c / 5)) < 0.8 ? 2 + std::sin(c) : 0;
                        })},
      {"faint bead", kernel(17, 17,
                            [](double r, double c) {
                              return std::floor(20 * std::exp(-(r * r + c * c) / 8) +
                                                (r == 4 && c == 5 ? 2 : 0));
                            })},
      {"box with a dead tap", kernel(9, 9, [](double r, double c) { return r == 0 && c == 0 ? 0 : 1; })},
      {"one tap", at::ones({1, 1, 1}, at::kDouble)}};
  for (const auto& [name, taps] : ordinary) {
    const KernelLook said = look(taps);
    EXPECT_TRUE(said.warnings.empty()) << name << ": " << said.warnings.front();
    EXPECT_TRUE(said.notes.empty()) << name << ": " << said.notes.front();
  }
  const at::Tensor half = kernel(
      16, 16, [](double r, double c) { return std::exp(-((r + .5) * (r + .5) + (c + .5) * (c + .5)) / 8); });
  EXPECT_TRUE(look_at_kernel({}, half.unsqueeze(1), false).notes.empty())
      << "coarse samples stand between pixels";
  // Taps that cancel out are a filter of differences, which says so.
  EXPECT_TRUE(look(kernel(3, 3, [](double r, double) { return r; }), {.normalize = false}).warnings.empty());
}

TEST(KernelLook, NamesWhatIsOdd) {
  if (test::other_rank()) return;
  const at::Tensor bead = gaussian(21, 2).mul(2000), n = noise(bead, 5);
  const at::Tensor slope = kernel(21, 21, [](double, double c) { return 100 + 4 * c; });
  const std::vector<std::tuple<std::string, at::Tensor, FileKernel>> odd = {
      {"stands on a pedestal: its rim is (9[5-9]|10[0-5])\\S* all around.* 4[678] % of", bead + 100 + n, {}},
      {"stands on a pedestal", (bead / 2000 * 200 + 12).round(), {}},
      {"lies below 0 all around its rim", bead - 60 + n, {}},
      {"center of mass is \\[13.0, 10.0\\], its origin \\[10, 10\\], .* -3.0 rows and -?0.0 columns: "
       ".*center: \\[13, 10\\]",
       gaussian(21, 2, 3),
       {}},
      {"is not centered", bead, {.center = {0, 0}}},
      {"write numpy.fft.fftshift", at::roll(gaussian(64, 2), {-32, -32}, {1, 2}), {}},
      {"stands on an uneven background: its rim goes from [56]\\d\\S* to 1[34]\\d", bead + slope + n, {}},
      {"uneven background", bead + slope.transpose(1, 2) + slope, {}},
      {"uneven background", bead + slope - 60, {}},
      {"is dark on a bright ground: its rim is 2[45]\\d\\d", 2500 - bead + n, {}},
      {"surrounded by noise that was cut at 0", (bead + noise(bead, 100)).clamp_min(0).round(), {}},
      {"is cut off: its rim still has 6\\d % of its peak", gaussian(9, 5), {}},
      {"taps below 0 that add up to", bead + noise(bead, 100), {}},
      {"has 2\\d taps at its largest value, 1000", at::clamp(bead, 0, 1000).round(), {}},
      {"has the sum 5\\S+ and normalize is false", bead, {.normalize = false}},
      {"note: .*middle between two taps, at \\[7.5, 7.5\\], and its origin at \\[8, 8\\]",
       kernel(16, 16,
              [](double r, double c) { return std::exp(-((r + .5) * (r + .5) + (c + .5) * (c + .5)) / 8); }),
       {}},
      {"note: .*it hardly blurs", gaussian(15, 0.2), {}}};
  for (const auto& [wanted, taps, file] : odd) {
    const KernelLook said = look(taps, file);
    std::string all;
    for (const std::string& line : said.warnings) all += line + "; ";
    for (const std::string& line : said.notes) all += "note: " + line + "; ";
    EXPECT_TRUE(std::regex_search(all, std::regex(wanted))) << all << " lacks " << wanted;
    EXPECT_EQ(said.warnings.size() + said.notes.size(), 1U) << all;
  }
  // Of hot pixels the first line says what they became; lines, sparse kernels and a sharp core on a halo keep theirs.
  const auto with = [](at::Tensor taps, const std::vector<std::array<double, 3>>& hot) {
    for (const auto& [row, column, value] : hot)
      taps[0][static_cast<std::int64_t>(row)][static_cast<std::int64_t>(column)] = value;
    return taps;
  };
  for (const auto& hot : {std::vector<std::array<double, 3>>{{4, 4, 9000}},
                          {{12, 3, 1200}, {18, 9, 700}},
                          {{8, 8, 5000}},
                          {{2, 15, 3000}, {3, 15, 2500}}})
    for (const at::Tensor& clean : {bead + n, (bead + n).clamp_min(0).round(), gaussian(21, 0.6) * 2000}) {
      const KernelLook said = look(with(clean.clone(), hot));
      ASSERT_EQ(said.warnings.size(), 1U) << hot[0][2];
      EXPECT_NE(
          said.warnings[0].find(hot.size() == 1 ? " a single tap far above" : " 2 single taps far above"),
          std::string::npos)
          << said.warnings[0];
      EXPECT_LT((said.taps[0][0] - clean[0]).abs().max().item().toDouble(), 200);
    }
  for (const at::Tensor& kept :
       {with(gaussian(21, 3), {{10, 10, 20}}),
        with(at::zeros({1, 21, 21}, at::kDouble), {{3, 4, 1}, {9, 17, 0.5}}),
        with(kernel(21, 21, [](double r, double) { return r == 0 ? 1 : 0; }), {{10, 15, 8}}),
        gaussian(21, 0.45), gaussian(21, 2)})
    EXPECT_TRUE(look(kept).taps.equal(kept.unsqueeze(1)));
  // The paths of shaken hands, drawn with pens of less than a pixel and more, turn and end in single high taps.
  for (const double pen : {0.35, 0.45, 0.6, 0.8})
    for (int path = 0; path < 8; ++path) {
      const at::Tensor shaken = kernel(25, 25, [&](double r, double c) {
        double sum = 0;
        for (int i = 0; i < 400; ++i) {
          const double t = i / 199.5 - 1, row = 6 * t + 1.5 * std::sin((4 + path) * t),
                       column = 3.5 * std::sin(2.2 * t + 0.4 * path) - 1;
          sum += std::exp(-((r - row) * (r - row) + (c - column) * (c - column)) / (2 * pen * pen));
        }
        return sum;
      });
      for (const std::string& line : look(shaken).warnings)
        EXPECT_EQ(line.find("far above"), std::string::npos) << pen << " " << path << ": " << line;
    }
  // Stacks of volumes: along the slices too.
  at::Tensor stack = at::empty({1, 17, 21, 21}, at::kDouble);
  for (std::int64_t z = 0; z < 17; ++z)
    stack[0][z] = gaussian(21, 2)[0] * std::exp(-static_cast<double>((z - 8) * (z - 8)) / 8);
  const auto of_stack = [&](const at::Tensor& taps) {
    const KernelLook said = look(taps);
    return said.warnings.empty() && said.notes.empty() ? ""
           : said.warnings.empty()                     ? said.notes.front()
                                                       : said.warnings.front();
  };
  EXPECT_EQ(of_stack(stack), "");
  EXPECT_NE(of_stack(stack * 2000 + 100).find("stands on a pedestal: its rim is 1"), std::string::npos);
  EXPECT_NE(of_stack(stack.roll({-3}, {1})).find("shifted by 3.0 slices, "), std::string::npos)
      << of_stack(stack.roll({-3}, {1}));
  EXPECT_NE(of_stack(stack.roll({-8, -10, -10}, {1, 2, 3})).find("numpy.fft.fftshift"), std::string::npos);
  EXPECT_NE(
      of_stack(stack * 2000 + at::arange(17, at::kDouble).view({1, 17, 1, 1}) * 6).find("uneven background"),
      std::string::npos);
  EXPECT_NE(of_stack(3000 - stack * 2000).find("dark on a bright ground"), std::string::npos);
  const KernelLook two = look(at::cat({gaussian(21, 2), gaussian(21, 2, 3)}, 0));
  ASSERT_EQ(two.warnings.size(), 1U);
  EXPECT_EQ(two.warnings[0].find("channel 1 of kernel k.npy is not centered"), 0U);
}

TEST(KernelLook, RefusesWhatIsNoKernel) {
  if (test::other_rank()) return;
  const auto message = [](const at::Tensor& taps, FileKernel file = {}) -> std::string {
    try {
      look(taps, std::move(file));
    } catch (const InputError& e) {
      return e.what();
    }
    return {};
  };
  at::Tensor holes = gaussian(9, 2);
  holes[0][3][3] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_NE(message(holes).find("1 of 81 taps that are not numbers"), std::string::npos);
  EXPECT_EQ(message(holes).find("normalize"), std::string::npos);
  EXPECT_NE(message(at::zeros({1, 9, 9}, at::kDouble), {.normalize = false}).find("0 everywhere"),
            std::string::npos);
  EXPECT_NE(message(-gaussian(9, 2)).find("normalize: false"), std::string::npos);
}

// White noise of deviation 2 around a slow wave, blocks of rows and columns; samples in `empty` have one value.
struct Mosaic {
  Box image = Box::image2d(203, 181);
  std::function<bool(std::int64_t row, std::int64_t column)> empty = [](auto, auto) { return false; };
  float fill = 0;
  double sigma = 2, sky = 0, step = 0;  // rounded to steps
  std::int64_t repeat = 1;
};

struct Blocks {
  Measurement y, marks;
  ProductSpace layout;
};

Blocks make(const Mosaic& m, const Communicator& comm) {
  const Decomposition blocks =
      Decomposition::choose(m.image, {1, 1, 1}, comm.size(), [](const Box& b) { return b.pixels(); });
  const ProductSpace layout({{"identity", ImageSpace(m.image), blocks.layout()}});
  const Box block = layout.block(0, comm.rank());
  at::Tensor y = empty_block(1, block, at::kFloat);
  const Random random(8, RandomStream::scene);
  float* to = y.data_ptr<float>();
  for (std::int64_t r = block.lo()[1]; r < block.hi()[1]; ++r)
    for (std::int64_t c = block.lo()[2]; c < block.hi()[2]; ++c) {
      const std::int64_t i = r / m.repeat * m.image.extent(2) + c / m.repeat;
      double v = m.sky + 30 * std::sin(0.02 * static_cast<double>(r / m.repeat)) + m.sigma * random.normal(i);
      if (m.step > 0) v = std::round(v / m.step) * m.step;
      *to++ = m.empty(r, c) ? m.fill : static_cast<float>(v);
    }
  return {{y}, {at::ones_like(y)}, layout};
}

NoiseEstimate estimate(const Mosaic& m, const Communicator& comm = Communicator()) {
  const Blocks b = make(m, comm);
  return estimate_noise(b.y, b.marks, b.layout, comm);
}

std::string refusal(const Mosaic& m) {
  try {
    return concat("noise ", estimate(m).sigma);
  } catch (const InputError& e) {
    return e.what();
  }
}

TEST(EmptyParts, DoNotLowerTheNoise) {
  if (test::other_rank()) return;
  const double clear = estimate({}).sigma;
  EXPECT_NEAR(clear, 2, 0.05);
  for (const float fill : {0.0F, -1000.0F, 15.0F, 1e6F}) {
    for (const double part : {0.05, 0.15, 0.4, 0.7}) {
      const auto corner = [&](std::int64_t r, std::int64_t c) { return r < 203 * part && c < 170; };
      EXPECT_NEAR(estimate({.empty = corner, .fill = fill}).sigma, 2, 0.06)
          << part << " filled with " << fill;
    }
    const auto gaps = [](std::int64_t r, std::int64_t c) {
      return std::abs(r - c + 20) < 3 || (r > 90 && r < 99) || c % 60 == 5;
    };
    EXPECT_NEAR(estimate({.empty = gaps, .fill = fill}).sigma, 2, 0.06) << "gaps filled with " << fill;
    const auto frame = [](std::int64_t r, std::int64_t c) { return r < 20 || c < 20 || r > 180 || c > 160; };
    EXPECT_NEAR(estimate({.empty = frame, .fill = fill, .sky = 100, .step = 1}).sigma, 2, 0.06)
        << "whole numbers, a frame of " << fill;
  }
}

TEST(EmptyParts, AreFoundAlikeOnAnyRanks) {
  const Mosaic m{.empty = [](std::int64_t r, std::int64_t c) {
    return (r < 60 && c < 70) || std::abs(r + c - 200) < 6;
  }};
  std::int64_t empty = 0;
  for (std::int64_t r = 0; r < 203; ++r)
    for (std::int64_t c = 0; c < 181; ++c) empty += m.empty(r, c);
  double first = 0;
  std::int64_t samples = 0;
  test::on_groups([&](const Communicator& comm) {
    const Blocks b = make(m, comm);
    const Repeats repeats = find_repeats(b.y, b.marks, b.layout, comm);
    ASSERT_EQ(repeats.areas.size(), 1U);
    EXPECT_EQ(repeats.areas[0].value, 0);
    EXPECT_EQ(repeats.enlarged, (std::array{1, 1}));
    const double sigma = estimate(m, comm).sigma;
    if (comm.size() == 1) first = sigma, samples = repeats.areas[0].samples;
    if (comm.rank() == 0) {
      EXPECT_EQ(sigma, first);
      EXPECT_EQ(repeats.areas[0].samples, samples);
    }
  });
  if (test::other_rank()) return;
  EXPECT_NEAR(static_cast<double>(samples), static_cast<double>(empty), 0.02 * static_cast<double>(empty));
}

TEST(EmptyParts, RoundedNoiseRepeatsItself) {
  if (test::other_rank()) return;
  for (const double sigma : {0.45, 0.6, 1.0, 3.0}) {
    const double all = std::sqrt(sigma * sigma + 1 / 12.0);  // rounding adds a twelfth
    EXPECT_NEAR(estimate({.sigma = sigma, .step = 1}).sigma, all, 0.06 * all) << sigma;
  }
  // A drawing has flat parts of many values, and no noise that could be measured.
  const Mosaic drawing{.empty = [](std::int64_t, std::int64_t) { return false; }, .sigma = 0, .step = 5};
  EXPECT_NE(refusal(drawing).find("smooth to its last digit"), std::string::npos) << refusal(drawing);
}

TEST(EmptyParts, RefusalsSayWhy) {
  if (test::other_rank()) return;
  const auto all = [](std::int64_t, std::int64_t) { return true; };
  for (const Box& image : {Box::image2d(64, 64), Box::image2d(256, 1), Box::image2d(1, 256)})
    EXPECT_NE(refusal({.image = image, .empty = all, .fill = 7}).find("that count have one value"),
              std::string::npos);
  EXPECT_NE(refusal({.image = Box::image2d(1, 1)}).find("one sample counts"), std::string::npos);
  for (const std::int64_t times : {2, 3, 4}) {
    const std::string said = refusal({.repeat = times});
    EXPECT_NE(said.find(concat("is there ", times, " x ", times, " times")), std::string::npos) << said;
  }
  const double column = estimate({.image = Box::image2d(900, 1)}).sigma;
  EXPECT_NEAR(column, 2, 0.25);
  EXPECT_NEAR(estimate({.image = Box::image2d(1, 900)}).sigma, 2, 0.25);
}

}  // namespace
}  // namespace tessera
