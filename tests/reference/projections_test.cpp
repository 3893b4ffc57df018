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

CircularScan scan_of(const at::Tensor& words, const at::Tensor& degrees) {
  const auto number = [&](std::int64_t k) { return words[k].item<double>(); };
  CircularScan circle;
  circle.beam = number(0) == 0 ? Beam::parallel : number(0) == 1 ? Beam::fan : Beam::cone;
  for (std::int64_t k = 0; k < degrees.size(0); ++k)
    circle.angles.push_back(degrees[k].item<double>() * std::numbers::pi / 180);
  circle.rows = static_cast<std::int64_t>(number(1));
  circle.columns = static_cast<std::int64_t>(number(2));
  circle.column_pitch = circle.row_pitch = number(3);
  circle.axis_offset = number(5);
  circle.source_axis = number(6);
  circle.source_detector = number(7);
  if (words.numel() < 15) return circle;
  const auto angle = [&](std::int64_t k) { return number(k) * std::numbers::pi / 180; };
  circle.detector_shift = {number(8), number(9)};
  circle.rotation = angle(10);
  circle.tilt = angle(11);
  circle.slant = angle(12);
  circle.lean = angle(13);
  circle.helical_pitch = number(14);
  if (words.numel() > 15) circle.row_pitch = number(15);
  return circle;
}

// |got - wanted| / |wanted| of all ranks' parts.
double off(const at::Tensor& got, const at::Tensor& wanted, const Communicator& comm) {
  double sums[2] = {(got.to(at::kDouble) - wanted).square().sum().item<double>(),
                    wanted.square().sum().item<double>()};
  comm.all_reduce(sums, Reduce::sum);
  return std::sqrt(sums[0] / sums[1]);
}

class Projections : public testing::TestWithParam<Case> {};

TEST_P(Projections, AreThoseOfTheOtherPackage) {
  const Case& c = GetParam();
  const test::Reference reference("projections_" + c.file);
  const auto get = [&](const std::string& key) { return reference[c.name + "." + key]; };
  const at::Tensor x = get("x").to(at::kDouble).unsqueeze(0), y = get("y").to(at::kDouble).unsqueeze(0),
                   angles = get("angles"), scan = get("scan");
  const CircularScan circle = scan_of(scan, angles);
  const double side = scan[4].item<double>();
  const bool picture = x.dim() == 3;
  const Box box =
      picture ? Box::image2d(x.size(1), x.size(2)) : Box({0, 0, 0}, {x.size(1), x.size(2), x.size(3)});
  const auto geometry = std::make_shared<const ProjectionGeometry>(
      circular_geometry(circle, {.size = box.extents(), .voxel = {side, side, side}}));
  const auto plan = plan_projection(geometry);
  test::on_groups([&](const Communicator& comm) {
    for (const Grid3& grid : grids(comm.size(), box)) {
      const ProductSpace domain(ImageSpace(box), Decomposition(box, {1, 1, 1}, grid));
      const auto A = plan->place(
          {domain, at::TensorOptions(at::kFloat), make_transport(comm, {}, TransportKind::mpi), comm});
      Tensors samples = A->make_measurement();
      A->apply(mine(x.to(at::kFloat), A->domain(), comm.rank()), samples);
      const double error = off(samples[0], mine(y, A->range(), comm.rank()), comm);
      if (comm.size() == 1) std::printf("%s %s: samples %.1e\n", c.file.c_str(), c.name.c_str(), error);
      EXPECT_LT(error, c.samples);
      if (!reference.has(c.name + ".v")) continue;
      at::Tensor back = A->make_image();
      A->adjoint(Tensors{mine(get("v").unsqueeze(0), A->range(), comm.rank())}, back);
      const at::Tensor adjoint = get("adjoint").to(at::kDouble).unsqueeze(0);
      const double turned = off(back, mine(adjoint, A->domain(), comm.rank()), comm);
      if (comm.size() == 1) std::printf("%s %s: adjoint %.1e\n", c.file.c_str(), c.name.c_str(), turned);
      EXPECT_LT(turned, c.adjoint);
    }
  });
}

// Of laminography rays leave by the first and the last slice, on whose centers RTK's end: with two empty slices around the body
// both differ by 1e-7, and from a closed form by the same.
INSTANTIATE_TEST_SUITE_P(
    Packages, Projections,
    testing::Values(Case{"astra", "parallel", 3e-6, 3e-5}, Case{"astra", "fan", 0.03, 0},
                    Case{"mbirjax", "parallel3", 0.005, 0}, Case{"mbirjax", "cone", 0.01, 0},
                    Case{"deepinv", "deepinv", 0.003, 0}, Case{"vectors", "astra_parallel", 3e-6, 0},
                    Case{"vectors", "astra_fan", 0.03, 0}, Case{"vectors", "rtk_shifted", 3e-5, 0},
                    Case{"vectors", "rtk_turned", 3e-5, 0}, Case{"vectors", "rtk_tilted", 3e-5, 0},
                    Case{"vectors", "rtk_lamino", 2e-3, 0}, Case{"vectors", "rtk_helix", 3e-5, 0}));

