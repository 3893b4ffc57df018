// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/domain/distributed_operator.hpp"

#include <ATen/ops/linalg_svdvals.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "domain/operators.hpp"
#include "support/once.hpp"
#include "tessera/core/phase.hpp"
#include "tessera/domain/operator_plan.hpp"

namespace tessera {
namespace {

using test::blur;
using test::cut;
using test::on_groups;
using test::part_of;
using test::parts_of;
using test::place;
using test::random_tensor;
using test::Stack;
using test::worst;

struct Case {
  std::string name;
  Box image;
  std::function<Stack()> parts;
};

std::vector<Case> cases() {
  std::vector<Case> list;
  for (const Boundary b :
       {Boundary::circular, Boundary::reflect, Boundary::replicate, Boundary::zero, Boundary::valid})
    for (const std::int64_t factor : {1, 3})
      for (const BlurMethod method : {BlurMethod::direct, BlurMethod::fft}) {
        list.push_back({concat("blur boundary ", static_cast<int>(b), " factor ", factor, " method ",
                               static_cast<int>(method)),
                        Box::image2d(31, 22), [=] {
                          Stack s;
                          s.push_back(blur(random_tensor({6, 9}, 1), b, factor, method));
                          return s;
                        }});
        if (b != Boundary::valid)  // an image smaller than the reach
          list.push_back(
              {concat("tiny, boundary ", static_cast<int>(b), " factor ", factor), Box::image2d(5, 3), [=] {
                 Stack s;
                 s.push_back(blur(random_tensor({13, 8}, 2), b, factor, method));
                 return s;
               }});
      }
  list.push_back({"stack of everything", Box::image2d(29, 37), [] {
                    Stack s;
                    s.push_back(make_identity());
                    s.push_back(blur(random_tensor({7, 7}, 3), Boundary::circular, 1, BlurMethod::fft));
                    s.push_back(make_random_mask(0.5, 1));
                    s.push_back(blur(random_tensor({3, 4}, 4), Boundary::valid));
                    s.push_back(blur(random_tensor({11, 5}, 5), Boundary::circular, 2, BlurMethod::fft));
                    return s;
                  }});
  // Volumes: thinner than the ranks along one axis, smaller than the reach, masked.
  for (const Boundary b :
       {Boundary::circular, Boundary::reflect, Boundary::replicate, Boundary::zero, Boundary::valid})
    for (const Box& image : {Box({0, 0, 0}, {11, 9, 13}), Box({0, 0, 0}, {7, 8, 5})}) {
      list.push_back({concat("volume, boundary ", static_cast<int>(b)), image, [=] {
                        Stack s;
                        s.push_back(make_gaussian_blur({0.5, 0.8, 0.3}, b));
                        s.push_back(make_random_mask(0.5, 1));
                        s.push_back(make_identity());
                        return s;
                      }});
    }
  list.push_back({"volume, taps that are not symmetric", Box({0, 0, 0}, {6, 4, 5}), [] {
                    Stack s;
                    SeparableKernel kernel;
                    kernel.taps = {{{1, -2, 3}, {0.5, 4}, {-1, 1}}};
                    kernel.origin = {0, 1, 0};
                    s.push_back(make_separable_blur(kernel, Boundary::replicate));
                    return s;
                  }});
  return list;
}

TEST(LocalStack, ASeparableKernelIsTheProductOfItsTaps) {
  // On pictures, where the same kernel is a matrix.
  SeparableKernel lines;
  lines.taps = {{{1}, {1, -2, 3}, {0.5, 4}}};
  lines.origin = {0, 2, 0};
  const at::Tensor down = at::tensor({1.0, -2.0, 3.0}, at::kDouble),
                   right = at::tensor({0.5, 4.0}, at::kDouble);
  BlurOptions whole;
  whole.kernel = down.unsqueeze(1) * right.unsqueeze(0);
  whole.origin = std::array<std::int64_t, 2>{2, 0};
  const Box image = Box::image2d(9, 12);
  for (const Boundary b : {Boundary::circular, Boundary::reflect, Boundary::zero, Boundary::valid}) {
    whole.boundary = b;
    Stack one, other;
    one.push_back(make_separable_blur(lines, b));
    other.push_back(make_blur(whole));
    const auto A = place(one, cut(image, 1), 1, Communicator()),
               B = place(other, cut(image, 1), 1, Communicator());
    ASSERT_EQ(A->range().part(0).box(), B->range().part(0).box());
    Measurement y = A->make_measurement(), want = B->make_measurement();
    const at::Tensor x = random_tensor({1, 9, 12}, 3);
    A->apply(x, y);
    B->apply(x, want);
    EXPECT_LT((y[0] - want[0]).abs().max().item<double>(), 1e-12);
  }
}

TEST(LocalStack, EqualsOneRankAndPassesTheDotTestOnAnyRanks) {
  const Communicator self;
  for (const Case& c : cases()) {
    const auto one = place(c.parts(), cut(c.image, 1), 2, self);
    const at::Tensor x = random_tensor(one->make_image().sizes(), 7);
    Measurement y1 = one->make_measurement(), v;
    one->apply(x, y1);
    for (const at::Tensor& t : y1) v.push_back(random_tensor(t.sizes(), 8));
    at::Tensor back1 = one->make_image();
    one->adjoint(v, back1);
    on_groups([&](const Communicator& comm) {
      SCOPED_TRACE(c.name);
      const Decomposition d = cut(c.image, comm.size());
      const auto A = place(c.parts(), d, 2, comm);
      const at::Tensor mine = part_of(x, c.image, d.block(comm.rank()));
      Measurement y = A->make_measurement();
      A->apply(mine, y);
      const Measurement expected = parts_of(y1, A->range(), comm.rank());
      for (std::size_t i = 0; i < y.size(); ++i) EXPECT_LT(worst(comm, y[i], expected[i], y1[i]), 1e-12);
      const Measurement w = parts_of(v, A->range(), comm.rank());
      at::Tensor back = A->make_image();
      A->adjoint(w, back);
      EXPECT_LT(worst(comm, back, part_of(back1, c.image, d.block(comm.rank())), back1), 1e-12);
      std::vector<double> sums(2);
      for (std::size_t i = 0; i < y.size(); ++i) sums[0] += test::scalar_product(y[i], w[i]);
      sums[1] = test::scalar_product(mine, back);
      comm.all_reduce(sums, Reduce::sum);
      EXPECT_NEAR(sums[0], sums[1], 1e-10 * (1 + std::abs(sums[0])));
    });
  }
}

TEST(LocalStack, CountsTheBytesItSends) {
  on_groups([](const Communicator& comm) {
    Stack parts;
    parts.push_back(blur(random_tensor({9, 9}, 1), Boundary::circular, 1, BlurMethod::fft));
    parts.push_back(blur(random_tensor({5, 5}, 1), Boundary::reflect));
    const auto A = place(parts, cut(Box::image2d(40, 33), comm.size()), 3, comm, at::kFloat);
    at::Tensor x = at::ones(A->make_image().sizes(), A->options());
    Measurement y = A->make_measurement();
    take_phases();
    A->apply(x, y);
    A->adjoint(y, x);
    std::int64_t sent = 0;
    for (const PhaseRecord& r : take_phases()) sent += r.bytes_sent;
    EXPECT_EQ(sent, A->bytes_sent());
    EXPECT_EQ(sent > 0, comm.size() > 1);
  });
}

TEST(LocalStack, OneRankThatOwnsAllThatItSeesExchangesNothing) {
  const auto plans = [](Boundary boundary, int ranks) {
    Stack parts;
    parts.push_back(blur(random_tensor({5, 7}, 1), boundary));
    const Decomposition d = cut(Box::image2d(40, 33), ranks);
    return plan_local_stack(std::move(parts))->exchanges(ProductSpace(ImageSpace(d.image()), d), 0).size();
  };
  EXPECT_EQ(plans(Boundary::valid, 1), 0);
  EXPECT_EQ(plans(Boundary::valid, 2), 1);
  EXPECT_EQ(plans(Boundary::circular, 1), 1);  // its halo is its own other end
}

// A kernel whose farthest tap alone is 1 shifts the image by its reach: one pixel less of halo cannot do it.
class ShortReach final : public LocalOperator {
 public:
  ShortReach(std::unique_ptr<LocalOperator> whole, bool lo) : whole_(std::move(whole)), lo_(lo) {}
  std::string name() const override { return "short"; }
  Reach reach() const override {
    Reach r = whole_->reach();
    for (const std::size_t d : {1, 2}) --(lo_ ? r.lo : r.hi)[d];
    return r;
  }
  Border border() const override { return whole_->border(); }
  std::unique_ptr<PlacedOperator> place(std::span<const LocalOperator* const>,
                                        const Placement& p) const override {
    const LocalOperator* self = whole_.get();
    return whole_->place({&self, 1}, p);
  }

