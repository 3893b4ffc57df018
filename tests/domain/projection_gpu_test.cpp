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
  test::expect_kernels_equal_processors({1, 2},
                                        [](const Communicator& comm) { return Device{test::gpu_of(comm)}; });
}

}  // namespace
}  // namespace tessera
