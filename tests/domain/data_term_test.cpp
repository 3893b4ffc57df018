// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/domain/data_term.hpp"

#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/view_as_real.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "domain/operators.hpp"
#include "support/once.hpp"
#include "tessera/core/error.hpp"
#include "tessera/domain/fourier.hpp"
#include "tessera/physics/noise.hpp"

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

Stack two_blurs(Boundary boundary) {
  Stack s;
  s.push_back(blur(gaussian_kernel({1.5, 0.7}, 20), boundary));
  s.push_back(blur(gaussian_kernel({0.6, 1.2}, 0), boundary));
  return s;
}

// A problem on a group of ranks, cut from data that every rank knows whole.
struct Problem {
  Decomposition cut;
  std::shared_ptr<DistributedOperator> A;
  Reducer reducer;
  Space space;
  at::Tensor x, z;  // this rank's

  Problem(const Stack& parts, const Box& image, const Communicator& comm, at::ScalarType type = at::kDouble)
      : cut(test::cut(image, comm.size())),
        A(place(parts, cut, 2, comm, type)),
        reducer(comm),
        space(comm, &reducer),
        x(whole(image, 1, comm).to(type)),
        z(whole(image, 2, comm).to(type)) {}
  at::Tensor whole(const Box& image, std::uint64_t seed, const Communicator& comm) const {
    return part_of(random_tensor({2, image.extent(1), image.extent(2)}, seed), image, cut.block(comm.rank()));
  }
  Measurement measurement(std::uint64_t seed) const {
    Measurement y;
    for (std::size_t i = 0; i < A->range().parts(); ++i) {
      const Box& box = A->range().part(i).box();
      y.push_back(random_tensor({2, box.extent(1), box.extent(2)}, seed + i).to(A->options()));
    }
    return parts_of(y, A->range(), A->comm().rank());
  }
  std::unique_ptr<DataTerm> term(Measurement weights = {}, double tolerance = 1e-12) {
    return make_least_squares({A, measurement(10), std::move(weights), 0, {500, tolerance}, 0}, space);
  }
  // gamma grad f(u) + u - z: zero at the proximal point.
  double optimality(DataTerm& f, const at::Tensor& u, double gamma) const {
    at::Tensor g = A->make_image();
    f.gradient(u, g);
    const at::Tensor r = g * gamma + u - z;
    return space.norm(r) / space.norm(z);
  }
};

const Box kImage = Box::image2d(23, 18);

TEST(DataTerm, GradientIsTheDerivativeOfTheValue) {
  on_groups([](const Communicator& comm) {
    Problem p(two_blurs(Boundary::reflect), kImage, comm);
    Measurement w = p.measurement(30);
    for (at::Tensor& t : w) t = t + 0.5;
    const auto f = p.term(w);
    at::Tensor g = p.A->make_image();
    f->gradient(p.x, g);
    p.reducer.launch();
    p.reducer.finish();
    EXPECT_NEAR(f->objective().value(), f->value(p.x), 1e-10 * f->value(p.x));
    EXPECT_NEAR(f->chi2().value(), 2 * f->value(p.x) / static_cast<double>(p.A->range().values()), 1e-12);
    // f is quadratic: the central difference is exact.
    const double h = 0.5, slope = (f->value(p.x + p.z * h) - f->value(p.x - p.z * h)) / (2 * h);
    EXPECT_NEAR(slope, p.space.dot(g, p.z), 1e-10 * (1 + std::abs(slope)));
  });
}