 private:
  std::unique_ptr<LocalOperator> whole_;
  bool lo_;
};

TEST(LocalStack, FarthestTapNeedsTheWholeReach) {
  const Box image = Box::image2d(26, 31);
  const at::Tensor x = random_tensor({1, 26, 31}, 3);
  on_groups([&](const Communicator& comm) {
    const Decomposition d = cut(image, comm.size());
    const Box block = d.block(comm.rank());
    for (const bool lo : {true, false}) {
      at::Tensor taps = at::zeros({7, 7}, at::kDouble);
      taps[lo ? 6 : 0][lo ? 6 : 0] = 1.0;  // y[i] = x[i - 3] or x[i + 3]
      const std::int64_t by = lo ? 3 : -3;
      const at::Tensor expected = part_of(x.roll({by, by}, {1, 2}), image, block);
      Stack right, wrong;
      right.push_back(blur(taps, Boundary::circular, 1, BlurMethod::fft));
      wrong.push_back(std::make_unique<ShortReach>(blur(taps, Boundary::circular, 1, BlurMethod::fft), lo));
      const at::Tensor mine = part_of(x, image, block);
      const auto A = place(right, d, 1, comm), B = place(wrong, d, 1, comm);
      Measurement y = A->make_measurement(), z = B->make_measurement();
      A->apply(mine, y);
      EXPECT_LT(worst(comm, y[0], expected, x), 1e-12);
      B->apply(mine, z);
      EXPECT_GT(worst(comm, z[0], expected, x), 1e-3);
    }
  });
}

// |A|^2 from the matrix of A.
double dense_norm_squared(const Stack& parts, const Box& image) {
  const Communicator self;
  const auto A = place(parts, cut(image, 1), 1, self);
  at::Tensor matrix = at::zeros({image.pixels(), A->range().values()}, at::kDouble);
  Measurement y = A->make_measurement();
  for (std::int64_t i = 0; i < image.pixels(); ++i) {
    at::Tensor x = at::zeros({1, image.extent(1), image.extent(2)}, at::kDouble);
    x.view({-1})[i] = 1.0;
    A->apply(x, y);
    std::int64_t at = 0;
    for (const at::Tensor& t : y) {
      matrix[i].slice(0, at, at + t.numel()).copy_(t.flatten());
      at += t.numel();
    }
  }
  const double s = at::linalg_svdvals(matrix)[0].item<double>();
  return s * s;
}

TEST(OperatorNorm, EqualsTheLargestSingularValueOnAnyRanks) {
  const Box image = Box::image2d(12, 9);
  std::vector<std::pair<std::function<Stack()>, bool>> problems;  // operator, closed form
  const auto single = [](auto make) {
    return [make] {
      Stack s;
      s.push_back(make());
      return s;
    };
  };
  problems.emplace_back(single([] { return make_identity(); }), true);
  problems.emplace_back(single([] { return make_random_mask(0.5, 3); }), true);
  problems.emplace_back(single([] { return blur(random_tensor({5, 4}, 1), Boundary::circular); }), true);
  problems.emplace_back(single([] { return blur(random_tensor({17, 13}, 1), Boundary::circular); }), true);
  problems.emplace_back(single([] { return blur(random_tensor({5, 4}, 1), Boundary::circular, 3); }), true);
  problems.emplace_back(single([] { return blur(random_tensor({5, 4}, 1), Boundary::circular, 2); }), false);
  problems.emplace_back(single([] { return blur(random_tensor({5, 4}, 1), Boundary::reflect); }), false);
  problems.emplace_back(single([] {
                          return blur(random_tensor({5, 4}, 1) + 0.5, Boundary::replicate);
                        }),
                        false);
  problems.emplace_back(single([] { return blur(random_tensor({5, 4}, 1) + 0.5, Boundary::valid); }), false);
  problems.emplace_back(
      [] {
        Stack s;
        s.push_back(make_identity());
        s.push_back(blur(random_tensor({3, 3}, 1), Boundary::circular));
        s.push_back(blur(random_tensor({6, 2}, 2), Boundary::circular));
        return s;
      },
      true);
  for (std::size_t n = 0; n < problems.size(); ++n) {
    const auto dense = [&] {
      return at::scalar_tensor(dense_norm_squared(problems[n].first(), image), at::kDouble);
    };
    const double expected = test::once(dense).item<double>();
    on_groups([&](const Communicator& comm) {
      SCOPED_TRACE(n);
      const auto A = place(problems[n].first(), cut(image, comm.size()), 1, comm);
      const Space space(comm, nullptr);
      EXPECT_EQ(A->norm_squared().has_value(), problems[n].second);
      const double norm = operator_norm_squared(*A, space, 0);
      if (problems[n].second) {
        EXPECT_NEAR(norm, expected, 1e-12 * expected);
      } else {
        EXPECT_GT(norm, 0.999 * expected);
        EXPECT_LT(norm, 1.03 * expected);
      }
    });
  }
}

TEST(ProductSpace, EverySampleHasOneOwner) {
  if (test::other_rank()) return;
  Stack parts;
  parts.push_back(blur(random_tensor({5, 4}, 1), Boundary::valid, 3));
  for (const int ranks : {1, 2, 6, 35, 500}) {
    const Decomposition d = cut(Box::image2d(40, 31), ranks, 4);
    const ProductSpace image(ImageSpace(d.image()), d), layout({anchored_part(image.part(0), *parts[0])});
    EXPECT_EQ(layout.part(0).box(), Box::image2d(12, 10));
    std::int64_t samples = 0;
    for (int r = 0; r < ranks; ++r) {
      samples += layout.block(0, r).pixels();
      for (int s = 0; s < r; ++s) EXPECT_TRUE(layout.block(0, r).intersect(layout.block(0, s)).empty());
    }
    EXPECT_EQ(samples, layout.part(0).box().pixels());
  }
}

TEST(ProductSpace, ADetectorsSamplesAreDealtEvenly) {
  if (test::other_rank()) return;
  for (const Box& samples :
       {Box({0, 0, 0}, {1, 70, 1}), Box({0, 0, 0}, {180, 4, 96}), Box({0, 0, 0}, {1, 1, 3})})
    for (const int ranks : {1, 2, 7, 500}) {
      const ProductSpace layout({{"cells", ImageSpace(samples), even_layout(samples, ranks)}});
      std::int64_t sum = 0, most = 0;
      for (int r = 0; r < ranks; ++r) {
        sum += layout.block(0, r).pixels();
        most = std::max(most, layout.block(0, r).pixels());
        for (int s = 0; s < r; ++s) EXPECT_TRUE(layout.block(0, r).intersect(layout.block(0, s)).empty());
      }
      EXPECT_EQ(sum, samples.pixels());
      const std::int64_t longest = std::max({samples.extent(0), samples.extent(1), samples.extent(2)});
      EXPECT_LE(most, samples.pixels() / longest * ((longest + ranks - 1) / ranks));
    }
}

}  // namespace
}  // namespace tessera
