// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/domain/fill.hpp"

#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include "domain/operators.hpp"

namespace tessera {
namespace {

// x + 2 y + 3 z + channel: what grad^T grad leaves alone inside.
at::Tensor ramp(std::int64_t channels, const Box& box) {
  at::Tensor sum = at::arange(channels, at::kDouble).reshape({channels, 1, 1, 1});
  for (std::size_t d = 0; d < 3; ++d) {
    at::Tensor line = at::arange(box.extent(d), at::kDouble).mul(static_cast<double>(3 - d));
    std::vector<std::int64_t> shape(4, 1);
    shape[d + 1] = box.extent(d);
    sum = sum + line.reshape(shape);
  }
  return box.extent(0) == 1 ? sum.squeeze(1).contiguous() : sum.contiguous();
}

// A mask with holes away from the border: the ramp goes on through them, and what is measured stays.
void expect_ramp(const Box& image, const Communicator& comm) {
  const bool volume = image.extent(0) > 1;
  const at::Tensor truth = ramp(2, image);
  at::Tensor mask = at::ones(truth.select(0, 0).sizes(), at::kDouble);
  at::Tensor hole = volume ? mask.slice(0, 3, 8) : mask;
  hole.slice(-2, 4, 11).slice(-1, 9, 16).zero_();
  mask = mask.unsqueeze(0);

  const Decomposition d = test::cut(image, comm.size());
  test::Stack parts;
  parts.push_back(make_mask(mask, image));
  const auto A = test::place(parts, d, 2, comm);
  const Box block = d.block(comm.rank());
  const at::Tensor wanted = test::part_of(truth, image, block);
  Measurement y = A->make_measurement();
  A->apply(wanted, y);
  at::Tensor x = A->make_image(), seen = A->make_image();
  A->adjoint(y, x);
  Measurement ones = A->make_measurement();
  A->apply(seen.fill_(1), ones);
  A->adjoint(ones, seen);
  fill_unmeasured(*A, seen, 0.05, x, Space(comm, nullptr));

  EXPECT_LT(test::worst(comm, x.masked_fill(seen.eq(0), 0), wanted.masked_fill(seen.eq(0), 0), truth), 1e-14);
  EXPECT_LT(test::worst(comm, x, wanted, truth), 0.01);  // it was half of the range off
}

TEST(Fill, AHoleOfAPictureGetsTheRampAroundIt) {
  test::on_groups([](const Communicator& comm) { expect_ramp(Box::image2d(23, 31), comm); });
}

TEST(Fill, AHoleOfAVolumeGetsTheRampAroundIt) {
  test::on_groups([](const Communicator& comm) { expect_ramp(Box({0, 0, 0}, {11, 17, 22}), comm); });
}

// This rank's block of the start behind a blur with boundary valid, whose border few samples see or none.
at::Tensor filled(const at::Tensor& truth, const Box& image, const Communicator& comm) {
  const Decomposition d = test::cut(image, comm.size());
  test::Stack parts;
  parts.push_back(test::blur(gaussian_kernel({1.3, 1.3}), Boundary::valid));
  const auto A = test::place(parts, d, truth.size(0), comm);
  Measurement y = A->make_measurement(), ones = A->make_measurement();
  A->apply(test::part_of(truth, image, d.block(comm.rank())), y);
  at::Tensor x = A->make_image(), seen = A->make_image();
  A->adjoint(y, x);
  A->apply(seen.fill_(1), ones);
  A->adjoint(ones, seen);
  double most = seen.numel() > 0 ? seen.max().item<double>() : 0;
  comm.all_reduce({&most, 1}, Reduce::max);
  fill_unmeasured(*A, seen, 0.05 * most, x, Space(comm, nullptr));
  return x;
}

TEST(Fill, TheBorderOfAValidBlurIsTheSameOnAnyNumberOfRanks) {
  const Box image = Box::image2d(37, 41);
  const at::Tensor truth = ramp(3, image), whole = filled(truth, image, Communicator());
  // Level from the last measured pixel on: a corner is four rows and four columns of the ramp away.
  EXPECT_LT((whole - truth).abs().max().item<double>(), 0.2 * truth.max().item<double>());
  test::on_groups([&](const Communicator& comm) {
    const at::Tensor mine = test::part_of(whole, image, test::cut(image, comm.size()).block(comm.rank()));
    EXPECT_LT(test::worst(comm, filled(truth, image, comm), mine, truth), 1e-12);
  });
}

}  // namespace
}  // namespace tessera