TEST(DataTerm, SamplesThatAreNotFiniteCountNothing) {
  on_groups([](const Communicator& comm) {
    Stack parts;
    parts.push_back(make_identity());
    Problem p(parts, kImage, comm);
    Measurement y = p.measurement(10), w(1);
    w[0] = at::ones_like(y[0]);
    const Box block = p.cut.block(comm.rank());
    const bool mine = block.contains(Box({0, 3, 4}, {1, 4, 5}));
    const double nan = std::numeric_limits<double>::quiet_NaN();
    if (mine) {
      y[0][0][3 - block.lo()[1]][4 - block.lo()[2]] = nan;
      w[0][1][3 - block.lo()[1]][4 - block.lo()[2]] = nan;
    }
    const auto f = make_least_squares({p.A, y, w, 0.5, {}, 0}, p.space);
    at::Tensor g = p.A->make_image();
    f->gradient(at::ones_like(g), g);
    p.reducer.launch();
    p.reducer.finish();
    EXPECT_TRUE(g.isfinite().all().item<bool>());
    for (int c = 0; mine && c < 2; ++c)
      EXPECT_EQ(g[c][3 - block.lo()[1]][4 - block.lo()[2]].item<double>(), 0);
    const double samples = static_cast<double>(2 * kImage.pixels() - 2);
    EXPECT_NEAR(f->chi2().value(), 2 * f->objective().value() / samples / 0.25, 1e-10);
    EXPECT_EQ(f->lipschitz(), 1);
  });
}

// Clipped samples pull from one side: the gradient is that of a value without what lies beyond, and proximal points from
// their own results end where the gradient of all is 0.
TEST(DataTerm, ClippedSamplesAreBoundsFromOneSide) {
  on_groups([](const Communicator& comm) {
    for (const Boundary boundary : {Boundary::circular, Boundary::valid}) {
      Problem p(two_blurs(boundary), kImage, comm);
      const Measurement y = p.measurement(10);
      Measurement ends;
      for (const at::Tensor& t : y) ends.push_back(t.lt(-0.3).to(t.options()) - t.gt(0.5).to(t.options()));
      const auto f = make_least_squares({p.A, y, {}, 0, {500, 1e-12}, 0, ends}, p.space);
      Measurement residual = p.A->make_measurement();
      p.A->apply(p.x, residual);
      double value = 0;
      for (std::size_t i = 0; i < y.size(); ++i) {
        at::Tensor r = residual[i] - y[i];
        r = r.masked_fill(r.mul(ends[i]).gt(0), 0);
        value += 0.5 * r.square().sum().item<double>();
      }
      comm.all_reduce({&value, 1}, Reduce::sum);
      EXPECT_NEAR(f->value(p.x), value, 1e-10 * value);
      EXPECT_LT(value, 0.95 * p.term()->value(p.x)) << "the fixture has samples beyond their ends";
      at::Tensor g = p.A->make_image();
      f->gradient(p.x, g);
      p.reducer.launch();
      p.reducer.finish();
      const double h = 1e-5, slope = (f->value(p.x + p.z * h) - f->value(p.x - p.z * h)) / (2 * h);
      EXPECT_NEAR(slope, p.space.dot(g, p.z), 1e-4 * (1 + std::abs(slope)));
      at::Tensor u = p.z.clone(), next = p.A->make_image();
      for (int k = 0; k < 60; ++k) {
        f->prox(u, 300.0, next);
        u.copy_(next);
      }
      f->gradient(u, g);
      p.reducer.launch();
      p.reducer.finish();
      EXPECT_LT(p.space.norm(g), 0.02 * p.space.norm(p.x)) << "iterations have come to rest at a minimizer";
    }
  });
}

TEST(DataTerm, RefusesBadWeightsOnAllRanks) {
  on_groups([](const Communicator& comm) {
    Problem p(two_blurs(Boundary::zero), kImage, comm);
    Measurement w = p.measurement(10);
    for (at::Tensor& t : w) t = at::ones_like(t);
    if (comm.rank() == 0) w[1].fill_(-1);
    EXPECT_THROW(p.term(w), InputError);
  });
}

