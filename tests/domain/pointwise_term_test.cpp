// SPDX-License-Identifier: BSD-3-Clause
// Poisson and Huber data terms: their calculus, proximal points in every form, on any number of ranks.
#include <ATen/ops/linspace.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "domain/operators.hpp"
#include "tessera/core/error.hpp"
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

constexpr double kGain = 0.02, kBackground = 0.05, kNoise = 0.1;

using MakeLoss = std::function<std::unique_ptr<PointwiseLoss>()>;

std::vector<MakeLoss> losses() {
  return {[] { return make_poisson_loss(kGain, kBackground, kNoise); },
          [] { return make_poisson_loss(kGain, 0, kNoise); }, [] { return make_huber_loss(1.5, kNoise); }};
}

TEST(PointwiseLoss, DerivativesAreThoseOfTheValue) {
  if (test::other_rank()) return;
  const at::Tensor m = at::linspace(-0.4, 1.4, 181, at::kDouble);
  const double h = 1e-6;
  for (const MakeLoss& make : losses()) {
    const auto loss = make();
    for (const double y : {0.0, 0.02, 0.3, 0.9, -0.02}) {
      const at::Tensor ys = at::zeros_like(m) + y;
      const at::Tensor slope = (loss->value(m + h, ys) - loss->value(m - h, ys)) / (2 * h);
      const at::Tensor exact = loss->derivative(m, ys);
      EXPECT_LT((slope - exact).abs().max().item<double>(), 1e-6 * (1 + exact.abs().max().item<double>()))
          << y;
      // Convex, and no steeper than it says.
      const at::Tensor bend = (loss->derivative(m + h, ys) - loss->derivative(m - h, ys)) / (2 * h);
      EXPECT_GT(bend.min().item<double>(), -1e-6) << y;
      EXPECT_LE(bend.max().item<double>(), loss->steepest(ys).max().item<double>() * (1 + 1e-5)) << y;
      EXPECT_TRUE((loss->curvature(m, ys) <= loss->steepest(ys) * (1 + 1e-12)).all().item<bool>());
    }
  }
}

TEST(PointwiseLoss, ProximalPointsAreOptimal) {
  if (test::other_rank()) return;
  const at::Tensor z = at::linspace(-1, 2, 301, at::kDouble);
  for (const MakeLoss& make : losses()) {
    const auto loss = make();
    for (const double gamma : {0.05, 1.0, 40.0})
      for (const double y : {0.0, 0.02, 0.3, 0.9, -0.02}) {
        const at::Tensor ys = at::zeros_like(z) + y, u = loss->prox(z, gamma, ys);
        const at::Tensor off = loss->derivative(u, ys) * gamma + u - z;
        EXPECT_LT(off.abs().max().item<double>(), 1e-9 * (1 + gamma)) << "gamma " << gamma << " y " << y;
      }
  }
}

TEST(PointwiseLoss, CountsDeviateByOneOnAverage) {
  if (test::other_rank()) return;
  const Box all = Box::image2d(200, 200);
  at::Tensor y = at::linspace(0.3, 1, 40000, at::kDouble).reshape({1, 200, 200}), m = y.clone();
  add_noise(y, {0, kGain}, 5, 0, all, all);
  const auto loss = make_poisson_loss(kGain, 0, kNoise);
  EXPECT_NEAR(loss->deviation(m, y).mean().item<double>(), 1, 0.03);
}

// Without a background the likelihood of a sample without counts falls for ever below 0, and images with it.
TEST(PointwiseLoss, SamplesWithoutCountsPullToZeroAndNotBelow) {
  if (test::other_rank()) return;
  const auto loss = make_poisson_loss(kGain, 0, kNoise);
  const at::Tensor m = at::linspace(-1, 1, 201, at::kDouble), none = at::zeros_like(m);
  const at::Tensor slope = loss->derivative(m, none);
  EXPECT_LT(slope.masked_select(m.lt(-1e-9)).max().item<double>(), 0);
  EXPECT_GT(slope.masked_select(m.gt(1e-9)).min().item<double>(), 0);
  EXPECT_LT(loss->prox(m, 1e6, none).abs().max().item<double>(), 1e-4);
}

TEST(PointwiseLoss, RefusesWhatMakesNoSense) {
  if (test::other_rank()) return;
  EXPECT_THROW(make_poisson_loss(0, 0, 1), InputError);
  EXPECT_THROW(make_poisson_loss(1, -1, 1), InputError);
  EXPECT_THROW(make_huber_loss(0, 1), InputError);
}

const Box kImage = Box::image2d(21, 17);

Stack operators(int form) {
  Stack s;
  if (form == 0) s.push_back(make_identity());
  if (form == 1) s.push_back(make_random_mask(0.5, 1));
  if (form == 2) s.push_back(blur(gaussian_kernel({1.2, 0.8}, 20), Boundary::valid));
  if (form == 3) {
    s.push_back(blur(gaussian_kernel({1.5, 0.7}, 20), Boundary::reflect));
    s.push_back(blur(gaussian_kernel({0.6, 1.2}, 0), Boundary::circular));
  }
  return s;
}

