// SPDX-License-Identifier: BSD-3-Clause
// Proximal points of projections: the preconditioner by rings of frequencies, and the transform it uses.
#include <ATen/Parallel.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/fft_rfft2.h>
#include <ATen/ops/fft_rfftn.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>

#include "domain/projections.hpp"
#include "tessera/domain/fourier.hpp"
#include "tessera/domain/prox_plan.hpp"
#include "tessera/domain/quadratic_prox.hpp"

namespace tessera {
namespace {

using test::angles;
using test::Case;
using test::parts_of;
using test::Placed;
using test::random_tensor;

// Parallel, fan, cone, a volume of slices that share no ray; odd sides, detectors that cut corners.
std::vector<Case> scans(std::int64_t views, std::int64_t side = 45, std::int64_t deep = 20) {
  constexpr double kPi = std::numbers::pi;
  const auto n = static_cast<double>(side);
  return {{"parallel",
           {{1, side, side + 6}},
           {.angles = angles(views, kPi), .columns = side * 3 / 2, .axis_offset = 0.4}},
          {"fan",
           {{1, side, side}},
           {.beam = Beam::fan,
            .angles = angles(views, 2 * kPi),
            .source_axis = 3 * n,
            .source_detector = 6 * n,
            .columns = side * 3 / 2,
            .column_pitch = 2}},
          {"cone",
           {{deep, deep + 3, deep}},
           {.beam = Beam::cone,
            .angles = angles(views, 2 * kPi),
            .source_axis = 3.0 * static_cast<double>(deep),
            .source_detector = 6.0 * static_cast<double>(deep),
            .rows = deep * 3 / 2,
            .columns = deep * 3 / 2,
            .column_pitch = 2,
            .row_pitch = 2}},
          {"slices",
           {{deep / 4, deep + 3, deep}},
           {.angles = angles(views, kPi), .rows = deep / 4, .columns = deep * 3 / 2}}};
}

constexpr double kNoise = 0.1;

// A proximal problem as in an iteration: z is noisy, and samples are noisy.
struct Problem {
  Placed placed;
  std::shared_ptr<DistributedOperator> A;
  Reducer reducer;
  Space space;
  Tensors y, root_weights;
  at::Tensor z;

