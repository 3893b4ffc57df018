// SPDX-License-Identifier: BSD-3-Clause
// Scans of small pictures and volumes, placed on groups of ranks.
#pragma once

#include <cmath>
#include <initializer_list>
#include <memory>
#include <numbers>
#include <string>
#include <vector>

#include "domain/operators.hpp"
#include "tessera/core/error.hpp"
#include "tessera/domain/projection.hpp"

namespace tessera::test {

inline std::vector<double> angles(std::int64_t count, double range) {
  std::vector<double> all;
  for (std::int64_t k = 0; k < count; ++k)
    all.push_back(range * static_cast<double>(k) / static_cast<double>(count));
  return all;
}

struct Case {
  std::string name;
  VolumeGrid volume;
  CircularScan scan;
  std::shared_ptr<const ProjectionGeometry> geometry() const {
    return std::make_shared<ProjectionGeometry>(circular_geometry(scan, volume));
  }
};

inline std::vector<Case> cases() {
  constexpr double kPi = std::numbers::pi;
  return {
      {"parallel picture", {{1, 23, 31}}, {.angles = angles(70, kPi), .columns = 41, .axis_offset = 1.3}},
      {"fan picture",
       {{1, 23, 31}},
       {.beam = Beam::fan,
        .angles = angles(33, 2 * kPi),
        .source_axis = 60,
        .source_detector = 110,
        .columns = 90}},
      {"parallel volume", {{7, 12, 11}}, {.angles = angles(37, kPi), .rows = 7, .columns = 19}},
      {"cone volume",
       {{7, 12, 11}},
       {.beam = Beam::cone,
        .angles = angles(35, 2 * kPi),
        .source_axis = 40,
        .source_detector = 80,
        .rows = 21,
        .columns = 40,
        .helical_pitch = 3}},
      {"circular cone volume",
       {{7, 12, 11}},
       {.beam = Beam::cone,
        .angles = angles(36, 2 * kPi),
        .source_axis = 40,
        .source_detector = 80,
        .rows = 21,
        .columns = 40,
        .axis_offset = 1.3}},
  };
}

struct Placed {
  std::unique_ptr<OperatorPlan> plan;
  ProductSpace domain;
  std::unique_ptr<DistributedOperator> A;
  Placed(const Case& c, const Grid3& grid, const Communicator& comm, at::ScalarType type = at::kDouble)
      : plan(plan_projection(c.geometry())),
        domain(ImageSpace(c.volume.box(), 2), Decomposition(c.volume.box(), {1, 1, 1}, grid)),
        A(plan->place(
            {domain, at::TensorOptions(type), make_transport(comm, {}, TransportKind::mpi), comm})) {}
};

/// The operator that a GPU runs, on the device that `device(comm)` names and any cut, against that of processors on one
/// rank: both directions, both types, and the dot test.
template <class DeviceOf>
void expect_kernels_equal_processors(std::initializer_list<int> ranks, DeviceOf device) {
  for (const Case& c : cases()) {
    const Placed one(c, {1, 1, 1}, Communicator());
    const at::Tensor x = random_tensor(one.A->make_image().sizes(), 7);
    Tensors y1 = one.A->make_measurement();
    one.A->apply(x, y1);
    const Tensors v{random_tensor(y1[0].sizes(), 8)};
    at::Tensor back1 = one.A->make_image();
    one.A->adjoint(v, back1);
    ASSERT_GT(back1.abs().max().item<double>(), 0.1);
    on_groups(ranks, [&](const Communicator& comm) {
      const Device where = device(comm);
      for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
        for (const Grid3& grid : grids(comm.size(), c.volume.box())) {
          SCOPED_TRACE(
              concat(c.name, ", ", grid[0], " x ", grid[1], " x ", grid[2], ", ", c10::toString(type)));
          const auto plan = plan_projection(c.geometry(), where, ProjectorChoice::kernels);
          const ProductSpace domain(ImageSpace(c.volume.box(), 2),
                                    Decomposition(c.volume.box(), {1, 1, 1}, grid));
          const at::TensorOptions options = tensor_options(where, type);
          const auto A =
              plan->place({domain, options, make_transport(comm, where, TransportKind::mpi), comm});
          Tensors mine = parts_of({x}, A->domain(), comm.rank()), w = parts_of(v, A->range(), comm.rank()),
                  y = A->make_measurement(), back = A->make_domain();
          mine[0] = mine[0].to(options);
          w[0] = w[0].to(options);
          A->apply(mine, y);
          A->adjoint(w, back);
          const double limit = type == at::kFloat ? 5e-6 : 1e-12;
          const auto host = [](const at::Tensor& t) { return t.cpu().to(at::kDouble); };
          EXPECT_LT(worst(comm, host(y[0]), parts_of(y1, A->range(), comm.rank())[0], y1[0]), limit);
          EXPECT_LT(worst(comm, host(back[0]), parts_of({back1}, A->domain(), comm.rank())[0], back1), limit);
          std::vector<double> sums{scalar_product(host(y[0]), host(w[0])),
                                   scalar_product(host(mine[0]), host(back[0]))};
          comm.all_reduce(sums, Reduce::sum);
          EXPECT_NEAR(sums[0], sums[1], 10 * limit * (1 + std::abs(sums[0])));
        }
      }
    });
  }
}

}  // namespace tessera::test