struct Case {
  Decomposition d;
  std::shared_ptr<DistributedOperator> A;
  Reducer reducer;
  Space space;
  at::Tensor x, z;
  std::unique_ptr<DataTerm> f;

  Case(int form, const MakeLoss& make, const Communicator& comm)
      : d(cut(kImage, comm.size())),
        A(place(operators(form), d, 2, comm)),
        reducer(comm),
        space(comm, &reducer),
        x(image(1)),
        z(image(2)) {
    Measurement y;
    for (std::size_t i = 0; i < A->range().parts(); ++i) {
      const Box& box = A->range().part(i).box();
      y.push_back((random_tensor({2, box.extent(1), box.extent(2)}, 10 + i) * 0.5 + 0.45).clamp_min(0));
    }
    f = make_pointwise_term(
        {.A = A, .y = parts_of(y, A->range(), comm.rank()), .weights = {}, .prox = {300, 1e-11}}, make(),
        space);
  }
  at::Tensor image(std::uint64_t seed) const {
    return part_of(random_tensor({2, 21, 17}, seed) * 0.5 + 0.5, kImage, d.block(A->comm().rank()));
  }
};

TEST(PointwiseTerm, GradientIsTheDerivativeOfTheValue) {
  on_groups([](const Communicator& comm) {
    for (const MakeLoss& make : losses())
      for (int form = 0; form < 4; ++form) {
        Case c(form, make, comm);
        at::Tensor g = c.A->make_image();
        c.f->gradient(c.x, g);
        c.reducer.launch();
        c.reducer.finish();
        EXPECT_NEAR(c.f->objective().value(), c.f->value(c.x), 1e-10 * (1 + std::abs(c.f->value(c.x))));
        const double h = 1e-5, slope = (c.f->value(c.x + c.z * h) - c.f->value(c.x - c.z * h)) / (2 * h);
        EXPECT_NEAR(slope, c.space.dot(g, c.z), 1e-5 * (1 + std::abs(slope)));
      }
  });
}

TEST(PointwiseTerm, ProxIsOptimalInEveryFormAndTheSameOnAnyRanks) {
  for (std::size_t l = 0; l < losses().size(); ++l)
    for (int form = 0; form < 4; ++form)
      for (const double gamma : {0.3, 20.0}) {
        const MakeLoss make = losses()[l];
        Case one(form, make, Communicator());
        at::Tensor whole = one.A->make_image();
        one.f->prox(one.z, gamma, whole);
        on_groups([&](const Communicator& comm) {
          SCOPED_TRACE(testing::Message() << "loss " << l << " form " << form << " gamma " << gamma);
          Case c(form, make, comm);
          at::Tensor u = c.A->make_image(), g = c.A->make_image();
          c.f->prox(c.z, gamma, u);
          c.f->gradient(u, g);
          c.reducer.launch();
          c.reducer.finish();
          EXPECT_LT(c.space.norm(g * gamma + u - c.z), 1e-8 * c.space.norm(c.z));
          EXPECT_LT(test::worst(comm, u, part_of(whole, kImage, c.d.block(comm.rank())), whole), 1e-7);
        });
      }
}

TEST(PointwiseTerm, AGradientStepOfOneOverLDescends) {
  on_groups([](const Communicator& comm) {
    for (const MakeLoss& make : losses()) {
      Case c(3, make, comm);
      at::Tensor x = c.x.clone(), g = c.A->make_image();
      double before = c.f->value(x);
      for (int k = 0; k < 5; ++k) {
        c.f->gradient(x, g);
        x.sub_(g, 1 / c.f->lipschitz());
        const double now = c.f->value(x);
        EXPECT_LT(now, before);
        before = now;
      }
      c.reducer.launch();
      c.reducer.finish();
    }
  });
}

TEST(PointwiseTerm, HuberWithoutOutliersIsLeastSquares) {
  on_groups([](const Communicator& comm) {
    Case c(
        3, [] { return make_huber_loss(1e3, kNoise); }, comm);
    Measurement y;
    for (std::size_t i = 0; i < 2; ++i) {
      const Box& box = c.A->range().part(i).box();
      y.push_back((random_tensor({2, box.extent(1), box.extent(2)}, 10 + i) * 0.5 + 0.45).clamp_min(0));
    }
    const auto squares = make_least_squares({.A = c.A,
                                             .y = parts_of(y, c.A->range(), comm.rank()),
                                             .weights = {},
                                             .noise_sigma = kNoise,
                                             .prox = {300, 1e-13}},
                                            c.space);
    at::Tensor u = c.A->make_image(), v = c.A->make_image();
    c.f->prox(c.z, 3.0, u);
    squares->prox(c.z, 3.0, v);
    EXPECT_LT(c.space.norm(u - v), 1e-8 * c.space.norm(v));
    EXPECT_NEAR(c.f->value(u), squares->value(u), 1e-10);
    EXPECT_NEAR(c.f->lipschitz(), squares->lipschitz(), 2e-3 * c.f->lipschitz());
    c.f->measure(u);
    squares->measure(u);
    c.reducer.launch();
    c.reducer.finish();
    EXPECT_NEAR(c.f->chi2().value(), squares->chi2().value(), 1e-9 * squares->chi2().value());
  });
}

}  // namespace
}  // namespace tessera
