// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/domain/quadratic_prox.hpp"

#include <ATen/ops/cat.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "domain/operators.hpp"
#include "support/once.hpp"

namespace tessera {
namespace {

using test::on_groups;
using test::part_of;
using test::parts_of;
using test::random_tensor;
using test::Stack;
using test::worst;

constexpr double kNoise = 0.01;

std::unique_ptr<LocalOperator> blur(const at::Tensor& taps, Boundary boundary, std::int64_t factor = 1,
                                    std::array<std::int64_t, 2> phase = {0, 0}) {
  BlurOptions options;
  options.kernel = taps;
  options.boundary = boundary;
  options.factor = factor;
  options.phase = phase;
  return make_blur(std::move(options));
}

std::unique_ptr<LocalOperator> blur3(const at::Tensor& taps, Boundary boundary,
                                     const Index3& factor = {1, 1, 1}, const Index3& phase = {}) {
  VolumeBlurOptions options;
  options.kernel = taps;
  options.boundary = boundary;
  options.factor = factor;
  options.phase = phase;
  return make_volume_blur(std::move(options));
}

// (2, [D,] H, W)
std::vector<std::int64_t> sizes_on(const Box& box, bool volume) {
  if (volume) return {2, box.extent(0), box.extent(1), box.extent(2)};
  return {2, box.extent(1), box.extent(2)};
}

// Measurements of an image with edges, in float64, and a proximal problem with them.
struct Problem {
  Box image;
  Decomposition cut;
  std::shared_ptr<DistributedOperator> A;
  Reducer reducer;
  Space space;
  Measurement y, root_weights;
  at::Tensor z, adjoint;
  bool weighted = false;

  Problem(const Stack& parts, const Box& on, const Communicator& comm, const std::string& weights = "alike")
      : image(on),
        cut(test::cut(image, comm.size())),
        A(test::place(parts, cut, 2, comm)),
        reducer(comm),
        space(comm, &reducer),
        y(A->make_measurement()),
        root_weights(A->range().parts()),
        adjoint(A->make_image()) {
    const bool volume = ImageSpace(image).volume();
    const std::vector<std::int64_t> size = sizes_on(image, volume);
    std::vector<std::int64_t> coarse = size;
    for (std::size_t d = 1; d < size.size(); ++d) coarse[d] = (size[d] + 7) / 8;
    at::Tensor truth = random_tensor(coarse, 1) + 0.5;
    for (std::size_t d = 1; d < size.size(); ++d) {
      const auto axis = static_cast<std::int64_t>(d);
      truth = truth.repeat_interleave(8, axis).slice(axis, 0, size[d]);
    }
    A->apply(mine(truth), y);
    Measurement noise, w;
    for (std::size_t i = 0; i < y.size(); ++i) {
      const Box& box = A->range().part(i).box();
      const std::vector<std::int64_t> samples = sizes_on(box, volume);
      noise.push_back(random_tensor(samples, 10 + i) * (kNoise * std::sqrt(12.0)));
      const at::Tensor u = random_tensor(samples, 20 + i) + 0.5;
      w.push_back(weights == "missing" ? u.gt(0.1).to(at::kDouble) : u.mul(9).add(1).reciprocal() * 4);
    }
    noise = parts_of(noise, A->range(), comm.rank());
    for (std::size_t i = 0; i < y.size(); ++i) y[i].add_(noise[i]);
    weighted = weights != "alike";
    if (weighted) root_weights = parts_of(w, A->range(), comm.rank());
    for (at::Tensor& t : root_weights)
      if (t.defined()) t.sqrt_();
    z = mine(truth + 0.1 * random_tensor(size, 2));
    Measurement wy = y;
    for (std::size_t i = 0; i < y.size(); ++i)
      if (root_weights[i].defined()) wy[i] = y[i] * root_weights[i].square();
    A->adjoint(wy, adjoint);
  }
  at::Tensor mine(const at::Tensor& whole) const {
    return part_of(whole, image, cut.block(A->comm().rank()));
  }

