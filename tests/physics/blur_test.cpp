// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <ATen/ops/arange.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <vector>

#include "overlap_save.hpp"
#include "physics/reference.hpp"
#include "tessera/core/error.hpp"

namespace tessera {
namespace {

using test::blur_by_definition;
using test::difference;
using test::extend;
using test::random_tensor;
using test::scalar_product;

constexpr std::array kBoundaries = {Boundary::circular, Boundary::reflect, Boundary::replicate,
                                    Boundary::zero, Boundary::valid};

// An operator on a whole image: the pixels it is given include the border, filled by the definition.
struct Whole {
  std::unique_ptr<LocalOperator> op;
  Box image, input;
  std::unique_ptr<PlacedOperator> placed;

  Whole(std::unique_ptr<LocalOperator> made, const Box& on, std::int64_t channels, at::ScalarType type)
      : op(std::move(made)), image(on) {
    const Box samples = op->measurement(image);
    input = image;
    if (op->border() != Border::none) input = image.grow(op->reach());
    const LocalOperator* self = op.get();
    placed = op->place({&self, 1}, {ImageSpace(image, channels), input, {samples}, at::TensorOptions(type)});
  }
  at::Tensor apply(const at::Tensor& x) const {
    const Box samples = op->measurement(image);
    at::Tensor y = at::empty({x.size(0), samples.extent(1), samples.extent(2)}, x.options());
    placed->apply(x, {&y, 1});
    return y;
  }
};

std::unique_ptr<LocalOperator> blur(const at::Tensor& taps, Boundary boundary, BlurMethod method,
                                    std::int64_t factor) {
  BlurOptions options;
  options.kernel = taps;
  options.boundary = boundary;
  options.method = method;
  options.factor = factor;
  return make_blur(std::move(options));
}

TEST(Blur, IsTrueConvolutionAroundTheMiddleTap) {
  // A kernel of 1, 2, 3 on one row; x = delta at column 2: y repeats the kernel, its middle tap at column 2.
  at::Tensor taps = at::zeros({1, 3}, at::kDouble), x = at::zeros({1, 1, 5}, at::kDouble);
  for (std::int64_t j = 0; j < 3; ++j) taps[0][j] = static_cast<double>(j + 1);
  x[0][0][2] = 1.0;
  const Whole w(blur(taps, Boundary::zero, BlurMethod::direct, 1), Box::image2d(1, 5), 1, at::kDouble);
  const at::Tensor y = w.apply(extend(x, w.input, Border::zero));
  const std::array<double, 5> expected = {0, 1, 2, 3, 0};
  for (std::int64_t i = 0; i < 5; ++i)
    EXPECT_EQ(y[0][0][i].item<double>(), expected[static_cast<std::size_t>(i)]);
}

TEST(Blur, EvenKernelHasItsOriginAtHalfItsSize) {
  // Taps 1 and 10 on two columns, origin h // 2 = 1: y[i] = 1 x[i + 1] + 10 x[i].
  at::Tensor taps = at::zeros({1, 2}, at::kDouble), x = at::zeros({1, 1, 3}, at::kDouble);
  taps[0][0] = 1.0;
  taps[0][1] = 10.0;
  for (std::int64_t i = 0; i < 3; ++i) x[0][0][i] = static_cast<double>(i + 1);
  const Whole w(blur(taps, Boundary::circular, BlurMethod::direct, 1), Box::image2d(1, 3), 1, at::kDouble);
  EXPECT_EQ(w.op->reach(), (Reach{{0, 0, 0}, {0, 0, 1}}));
  const at::Tensor y = w.apply(extend(x, w.input, Border::circular));
  EXPECT_EQ(y[0][0][0].item<double>(), 12);  // 2 + 10
  EXPECT_EQ(y[0][0][1].item<double>(), 23);
  EXPECT_EQ(y[0][0][2].item<double>(), 31);  // 1 + 30
}

TEST(Blur, EqualsItsDefinitionAndItsAdjointForAllBoundariesSizesFactorsAndMethods) {
  const std::vector<std::array<std::int64_t, 2>> images = {{17, 23}, {9, 30}, {5, 4}, {1, 12}};
  const std::vector<std::array<std::int64_t, 2>> kernels = {{1, 1}, {3, 3}, {2, 4}, {5, 1}, {7, 9}, {12, 11}};
  int cases = 0;
  for (const auto& size : images)
    for (const auto& taps_size : kernels)
      for (const Boundary boundary : kBoundaries)
        for (const std::int64_t factor : {1, 2, 3}) {
          if (boundary == Boundary::valid && (size[0] < taps_size[0] || size[1] < taps_size[1])) continue;
          const at::Tensor taps = random_tensor({taps_size[0], taps_size[1]}, 1);
          const at::Tensor x = random_tensor({2, size[0], size[1]}, 2);
          for (const BlurMethod method : {BlurMethod::direct, BlurMethod::fft}) {
            SCOPED_TRACE(testing::Message()
                         << size[0] << "x" << size[1] << " taps " << taps_size[0] << "x" << taps_size[1]
                         << " boundary " << static_cast<int>(boundary) << " factor " << factor << " method "
                         << static_cast<int>(method));
            const Whole w(blur(taps, boundary, method, factor), Box::image2d(size[0], size[1]), 2,
                          at::kDouble);
            const at::Tensor in = extend(x, w.input, w.op->border());
            const at::Tensor y = w.apply(in);
            EXPECT_LT(difference(y, blur_by_definition(x, taps, {taps_size[0] / 2, taps_size[1] / 2}, *w.op)),
                      1e-12);
            const at::Tensor v = random_tensor(y.sizes(), 3), u = random_tensor(in.sizes(), 4);
            at::Tensor back = at::zeros(in.sizes(), at::kDouble);
            w.placed->adjoint({&v, 1}, back);
            EXPECT_NEAR(scalar_product(w.apply(u), v), scalar_product(u, back),
                        1e-12 * (1 + std::sqrt(scalar_product(u, u) * scalar_product(v, v))));
            ++cases;
          }
        }
  EXPECT_GT(cases, 500);
}

TEST(Blur, ByFftInFloatEqualsDirect) {
  const at::Tensor taps = gaussian_kernel({3.0, 1.5}, 30), x = random_tensor({3, 70, 81}, 5) + 0.5;
  const Whole direct(blur(taps, Boundary::reflect, BlurMethod::direct, 1), Box::image2d(70, 81), 3,
                     at::kDouble);
  const Whole fft(blur(taps, Boundary::reflect, BlurMethod::fft, 1), Box::image2d(70, 81), 3, at::kFloat);
  const at::Tensor in = extend(x, direct.input, Border::reflect);
  EXPECT_LT(difference(fft.apply(in.to(at::kFloat)).to(at::kDouble), direct.apply(in)), 1e-6);
}

TEST(Blur, BySeveralTilesEqualsDirect) {
  const at::Tensor taps = random_tensor({60, 41}, 1), x = random_tensor({1, 601, 533}, 2);
  const TilePlan plan = choose_tiles({601, 533}, {59, 40});
  ASSERT_GT(plan.count[0] * plan.count[1], 1);
  ASSERT_NE(plan.core[0] * plan.count[0], 601);  // the last tile is not full
  for (const std::int64_t factor : {1, 3}) {
    const Box image = Box::image2d(601, 533);
    const Whole direct(blur(taps, Boundary::valid, BlurMethod::direct, factor), image, 1, at::kDouble);
    const Whole fft(blur(taps, Boundary::valid, BlurMethod::fft, factor), image, 1, at::kDouble);
    const at::Tensor y = direct.apply(x);
    EXPECT_LT(difference(fft.apply(x), y), 1e-12);
    at::Tensor back = at::zeros(x.sizes(), at::kDouble), expected = at::zeros(x.sizes(), at::kDouble);
    fft.placed->adjoint({&y, 1}, back);
    direct.placed->adjoint({&y, 1}, expected);
    EXPECT_LT(difference(back, expected), 1e-12);
  }
}

// Strips of four rows, fewer at the end; wide rows, whose ends are continued by zeros, and narrow ones; kernels
// lower than a strip; one kernel per channel.
TEST(Blur, DirectInStripsEqualsFft) {
  for (const auto& [kernels, height, width] : {std::array<std::int64_t, 3>{1, 15, 15},
                                               {2, 5, 9},
                                               {1, 1, 21},
                                               {2, 2, 3},
                                               {1, 3, 49},
                                               {1, 17, 1},
                                               {1, 4, 4}})
    for (const auto& [rows, columns] :
         {std::array<std::int64_t, 2>{30, 333}, {21, 190}, {18, 96}, {23, 60}}) {
      const at::Tensor taps = random_tensor({kernels, height, width}, 1);
      const at::Tensor x = random_tensor({2, rows, columns}, 2);
      const Box image = Box::image2d(rows, columns);
      const Whole direct(blur(taps, Boundary::valid, BlurMethod::direct, 1), image, 2, at::kDouble);
      const Whole fft(blur(taps, Boundary::valid, BlurMethod::fft, 1), image, 2, at::kDouble);
      const at::Tensor y = direct.apply(x);
      SCOPED_TRACE(concat(height, " x ", width, " taps, ", rows, " x ", columns, " pixels"));
      EXPECT_LT(difference(fft.apply(x), y), 1e-12);
      at::Tensor back = random_tensor(x.sizes(), 3), expected = back.clone();  // both are added to
      direct.placed->adjoint({&y, 1}, back);
      fft.placed->adjoint({&y, 1}, expected);
      EXPECT_LT(difference(back, expected), 1e-12);
    }
}

TEST(Blur, DirectRowsHaveTheSameBitsWhereverAStripBegins) {
  const at::Tensor taps = random_tensor({7, 7}, 1), x = random_tensor({1, 40, 200}, 2).to(at::kFloat);
  const Whole all(blur(taps, Boundary::valid, BlurMethod::direct, 1), Box::image2d(40, 200), 1, at::kFloat);
  const at::Tensor y = all.apply(x);
  for (const std::int64_t first : {1, 2, 3}) {
    const Whole part(blur(taps, Boundary::valid, BlurMethod::direct, 1), Box::image2d(40 - first, 200), 1,
                     at::kFloat);
    EXPECT_TRUE(part.apply(x.slice(1, first)).equal(y.slice(1, first)));
  }
}

// In float32 the outer taps of such a kernel are below the smallest normal number.
TEST(Blur, DirectWithVanishingTapsEqualsDouble) {
  const at::Tensor line = at::arange(-7, 8, at::kDouble).square_().mul_(-2).exp_(), taps = line.outer(line);
  ASSERT_LT(taps.min().item<double>(), 1e-38);
  const at::Tensor x = random_tensor({1, 30, 64}, 2);
  const Box image = Box::image2d(30, 64);
  const Whole one(blur(taps, Boundary::valid, BlurMethod::direct, 1), image, 1, at::kFloat);
  const Whole two(blur(taps, Boundary::valid, BlurMethod::direct, 1), image, 1, at::kDouble);
  EXPECT_LT(difference(one.apply(x.to(at::kFloat)).to(at::kDouble), two.apply(x)), 1e-6);
}

TEST(Blur, AutomaticallySharesATransformFromMoreTapsOnInAStack) {
  const auto made = [](std::int64_t side) {
    return blur(random_tensor({side, side}, 1), Boundary::zero, BlurMethod::automatic, 1);
  };
  EXPECT_FALSE(made(11)->shares_with(*made(13)));
  EXPECT_TRUE(made(13)->shares_with(*made(15)));
  const Box samples[] = {Box::image2d(64, 64), Box::image2d(64, 64)};
  const auto one = made(13), two = made(15), large = made(17);
  const LocalOperator* group[] = {one.get(), two.get()};
  EXPECT_TRUE(one->work({group, 1}, {samples, 1}, 1).transforms.empty());  // direct alone
  EXPECT_FALSE(one->work(group, samples, 1).transforms.empty());
  const LocalOperator* alone[] = {large.get()};
  EXPECT_FALSE(large->work(alone, {samples, 1}, 1).transforms.empty());
}

TEST(Blur, BankOfDifferentKernelsEqualsEachAlone) {
  const Box image = Box::image2d(150, 90);
  std::vector<std::unique_ptr<LocalOperator>> ops;
  ops.push_back(blur(random_tensor({9, 9}, 1), Boundary::zero, BlurMethod::fft, 1));
  ops.push_back(blur(random_tensor({4, 13}, 2), Boundary::zero, BlurMethod::fft, 2));
  ops.push_back(blur(random_tensor({21, 2}, 3), Boundary::zero, BlurMethod::fft, 1));
  Reach reach;
  std::vector<const LocalOperator*> group;
  LocalOperator::Placement placement{ImageSpace(image, 2), {}, {}, at::TensorOptions(at::kDouble)};
  for (const auto& op : ops) {
    reach = reach.max(op->reach());
    group.push_back(op.get());
    placement.samples.push_back(op->measurement(image));
  }
  placement.input = image.grow(reach);
  EXPECT_TRUE(ops[0]->shares_with(*ops[1]));
  const auto bank = ops[0]->place(group, placement);
  const at::Tensor in = random_tensor({2, placement.input.extent(1), placement.input.extent(2)}, 7);
  std::vector<at::Tensor> y, alone;
  at::Tensor back = at::zeros(in.sizes(), at::kDouble), back_alone = at::zeros(in.sizes(), at::kDouble);
  for (const Box& s : placement.samples) y.push_back(at::empty({2, s.extent(1), s.extent(2)}, at::kDouble));
  for (const auto& t : y) alone.push_back(at::empty_like(t));
  bank->apply(in, y);
  bank->adjoint(y, back);
  for (std::size_t i = 0; i < ops.size(); ++i) {
    LocalOperator::Placement one = placement;
    one.samples = {placement.samples[i]};
    const auto placed = ops[i]->place({&group[i], 1}, one);
    placed->apply(in, {&alone[i], 1});
    EXPECT_LT(difference(y[i], alone[i]), 1e-12) << i;
    placed->adjoint({&alone[i], 1}, back_alone);
  }
  EXPECT_LT(difference(back, back_alone), 1e-12);
}

// What a device computes, on the host: batches that divide the tiles and some that do not, the last ones
// smaller, tiles that overlap more than their neighbors.
TEST(Blur, TilesInBatchesEqualTilesInTurn) {
  const Box image = Box::image2d(601, 533);
  for (const Index2& taps : {Index2{60, 41}, Index2{150, 9}})
    for (const std::int64_t factor : {1, 3}) {
      const auto op = blur(random_tensor({taps[0], taps[1]}, 1), Boundary::circular, BlurMethod::fft, factor);
      const BankFilter filter{random_tensor({2, taps[0], taps[1]}, 1), {taps[0] / 2, 3}, op->anchor()};
      const Box samples = op->measurement(image);
      const Reach reach{{0, taps[0] - 1 - taps[0] / 2, taps[1] - 4}, {0, taps[0] / 2, 3}};
      const LocalOperator::Placement placement{
          ImageSpace(image, 2), image.grow(reach), {samples}, at::TensorOptions(at::kDouble)};
      const at::Tensor x = random_tensor({2, placement.input.extent(1), placement.input.extent(2)}, 7);
      std::vector<at::Tensor> y, back;
      for (const Index2& batch : {Index2{1, 1}, Index2{1, 2}, Index2{2, 3}, Index2{100, 100}}) {
        OverlapSave placed({filter}, placement,
                           {std::min<std::int64_t>(batch[0], 9), std::min<std::int64_t>(batch[1], 9)});
        y.push_back(at::empty({2, samples.extent(1), samples.extent(2)}, at::kDouble));
        placed.apply(x, {&y.back(), 1});
        back.push_back(at::zeros(x.sizes(), at::kDouble));
        placed.adjoint({&y.front(), 1}, back.back());
        EXPECT_LT(difference(y.back(), y.front()), 1e-13) << batch[0] << ' ' << batch[1];
        EXPECT_LT(difference(back.back(), back.front()), 1e-13) << batch[0] << ' ' << batch[1];
      }
    }
}

// Each batch is some 15 calls of a device, 5 microseconds of the host each.
TEST(Blur, ADeviceTakesManyTilesAtOnce) {
  for (const std::int64_t side : {512, 2048, 4096, 16384})
    for (const std::int64_t overlap : {4, 16, 64}) {
      const TilePlan plan = choose_tiles({side, side}, {overlap, overlap});
      EXPECT_EQ(choose_batch(plan, side * side, false), (Index2{1, 1}));
      const Index2 batch = choose_batch(plan, side * side, true);
      const std::int64_t calls =
          ((plan.count[0] + batch[0] - 1) / batch[0]) * ((plan.count[1] + batch[1] - 1) / batch[1]);
      EXPECT_LE(calls, 12) << side << " with " << overlap << ": " << plan.count[0] * plan.count[1]
                           << " tiles";
      EXPECT_LE(4 * batch[0] * batch[1] * plan.side[0] * plan.side[1],
                std::max(side * side, 4 * plan.side[0] * plan.side[1]));
    }
}

TEST(Blur, TilesCoverTheOutputsOnce) {
  for (const std::int64_t extent : {1, 63, 500, 2048, 5000})
    for (const std::int64_t overlap : {0, 8, 138, 600}) {
      const TilePlan plan = choose_tiles({extent, 777}, {overlap, overlap});
      EXPECT_GE(plan.core[0] * plan.count[0], extent);
      EXPECT_LT(plan.core[0] * (plan.count[0] - 1), extent);
      EXPECT_GE(plan.side[0], plan.core[0] + overlap);
    }
}

TEST(Blur, OneKernelPerChannelIsEachKernelOnItsChannel) {
  for (const Boundary boundary : {Boundary::circular, Boundary::valid})
    for (const std::int64_t factor : {1, 2, 3})
      for (const BlurMethod method : {BlurMethod::direct, BlurMethod::fft}) {
        SCOPED_TRACE(testing::Message() << "factor " << factor << " method " << static_cast<int>(method));
        const at::Tensor taps = random_tensor({3, 4, 5}, 1), x = random_tensor({3, 17, 22}, 2);
        const Box image = Box::image2d(17, 22);
        const Whole all(blur(taps, boundary, method, factor), image, 3, at::kDouble);
        EXPECT_EQ(all.op->channels(3), 3);
        EXPECT_THROW(all.op->channels(1), InputError);
        const at::Tensor in = extend(x, all.input, all.op->border()), y = all.apply(in);
        const at::Tensor v = random_tensor(y.sizes(), 3);
        at::Tensor back = at::zeros(in.sizes(), at::kDouble);
        all.placed->adjoint({&v, 1}, back);
        for (std::int64_t c = 0; c < 3; ++c) {
          const Whole one(blur(taps[c], boundary, method, factor), image, 1, at::kDouble);
          EXPECT_LT(difference(y.slice(0, c, c + 1), one.apply(in.slice(0, c, c + 1))), 1e-12);
          const at::Tensor part = v.slice(0, c, c + 1).contiguous();
          at::Tensor alone = at::zeros({1, in.size(1), in.size(2)}, at::kDouble);
          one.placed->adjoint({&part, 1}, alone);
          EXPECT_LT(difference(back.slice(0, c, c + 1), alone), 1e-12);
        }
      }
}

TEST(Blur, PhaseSaysWhichSamplesAreKept) {
  // A single tap of 2: every second pixel of a row from the second on, doubled.
  at::Tensor x = at::zeros({1, 1, 6}, at::kDouble);
  for (std::int64_t j = 0; j < 6; ++j) x[0][0][j] = static_cast<double>(j);
  BlurOptions options;
  options.kernel = at::zeros({1, 1}, at::kDouble).add(2);
  options.factor = 2;
  options.phase = {0, 1};
  const Whole w(make_blur(options), Box::image2d(1, 6), 1, at::kDouble);
  const at::Tensor y = w.apply(x);
  ASSERT_EQ(y.numel(), 3);
  for (std::int64_t k = 0; k < 3; ++k)
    EXPECT_EQ(y[0][0][k].item<double>(), static_cast<double>(2 * (2 * k + 1)));

  // Any phase is the plain blur, sampled from there.
  for (const Boundary boundary : {Boundary::reflect, Boundary::valid})
    for (const BlurMethod method : {BlurMethod::direct, BlurMethod::fft}) {
      BlurOptions some;
      some.kernel = random_tensor({4, 3}, 1);
      some.boundary = boundary;
      some.method = method;
      const Box image = Box::image2d(19, 14);
      const at::Tensor picture = random_tensor({2, 19, 14}, 2);
      const Whole plain(make_blur(some), image, 2, at::kDouble);
      const at::Tensor all = plain.apply(extend(picture, plain.input, plain.op->border()));
      some.factor = 3;
      some.phase = {2, 1};
      const Whole coarse(make_blur(some), image, 2, at::kDouble);
      const at::Tensor got = coarse.apply(extend(picture, coarse.input, coarse.op->border()));
      const at::Tensor expected = all.slice(1, 2, std::nullopt, 3).slice(2, 1, std::nullopt, 3);
      ASSERT_EQ(got.sizes(), expected.sizes());
      EXPECT_LT(difference(got, expected), 1e-12);
    }
  options.phase = {0, 2};
  EXPECT_THROW(make_blur(options), InputError);
}

// Binned pixels: each sample the mean of factor x factor of them, whichever tap is the kernel's center.
TEST(Blur, TheBinningPhaseLetsTheFirstSampleSeeTheFirstPixels) {
  for (const std::int64_t f : {2, 3, 4, 5})
    for (std::int64_t center = 0; center <= f; ++center) {
      BlurOptions o;
      o.kernel = at::zeros({f, f}, at::kDouble).add(1.0 / static_cast<double>(f * f));
      o.factor = f;
      o.boundary = Boundary::zero;
      if (center < f) o.origin = {center, f - 1 - center};  // else the default
      const auto bins_of = [](const BlurOptions& options) {
        const Index3 p = binning_phase(*make_blur(options));
        return std::array<std::int64_t, 2>{p[1], p[2]};
      };
      o.phase = bins_of(o);
      const std::int64_t side = 4 * f;
      const Whole w(make_blur(o), Box::image2d(side, side), 1, at::kDouble);
      const at::Tensor x = random_tensor({1, side, side}, 3);
      const at::Tensor bins = x.reshape({1, 4, f, 4, f}).mean({2, 4});
      EXPECT_LT(difference(w.apply(extend(x, w.input, w.op->border())), bins), 1e-12) << f << ' ' << center;
      EXPECT_EQ(w.op->anchor().offset[1], before_bins(*w.op->convolution())[1]);
      o.boundary = Boundary::valid;
      o.phase = bins_of(o);
      const Whole v(make_blur(o), Box::image2d(side, side), 1, at::kDouble);
      EXPECT_LT(difference(v.apply(extend(x, v.input, v.op->border())), bins), 1e-12) << f << ' ' << center;
      EXPECT_EQ(v.op->anchor().offset[2], before_bins(*v.op->convolution())[2]);
    }
  // Samples that see more than their pixels stand where they did, and so does a single tap in a wide frame.
  BlurOptions wide;
  wide.kernel = at::ones({4, 3}, at::kDouble);
  wide.factor = 3;
  EXPECT_EQ(binning_phase(*make_blur(wide)), Index3{});
  wide.kernel = at::zeros({5, 5}, at::kDouble);
  wide.kernel[2][2] = 1;
  EXPECT_EQ(binning_phase(*make_blur(wide)), Index3{});
}

TEST(Blur, GaussianKernelHasTheStatedSideSumAndTurn) {
  const at::Tensor k = gaussian_kernel({1.6, 1.6});
  EXPECT_EQ(k.size(0), 2 * static_cast<std::int64_t>(1.6 / 0.3 + 1) + 1);
  EXPECT_NEAR(k.sum().item<double>(), 1.0, 1e-14);
  EXPECT_NEAR((k[6][7] / k[6][6]).item<double>(), std::exp(-1 / (2 * 1.6 * 1.6)), 1e-14);
  // 90 degrees exchange rows and columns.
  EXPECT_LT(difference(gaussian_kernel({3, 1}, 90), gaussian_kernel({3, 1}).transpose(0, 1)), 1e-14);
  // 45 degrees: the long axis (rows) turns onto one diagonal and leaves the other.
  const at::Tensor turned = gaussian_kernel({3, 1}, 45);
  const std::int64_t c = turned.size(0) / 2;
  const double down_right = turned[c + 2][c + 2].item<double>(),
               down_left = turned[c + 2][c - 2].item<double>();
  EXPECT_NEAR(std::log(down_right / down_left), 8.0 / 2 - 8.0 / 18, 1e-12);
}

TEST(Blur, RefusesWhatCannotBe) {
  EXPECT_THROW(blur(at::zeros({3}, at::kDouble), Boundary::zero, BlurMethod::direct, 1), InputError);
  EXPECT_THROW(blur(at::zeros({1, 3, 3, 3}, at::kDouble), Boundary::zero, BlurMethod::direct, 1), InputError);
  EXPECT_THROW(blur(at::zeros({3, 3}, at::kDouble), Boundary::zero, BlurMethod::direct, 0), InputError);
  EXPECT_THROW(blur(at::zeros({9, 3}, at::kDouble), Boundary::valid, BlurMethod::direct, 1)
                   ->measurement(Box::image2d(8, 8)),
               InputError);
  EXPECT_THROW(parse_boundary("cirular"), InputError);
  EXPECT_THROW(gaussian_kernel({0, 1}), InputError);
  BlurOptions off;
  off.kernel = at::zeros({3, 3}, at::kDouble);
  off.origin = {{3, 0}};
  EXPECT_THROW(make_blur(off), InputError);
}

}  // namespace
}  // namespace tessera
