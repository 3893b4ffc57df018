// SPDX-License-Identifier: BSD-3-Clause
// Projections and adjoints against other packages (README.md says which), on every grid of ranks.
#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <numbers>
#include <string>
#include <vector>

#include "reference/reference.hpp"
#include "support/groups.hpp"
#include "tessera/domain/distributed_operator.hpp"
#include "tessera/domain/projection.hpp"
#include "tessera/domain/tensor.hpp"

namespace tessera {
namespace {

struct Case {
  std::string file, name;
  // Largest relative differences (2-norm) of samples and of the adjoint; 0: the file has none.
  double samples, adjoint;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.file << ' ' << c.name; }

// This rank's samples or pixels of what every rank knows whole, (1, ...).
at::Tensor mine(const at::Tensor& whole, const ProductSpace& space, int rank) {
  return crop(whole, space.part(0).box(), space.block(0, rank)).contiguous();
}

class Projections : public testing::TestWithParam<Case> {};

TEST_P(Projections, AreThoseOfTheOtherPackage) {
  const Case& c = GetParam();
  const test::Reference reference("projections_" + c.file);
  const auto get = [&](const std::string& key) { return reference[c.name + "." + key]; };
  const at::Tensor x = get("x").to(at::kDouble).unsqueeze(0), y = get("y").to(at::kDouble).unsqueeze(0),
                   angles = get("angles"), scan = get("scan");
  const auto number = [&](std::int64_t k) { return scan[k].item<double>(); };
  CircularScan circle;
  circle.beam = number(0) == 0 ? Beam::parallel : number(0) == 1 ? Beam::fan : Beam::cone;
  for (std::int64_t k = 0; k < angles.size(0); ++k)
    circle.angles.push_back(angles[k].item<double>() * std::numbers::pi / 180);
  circle.rows = static_cast<std::int64_t>(number(1));
  circle.columns = static_cast<std::int64_t>(number(2));
  circle.column_pitch = circle.row_pitch = number(3);
  circle.axis_offset = number(5);
  circle.source_axis = number(6);
  circle.source_detector = number(7);
  const bool picture = x.dim() == 3;
  const Box box =
      picture ? Box::image2d(x.size(1), x.size(2)) : Box({0, 0, 0}, {x.size(1), x.size(2), x.size(3)});
  const auto geometry = std::make_shared<const ProjectionGeometry>(
      circular_geometry(circle, {.size = box.extents(), .voxel = {number(4), number(4), number(4)}}));
  const auto plan = plan_projection(geometry);
  test::on_groups([&](const Communicator& comm) {
    for (const Grid3& grid : grids(comm.size(), box)) {
      const ProductSpace domain(ImageSpace(box), Decomposition(box, {1, 1, 1}, grid));
      const auto A = plan->place(
          {domain, at::TensorOptions(at::kFloat), make_transport(comm, {}, TransportKind::mpi), comm});
      const auto off = [&](const at::Tensor& got, const at::Tensor& wanted) {
        double sums[2] = {(got.to(at::kDouble) - wanted).square().sum().item<double>(),
                          wanted.square().sum().item<double>()};
        comm.all_reduce(sums, Reduce::sum);
        return std::sqrt(sums[0] / sums[1]);
      };
      Tensors samples = A->make_measurement();
      A->apply(mine(x.to(at::kFloat), A->domain(), comm.rank()), samples);
      const double error = off(samples[0], mine(y, A->range(), comm.rank()));
      if (comm.size() == 1) std::printf("%s %s: samples %.1e\n", c.file.c_str(), c.name.c_str(), error);
      EXPECT_LT(error, c.samples);
      if (!reference.has(c.name + ".v")) continue;
      at::Tensor back = A->make_image();
      A->adjoint(Tensors{mine(get("v").unsqueeze(0), A->range(), comm.rank())}, back);
      const at::Tensor adjoint = get("adjoint").to(at::kDouble).unsqueeze(0);
      const double turned = off(back, mine(adjoint, A->domain(), comm.rank()));
      if (comm.size() == 1) std::printf("%s %s: adjoint %.1e\n", c.file.c_str(), c.name.c_str(), turned);
      EXPECT_LT(turned, c.adjoint);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Packages, Projections,
                         testing::Values(Case{"astra", "parallel", 3e-6, 3e-5}, Case{"astra", "fan", 0.03, 0},
                                         Case{"mbirjax", "parallel3", 0.005, 0},
                                         Case{"mbirjax", "cone", 0.01, 0},
                                         Case{"deepinv", "deepinv", 0.003, 0}));

}  // namespace
}  // namespace tessera