TEST(DataTerm, ProxIsOptimalInEveryForm) {
  on_groups([](const Communicator& comm) {
    for (const double gamma : {0.1, 30.0}) {
      Stack mask;
      mask.push_back(make_random_mask(0.4, 1));
      mask.push_back(make_identity());
      for (int form = 0; form < 4; ++form) {
        SCOPED_TRACE(testing::Message() << "gamma " << gamma << " form " << form);
        const Stack blurs = two_blurs(form == 2 ? Boundary::circular : Boundary::zero);
        Problem p(form < 2 ? mask : blurs, kImage, comm);
        Measurement w;
        if (form == 1) {
          w = p.measurement(30);
          for (at::Tensor& t : w) t = t + 0.5;
        }
        const auto f = p.term(w);
        at::Tensor u = p.A->make_image();
        f->prox(p.z, gamma, u);
        f->measure(u);
        p.reducer.launch();
        p.reducer.finish();
        EXPECT_NEAR(f->objective().value(), f->value(u), 1e-9 * (1 + f->value(u)));
        EXPECT_LT(p.optimality(*f, u, gamma), 1e-10);
      }
    }
  });
}

TEST(DataTerm, FourierProxEqualsConjugateGradientsAndOneRank) {
  const Communicator self;
  Problem one(two_blurs(Boundary::circular), kImage, self);
  at::Tensor reference = one.A->make_image();
  one.term()->prox(one.z, 3.0, reference);
  on_groups([&](const Communicator& comm) {
    Problem p(two_blurs(Boundary::circular), kImage, comm);
    const at::Tensor expected = part_of(reference, kImage, p.cut.block(comm.rank()));
    at::Tensor u = p.A->make_image(), by_cg = p.A->make_image();
    p.term()->prox(p.z, 3.0, u);
    EXPECT_LT(worst(comm, u, expected, reference), 1e-12);
    Measurement ones = p.A->make_measurement();  // weights turn the closed form off
    for (at::Tensor& t : ones) t.fill_(1);
    p.term(ones)->prox(p.z, 3.0, by_cg);
    EXPECT_LT(worst(comm, by_cg, expected, reference), 1e-10);
    Problem single(two_blurs(Boundary::circular), kImage, comm, at::kFloat);
    at::Tensor v = single.A->make_image();
    single.term()->prox(single.z, 3.0, v);
    EXPECT_LT(worst(comm, v.to(at::kDouble), expected, reference), 2e-6);
  });
}

TEST(DataTerm, LipschitzConstantOfWeightedDataBoundsTheCurvature) {
  on_groups([](const Communicator& comm) {
    Problem p(two_blurs(Boundary::circular), kImage, comm);
    EXPECT_NEAR(p.term()->lipschitz(), 2.0, 1e-12);  // two kernels of sum 1 meet at frequency 0
    Measurement w = p.A->make_measurement();
    for (at::Tensor& t : w) t.fill_(0.25);
    EXPECT_NEAR(p.term(w)->lipschitz(), 0.5, 1e-3);
  });
}

// A power iteration that waits for little change stops at the background's 1 here.
TEST(DataTerm, LipschitzConstantOfUnevenWeightsIsNotBelowTheTruth) {
  const Box image = Box::image2d(200, 160), patch({0, 30, 70}, {1, 54, 94});
  at::Tensor uneven = at::ones({2, 200, 160}, at::kDouble), scattered = random_tensor({2, 200, 160}, 9);
  uneven.slice(1, 30, 54).slice(2, 70, 94).fill_(1.6);
  scattered = scattered.gt(0.45).to(at::kDouble).mul(5).add(0.1);
  const at::Tensor lopsided = random_tensor({5, 4}, 3) + 0.3;  // some taps below zero
  for (int form = 0; form < 4; ++form) {
    const at::Tensor taps = form == 3 ? lopsided / lopsided.sum() : gaussian_kernel({1.6, 1.6});
    const auto parts = [&] {
      Stack s;
      s.push_back(blur(taps, form == 2 ? Boundary::reflect : Boundary::circular));
      return s;
    };
    const at::Tensor& weights = form == 1 || form == 3 ? scattered : uneven;
    // The truth: A^T W A often enough, from a start inside of the patch.
    const auto truth = [&] {
      Problem one(parts(), image, Communicator());
      at::Tensor x = one.A->make_image().fill_(1e-3);
      x.slice(1, 30, 54).slice(2, 70, 94).fill_(1.0);
      Measurement y = one.A->make_measurement();
      double norm = 0;
      for (int k = 0; k < 400; ++k) {
        one.A->apply(x, y);
        y[0].mul_(weights);
        at::Tensor next = one.A->make_image();
        one.A->adjoint(y, next);
        norm = one.space.norm(next);
        x = next / norm;
      }
      return at::scalar_tensor(norm, at::kDouble);
    };
    const double expected = test::once(truth).item<double>();
    if (form == 0) {
      EXPECT_NEAR(expected, 1.507, 1e-3);
    }
    on_groups([&](const Communicator& comm) {
      SCOPED_TRACE(form);
      Problem p(parts(), image, comm);
      const double L = p.term({part_of(weights, image, p.cut.block(comm.rank()))})->lipschitz();
      EXPECT_GT(L, 0.999 * expected);
      EXPECT_LT(L, 1.05 * expected);
    });
  }
}