  at::Tensor solve(double gamma, const ProxOptions& options, ProxReport* report = nullptr) {
    QuadraticProx prox(A, root_weights, weighted, space, options, kNoise);
    Measurement work = A->make_measurement();
    at::Tensor u = z.clone();
    prox.solve(y, adjoint, z, gamma, u, work);
    if (report) *report = prox.report();
    return u;
  }
  double rms(const at::Tensor& t) const {
    return space.norm(t) / std::sqrt(static_cast<double>(2 * image.pixels()));
  }
};

// The rms error that a proximal point may have by default.
double allowed(double gamma) { return 0.01 * std::sqrt(gamma) * kNoise; }

constexpr ProxOptions kTight{5000, 1e-12, Preconditioning::always};

Stack one(std::unique_ptr<LocalOperator> part) {
  Stack s;
  s.push_back(std::move(part));
  return s;
}

// By default at a penalty of the start of a DPIR schedule: 50 iterations left an error above the noise.
TEST(QuadraticProx, ConvergesAtLargePenaltiesWithUnknownBorders) {
  if (test::other_rank()) return;
  const Communicator self;
  Problem p(one(blur(gaussian_kernel({1.6, 1.6}), Boundary::valid)), Box::image2d(96, 80), self);
  const double gamma = 1605;
  ProxReport with, without;
  const at::Tensor exact = p.solve(gamma, kTight), u = p.solve(gamma, {}, &with),
                   plain = p.solve(gamma, {200, 0, Preconditioning::never}, &without);
  EXPECT_EQ(with.calls, 1);
  EXPECT_EQ(with.missed, 0);
  EXPECT_LT(with.worst, allowed(gamma));
  EXPECT_LT(p.rms(u - exact), allowed(gamma));
  EXPECT_LT(p.rms(plain - exact), allowed(gamma));
  EXPECT_LT(with.iterations, 25);
  EXPECT_GT(without.iterations, 4 * with.iterations);
  ProxReport early;
  p.solve(gamma, {5, 0, Preconditioning::always}, &early);
  EXPECT_EQ(early.missed, 1);
  EXPECT_GT(early.worst, allowed(gamma));
}

TEST(QuadraticProx, PreconditionerKeepsTheSolutionForAnyBoundaryWeightsAndRanks) {
  const Box image = Box::image2d(41, 52);
  at::Tensor lopsided = random_tensor({6, 5}, 4) + 0.5;
  lopsided = lopsided / lopsided.sum();
  const auto parts = [&](int form) {
    Stack s;
    const Boundary boundaries[] = {Boundary::valid, Boundary::reflect, Boundary::replicate, Boundary::zero,
                                   Boundary::circular};
    s.push_back(blur(lopsided, boundaries[form % 5], form == 5 ? 2 : 1, {0, form == 5}));
    if (form == 6) s.push_back(make_random_mask(0.5, 3));
    return s;
  };
  for (int form = 0; form < 7; ++form)
    for (const char* weights : {"alike", "missing", "1 to 10"}) {
      if (form == 4 && weights == std::string("alike")) continue;  // closed form
      SCOPED_TRACE(testing::Message() << "form " << form << ", weights " << weights);
      const at::Tensor exact = test::once([&] {
        Problem whole(parts(form), image, Communicator(), weights);
        ProxReport report;
        const at::Tensor tight = whole.solve(100, kTight),
                         u = whole.solve(100, {200, 0, Preconditioning::always}, &report);
        EXPECT_LT(whole.rms(u - tight), allowed(100));
        EXPECT_EQ(report.missed, 0);
        return tight;
      });
      on_groups({1, 7}, [&](const Communicator& comm) {
        Problem p(parts(form), image, comm, weights);
        const at::Tensor v = p.solve(100, {5000, 1e-12, Preconditioning::always});
        EXPECT_LT(worst(comm, v, p.mine(exact), exact), 1e-9);
      });
    }
}

// Of volumes: the same solution with the preconditioner, in fewer iterations.
TEST(QuadraticProx, PreconditionerKeepsTheSolutionOfVolumes) {
  const Box image({0, 0, 0}, {9, 20, 23});
  at::Tensor lopsided = random_tensor({4, 5, 6}, 4) + 0.6;
  lopsided = lopsided / lopsided.sum();
  const auto parts = [&](int form) {
    Stack s;
    const Boundary boundaries[] = {Boundary::valid, Boundary::reflect, Boundary::zero, Boundary::circular};
    if (form < 4) s.push_back(blur3(lopsided, boundaries[form]));
    if (form == 4) s.push_back(blur3(lopsided, Boundary::zero, {2, 1, 1}, {1, 0, 0}));
    if (form == 5) s.push_back(make_gaussian_blur({1.0, 1.4, 0.7}, Boundary::reflect));
    if (form == 6) {  // two light sheets
      s.push_back(blur3(lopsided, Boundary::valid));
      s.push_back(blur3(lopsided.transpose(1, 2).contiguous(), Boundary::reflect));
    }
    return s;
  };
  for (int form = 0; form < 7; ++form)
    for (const char* weights : {"alike", "missing"}) {
      if (form == 3 && weights == std::string("alike")) continue;  // closed form
      SCOPED_TRACE(testing::Message() << "form " << form << ", weights " << weights);
      const at::Tensor exact = test::once([&] {
        Problem whole(parts(form), image, Communicator(), weights);
        ProxReport report;
        const at::Tensor tight = whole.solve(100, kTight),
                         u = whole.solve(100, {400, 0, Preconditioning::always}, &report);
        EXPECT_LT(whole.rms(u - tight), allowed(100));
        EXPECT_EQ(report.missed, 0);
        return tight;
      });
      on_groups({form % 2 == 0 ? 5 : 7}, [&](const Communicator& comm) {
        Problem p(parts(form), image, comm, weights);
        const at::Tensor v = p.solve(100, {5000, 1e-12, Preconditioning::always});
        EXPECT_LT(worst(comm, v, p.mine(exact), exact), 1e-9);
      });
    }
}

TEST(QuadraticProx, PreconditionerOfVolumesSavesIterations) {
  if (test::other_rank()) return;
  const Communicator self;
  Problem p(one(make_gaussian_blur({1.2, 1.6, 1.6}, Boundary::valid)), Box({0, 0, 0}, {24, 36, 40}), self);
  ProxReport with, without;
  const at::Tensor u = p.solve(1605, {}, &with),
                   v = p.solve(1605, {400, 0, Preconditioning::never}, &without);
  EXPECT_EQ(with.missed, 0);
  EXPECT_LT(p.rms(u - v), 2 * allowed(1605));
  EXPECT_LT(3 * with.iterations, without.iterations);
}

// A torus of voxels, all samples or every factor-th: no iteration.
TEST(QuadraticProx, CircularBlursOfVolumesInClosedFormEqualConjugateGradients) {
  for (const Index3& factor : {Index3{1, 1, 1}, Index3{3, 1, 1}, Index3{2, 2, 2}, Index3{6, 1, 4}})
    for (const bool per_channel : {false, true}) {
      SCOPED_TRACE(testing::Message() << factor[0] << factor[1] << factor[2] << ' ' << per_channel);
      const at::Tensor taps = per_channel ? random_tensor({2, 3, 4, 5}, 5)
                                          : random_tensor({7, 3, 2}, 5);  // deeper than the image
      on_groups({3, 7}, [&](const Communicator& comm) {
        Problem p(one(blur3(taps, Boundary::circular, factor)), Box({0, 0, 0}, {6, 12, 16}), comm);
        ProxReport report;
        const at::Tensor u = p.solve(40, {}, &report);
        EXPECT_EQ(report.calls, 0);
        p.weighted = true;  // turns the closed form off
        const at::Tensor by_cg = p.solve(40, {5000, 1e-13, Preconditioning::never}, &report);
        EXPECT_EQ(report.calls, 1);
        EXPECT_LT(worst(comm, u, by_cg, at::ones_like(by_cg)), 1e-10);
      });
    }
}

TEST(QuadraticProx, CircularDownsamplingInClosedFormEqualsConjugateGradients) {
  int cases = 0;
  for (const std::int64_t factor : {2, 3})
    for (const bool per_channel : {false, true})
      for (const std::int64_t side : {5, 6}) {
        SCOPED_TRACE(testing::Message() << "factor " << factor << " side " << side << ' ' << per_channel);
        const at::Tensor taps =
            per_channel ? random_tensor({2, side, side}, 5) : random_tensor({side, side}, 5);
        on_groups([&](const Communicator& comm) {
          Problem p(one(blur(taps, Boundary::circular, factor, {1, 0})), Box::image2d(18, 30), comm);
          ProxReport report;
          const at::Tensor u = p.solve(40, {}, &report);
          EXPECT_EQ(report.calls, 0);
          p.weighted = true;  // turns the closed form off
          const at::Tensor by_cg = p.solve(40, {5000, 1e-13, Preconditioning::never}, &report);
          EXPECT_EQ(report.calls, 1);
          EXPECT_LT(worst(comm, u, by_cg, at::ones_like(by_cg)), 1e-10);
        });
        ++cases;
      }
  EXPECT_EQ(cases, 8);
}

TEST(QuadraticProx, OneKernelPerChannelSolvesEachChannelAlone) {
  const at::Tensor taps = random_tensor({2, 4, 5}, 6);
  for (const Boundary boundary : {Boundary::circular, Boundary::valid})
    on_groups([&](const Communicator& comm) {
      const Box image = Box::image2d(21, 16);
      Problem both(one(blur(taps, boundary)), image, comm);
      const at::Tensor u = both.solve(30, kTight);
      for (std::int64_t c = 0; c < 2; ++c) {
        Problem alone(one(blur(taps[c], boundary)), image, comm);
        // The other channel's samples do not matter to this one.
        alone.y = both.y;
        alone.adjoint = both.adjoint;
        const at::Tensor v = alone.solve(30, kTight);
        EXPECT_LT(worst(comm, u[c], v[c], at::ones_like(both.z)), 1e-9);
      }
    });
}

}  // namespace
}  // namespace tessera