  Problem(const Case& c, const Grid3& grid, const Communicator& comm, at::ScalarType type,
          bool weighted = false)
      : placed(c, grid, comm, type),
        A(std::move(placed.A)),
        reducer(comm),
        space(comm, &reducer),
        y(A->make_measurement()),
        root_weights(1),
        z(A->make_image()) {
    const Box& box = c.volume.box();
    std::vector<std::int64_t> size = z.sizes().vec();
    for (std::size_t d = 0; d < 3; ++d) size[size.size() - 3 + d] = box.extent(d);
    size[0] = 2;
    at::Tensor truth = random_tensor(size, 1).mul_(0.1);
    truth.narrow(-1, box.extent(2) / 4, box.extent(2) / 2)
        .narrow(-2, box.extent(1) / 3, box.extent(1) / 2)
        .add_(1);
    z.copy_(parts_of({truth}, A->domain(), comm.rank())[0]);
    A->apply(z, y);
    z.add_(parts_of({random_tensor(size, 3).mul_(0.2)}, A->domain(), comm.rank())[0]);
    std::vector<std::int64_t> samples = y[0].sizes().vec();
    const Box& all = A->range().part(0).box();
    for (std::size_t d = 1; d <= (samples.size() == 4 ? 3U : 2U); ++d)
      samples[d] = all.extent(samples.size() == 4 ? d - 1 : d);
    if (weighted) root_weights[0] = y[0].mul(-1.0 / static_cast<double>(box.extent(1))).exp();
    y[0].add_(parts_of({random_tensor(samples, 4)}, A->range(), comm.rank())[0].mul(kNoise));
  }
  at::Tensor solve(double gamma, Preconditioning how, ProxReport& report, double tolerance = 0) {
    QuadraticProx prox(A, root_weights, root_weights[0].defined(), space, {2000, tolerance, how}, kNoise);
    Tensors work = A->make_measurement();
    at::Tensor u = z.clone();
    prox.solve(y, {}, z, gamma, u, work);
    report = prox.report();
    return u;
  }
};

TEST(DistributedFourier, TransformsVolumesWholeAndSliceBySlice) {
  const Box box({0, 0, 0}, {7, 12, 11});
  ImageSpace space(box, 2);
  space.element_bytes = 8;
  const at::Tensor whole = random_tensor({2, 7, 12, 11}, 5);
  test::on_groups([&](const Communicator& comm) {
    for (const Grid3& grid : grids(comm.size(), box)) {
      const ProductSpace domain(space, Decomposition(box, {1, 1, 1}, grid));
      for (const FourierAxes axes : {FourierAxes::plane, FourierAxes::volume}) {
        const FourierArray array{domain.part(0), axes};
        DistributedFourier transform(array, at::TensorOptions(at::kDouble),
                                     make_transport(comm, {}, TransportKind::mpi), comm.rank());
        const at::Tensor x = parts_of({whole}, domain, comm.rank())[0];
        transform.forward(x);
        const at::Tensor got = transform.spectrum();
        if (axes == FourierAxes::volume && got.numel() > 0) {
          const at::Tensor wanted = at::fft_rfftn(whole, {}, at::IntArrayRef{1, 2, 3})
                                        .slice(3, transform.first_column(), transform.last_column());
          EXPECT_LT((got - wanted).abs().max().item<double>(), 1e-10);
        } else if (got.numel() > 0) {
          const std::int64_t first = 7 * comm.rank() / comm.size();
          const at::Tensor wanted = at::fft_rfft2(whole).slice(1, first, first + got.size(1));
          EXPECT_LT((got - wanted).abs().max().item<double>(), 1e-10);
        }
        at::Tensor back = at::empty_like(x);
        transform.inverse(back);
        EXPECT_LT(test::worst(comm, back, x, whole), 1e-12);
        if (axes == FourierAxes::plane && grid == Grid3{comm.size(), 1, 1}) {
          EXPECT_EQ(DistributedFourier::bytes_sent(array, comm.rank()), 0);
        }
      }
    }
  });
}

// Prints the table of docs/tomography.md.
TEST(RadialPreconditioner, TakesFewerIterationsToTheSamePoint) {
  if (test::other_rank()) return;
  const Communicator self;
  std::printf("%-9s %5s %8s  without  with\n", "beam", "views", "gamma L");
  for (const std::int64_t views : {90, 24})
    for (const Case& c : scans(views)) {
      Problem p(c, {1, 1, 1}, self, at::kFloat);
      const double L = operator_norm_squared(*p.A, p.space, 1);
      for (const double size : {1e2, 1e3, 1e4}) {
        ProxReport without, with;
        const double gamma = size / L, allowed = 0.01 * std::sqrt(gamma) * kNoise;
        const at::Tensor u = p.solve(gamma, Preconditioning::never, without),
                         v = p.solve(gamma, Preconditioning::automatic, with);
        std::printf("%-9s %5ld %8.0e  %7ld  %4ld\n", c.name.c_str(), static_cast<long>(views), size,
                    static_cast<long>(without.iterations), static_cast<long>(with.iterations));
        EXPECT_EQ(with.missed, 0);
        EXPECT_EQ(without.missed, 0);
        EXPECT_LT((u - v).square().mean().sqrt().item<double>(), 2 * allowed);
        EXPECT_LE(static_cast<double>(with.iterations),
                  (size < 1e4 ? 0.8 : 0.4) * static_cast<double>(without.iterations));
      }
    }
}

TEST(RadialPreconditioner, IsSymmetricPositiveAndTheSameOnAnyRanks) {
  for (const bool weighted : {false, true})
    for (const Case& c : scans(16, 15, 6)) {
      if (weighted && c.name != "parallel" && c.name != "cone") continue;
      ProxReport report;
      Problem one(c, {1, 1, 1}, Communicator(), at::kDouble, weighted);
      const double L = operator_norm_squared(*one.A, one.space, 1), gamma = 1e3 / L;
      const at::Tensor wanted = one.solve(gamma, Preconditioning::always, report, 1e-7);
      const std::int64_t iterations = report.iterations;
      test::on_groups([&](const Communicator& comm) {
        for (const Grid3& grid : grids(comm.size(), c.volume.box())) {
          SCOPED_TRACE(concat(c.name, ", ", grid[0], " x ", grid[1], " x ", grid[2]));
          Problem p(c, grid, comm, at::kDouble, weighted);
          const ProxPlan plan = plan_prox(p.A->traits(), p.A->domain(), p.A->range(), weighted);
          ASSERT_NE(plan.preconditioner, nullptr);
          EXPECT_EQ(plan.preconditioner->name, "radial");
          const auto P = plan.preconditioner->make(*p.A, p.root_weights, p.space);
          P->prepare(gamma);
          const at::Tensor a = random_tensor(p.z.sizes(), 11), b = random_tensor(p.z.sizes(), 12);
          at::Tensor Pa = at::empty_like(a), Pb = at::empty_like(b);
          P->apply(a, Pa);
          P->apply(b, Pb);
          const std::vector<double> dots = p.space.dots({{Pa, b}, {a, Pb}, {Pa, a}});
          EXPECT_NEAR(dots[0], dots[1], 1e-12 * dots[2]);
          EXPECT_GT(dots[2], 0);
          ProxReport own;
          const at::Tensor u = p.solve(gamma, Preconditioning::always, own, 1e-7);
          EXPECT_NEAR(static_cast<double>(own.iterations), static_cast<double>(iterations), 2);
          EXPECT_LT(test::worst(comm, u, parts_of({wanted}, p.A->domain(), comm.rank())[0], wanted), 2e-7);
        }
      });
    }
}

}  // namespace
}  // namespace tessera