// Feldkamp's method is one of few choices, and RTK has made the same.
TEST(DirectReconstruction, OfAConeIsRtks) {
  const test::Reference reference("projections_rtk");
  const at::Tensor y = reference["cone.y"].to(at::kFloat).unsqueeze(0),
                   x = reference["cone.direct"].to(at::kDouble).unsqueeze(0);
  const Box box({0, 0, 0}, {x.size(1), x.size(2), x.size(3)});
  const auto plan = plan_projection(std::make_shared<const ProjectionGeometry>(
      circular_geometry(scan_of(reference["cone.scan"], reference["cone.angles"]),
                        {.size = box.extents(), .voxel = {1, 1, 1}})));
  test::on_groups([&](const Communicator& comm) {
    for (const Grid3& grid : grids(comm.size(), box)) {
      const ProductSpace domain(ImageSpace(box), Decomposition(box, {1, 1, 1}, grid));
      const auto A = plan->place(
          {domain, at::TensorOptions(at::kFloat), make_transport(comm, {}, TransportKind::mpi), comm});
      Tensors samples{mine(y, A->range(), comm.rank()).clone()};
      at::Tensor found = A->make_image();
      A->direct(samples, Tensors(1), RampWindow::ram_lak, found);
      const double error = off(found, mine(x, A->domain(), comm.rank()), comm);
      if (comm.size() == 1) std::printf("rtk cone: direct %.1e\n", error);
      EXPECT_LT(error, 1e-5);
    }
  });
}

// What a detector that is turned, tilted or slanted measures is what an upright one would: direct reconstructions differ
// as much as for detectors a part of a row apart (0.036), and not by the number of ranks.
TEST(DirectReconstruction, OfATurnedDetectorIsThatOfAnUprightOne) {
  const at::Tensor body = test::Reference("projections_vectors")["rtk_turned.x"].to(at::kFloat).unsqueeze(0);
  const Box box({0, 0, 0}, {body.size(1), body.size(2), body.size(3)});
  for (const Beam beam : {Beam::cone, Beam::parallel}) {
    CircularScan scan;
    scan.beam = beam;
    for (int k = 0; k < 60; ++k) scan.angles.push_back(k * std::numbers::pi / 30);
    scan.rows = 33;
    scan.columns = 61;
    scan.source_axis = 100;
    scan.source_detector = 160;
    scan.column_pitch = scan.row_pitch = beam == Beam::cone ? 1 : 0.6;
    const auto direct = [&](const Communicator& comm, const Grid3& grid) {
      const auto plan = plan_projection(
          std::make_shared<ProjectionGeometry>(circular_geometry(scan, {.size = box.extents()})));
      const ProductSpace domain(ImageSpace(box), Decomposition(box, {1, 1, 1}, grid));
      const auto A = plan->place(
          {domain, at::TensorOptions(at::kFloat), make_transport(comm, {}, TransportKind::mpi), comm});
      Tensors samples = A->make_measurement();
      A->apply(mine(body, A->domain(), comm.rank()), samples);
      at::Tensor found = A->make_image();
      A->direct(samples, Tensors(1), RampWindow::hann, found);
      return found;
    };
    const at::Tensor upright = direct(Communicator(), {1, 1, 1});
    scan.rotation = 0.08;
    scan.tilt = beam == Beam::cone ? 0.1 : 0;
    scan.slant = -0.12;
    scan.detector_shift = beam == Beam::cone ? std::array{0.8, 1.2} : std::array{0.0, 1.2};
    const at::Tensor turned = direct(Communicator(), {1, 1, 1});
    const double apart = off(turned, upright, Communicator());
    if (Communicator::world().rank() == 0)
      std::printf("turned %s: direct %.1e\n", beam == Beam::cone ? "cone" : "parallel", apart);
    EXPECT_LT(apart, 0.06);
    test::on_groups({2, 3, 7}, [&](const Communicator& comm) {
      for (const Grid3& grid : grids(comm.size(), box)) {
        const at::Tensor found = direct(comm, grid);
        const ProductSpace domain(ImageSpace(box), Decomposition(box, {1, 1, 1}, grid));
        EXPECT_LT(off(found, mine(turned.to(at::kDouble), domain, comm.rank()), comm), 1e-5);
      }
    });
  }
}

}  // namespace
}  // namespace tessera
