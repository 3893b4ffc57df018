// SPDX-License-Identifier: BSD-3-Clause
// Projections on a GPU against those on processors.
#include <gtest/gtest.h>

#include <ATen/ops/zeros_like.h>

#include <cmath>

#include "domain/projections.hpp"
#include "physics/projector_cases.hpp"
#include "support/gpu.hpp"
#include "tessera/core/error.hpp"
#include "tessera/domain/torch_cuda.hpp"
#include "tessera/physics/ray_projector.hpp"

namespace tessera {
namespace {

// Of a few numbers in double, back on the host.
double difference(const at::Tensor& got, const at::Tensor& wanted) {
  const at::Tensor d = got.cpu().to(at::kDouble) - wanted.to(at::kDouble);
  return (d.square().sum() / wanted.to(at::kDouble).square().sum()).sqrt().item<double>();
}

TEST(ProjectionGpu, EveryBeamIsTheHostsLoopInBothTypes) {
  TESSERA_NEEDS_GPU();
  if (test::other_rank()) return;
  const Device device{test::gpu_of(Communicator::world())};
  for (const test::ProjectorCase& c : test::projector_cases()) {
    for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
      SCOPED_TRACE(concat(c.name, type == at::kFloat ? ", float" : ", double"));
      const Box volume = c.geometry->volume.box(), samples = c.geometry->samples();
      const at::Tensor
          x = test::random_tensor({volume.extent(0), volume.extent(1), volume.extent(2)}, 1).to(type),
          y = test::random_tensor({samples.extent(0), samples.extent(1), samples.extent(2)}, 2).to(type);
      const auto both = [&](Device where) {
        const at::TensorOptions options = tensor_options(where, type);
        RayProjector p(c.geometry, volume, options, [where]() -> void* {
          return where.is_cuda() ? current_stream(where.index) : nullptr;
        });
        const at::Tensor ax = at::zeros_like(y, options), aty = at::zeros_like(x, options);
        p.load(x.to(options));
        p.project(samples, ax);
        p.gather(samples, y.to(options), aty);
        return std::array<at::Tensor, 2>{ax.cpu(), aty.cpu()};
      };
      const auto there = both(device), here = both({}), again = both(device);
      const double limit = type == at::kFloat ? 1e-6 : 1e-12;
      for (std::size_t k = 0; k < 2; ++k) {
        ASSERT_GT(here[k].abs().max().item<double>(), 0.1);
        EXPECT_LT(difference(there[k], here[k]), limit) << k;
        EXPECT_TRUE(there[k].equal(again[k])) << "other bits " << k;
      }
    }
  }
}

TEST(ProjectionGpu, EqualsProcessorsOnAnyCutAndPassesTheDotTest) {
  TESSERA_NEEDS_GPU();
  for (const test::Case& c : test::cases()) {
    const test::Placed one(c, {1, 1, 1}, Communicator());
    const at::Tensor x = test::random_tensor(one.A->make_image().sizes(), 7);
    Tensors y1 = one.A->make_measurement();
    one.A->apply(x, y1);
    const Tensors v{test::random_tensor(y1[0].sizes(), 8)};
    at::Tensor back1 = one.A->make_image();
    one.A->adjoint(v, back1);
    test::on_groups({1, 2}, [&](const Communicator& comm) {
      const Device device{test::gpu_of(comm)};
      for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
        for (const Grid3& grid : grids(comm.size(), c.volume.box())) {
          SCOPED_TRACE(concat(c.name, ", ", grid[0], " x ", grid[1], " x ", grid[2]));
          const auto plan = plan_projection(c.geometry(), device);
          const ProductSpace domain(ImageSpace(c.volume.box(), 2),
                                    Decomposition(c.volume.box(), {1, 1, 1}, grid));
          const at::TensorOptions options = tensor_options(device, type);
          const auto A =
              plan->place({domain, options, make_transport(comm, device, TransportKind::mpi), comm});
          Tensors mine = test::parts_of({x}, A->domain(), comm.rank()),
                  w = test::parts_of(v, A->range(), comm.rank()), y = A->make_measurement(),
                  back = A->make_domain();
          mine[0] = mine[0].to(options);
          w[0] = w[0].to(options);
          A->apply(mine, y);
          A->adjoint(w, back);
          const double limit = type == at::kFloat ? 1e-5 : 1e-12;
          const auto host = [](const at::Tensor& t) { return t.cpu().to(at::kDouble); };
          EXPECT_LT(test::worst(comm, host(y[0]), test::parts_of(y1, A->range(), comm.rank())[0], y1[0]),
                    limit);
          EXPECT_LT(
              test::worst(comm, host(back[0]), test::parts_of({back1}, A->domain(), comm.rank())[0], back1),
              limit);
          std::vector<double> sums{test::scalar_product(host(y[0]), host(w[0])),
                                   test::scalar_product(host(mine[0]), host(back[0]))};
          comm.all_reduce(sums, Reduce::sum);
          EXPECT_NEAR(sums[0], sums[1], limit * (1 + std::abs(sums[0])) * 10);
        }
      }
    });
  }
}

}  // namespace
}  // namespace tessera