TEST(DistributedFourier, EqualsTheTransformOfTheWholeImageAndReturns) {
  on_groups([](const Communicator& comm) {
    for (const Box& image : {kImage, Box::image2d(3, 50), Box::image2d(40, 2)}) {
      Problem p(two_blurs(Boundary::circular), image, comm);
      DistributedFourier transform({p.A->image()}, p.A->options(), p.A->transport(), comm.rank());
      transform.forward(p.x);
      // Frequency (1, 1), by its definition.
      double expected[2] = {0, 0};
      const at::Tensor whole = random_tensor({2, image.extent(1), image.extent(2)}, 1);
      const auto value = whole.accessor<double, 3>();
      for (std::int64_t h = 0; h < whole.size(1); ++h)
        for (std::int64_t w = 0; w < whole.size(2); ++w) {
          const double turn = -2 * M_PI *
                              (static_cast<double>(h) / static_cast<double>(whole.size(1)) +
                               static_cast<double>(w) / static_cast<double>(whole.size(2)));
          expected[0] += value[1][h][w] * std::cos(turn);
          expected[1] += value[1][h][w] * std::sin(turn);
        }
      if (transform.first_column() <= 1 && 1 < transform.last_column()) {
        const at::Tensor got = at::view_as_real(transform.spectrum()[1][1][1 - transform.first_column()]);
        EXPECT_NEAR(got[0].item<double>(), expected[0], 1e-10);
        EXPECT_NEAR(got[1].item<double>(), expected[1], 1e-10);
      }
      at::Tensor back = p.A->make_image();
      transform.inverse(back);
      EXPECT_LT(worst(comm, back, p.x, p.x.numel() > 0 ? p.x : at::ones({1})), 1e-12);
    }
  });
}

TEST(Simulation, PoissonCountsAreTheSameOnAnyRanks) {
  const Box image = Box::image2d(61, 47);
  const auto counts = [&](const Communicator& comm) {
    Stack s;
    s.push_back(blur(gaussian_kernel({2.0, 1.0}, 30), Boundary::circular));
    s.push_back(blur(gaussian_kernel({1.0, 2.0}, 0), Boundary::valid));
    const Decomposition d = cut(image, comm.size());
    const auto A = place(s, d, 1, comm);
    // Half of the image is flat at 1: 10 counts, where the sampler changes its method.
    at::Tensor x = (random_tensor({1, 61, 47}, 1) + 0.5).clamp_min(0.5) * 2;
    x.slice(1, 0, 30).fill_(1.0);
    Measurement y = A->make_measurement();
    A->apply(part_of(x, image, d.block(comm.rank())), y);
    for (std::size_t i = 0; i < y.size(); ++i)
      add_noise(y[i], {0, 0.1}, 3, static_cast<std::uint32_t>(i), A->range().part(i).box(),
                A->range().block(i, comm.rank()));
    return std::pair{y, A->range()};
  };
  const auto one = counts(Communicator());
  on_groups([&](const Communicator& comm) {
    const auto [y, layout] = counts(comm);
    const Measurement expected = parts_of(one.first, layout, comm.rank());
    for (std::size_t i = 0; i < y.size(); ++i) EXPECT_TRUE(y[i].equal(expected[i])) << i;
  });
}

}  // namespace
}  // namespace tessera
