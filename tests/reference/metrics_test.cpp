// SPDX-License-Identifier: BSD-3-Clause
// PSNR and SSIM against the reference (SSIM is torchmetrics' there), on any number of ranks.
#include "tessera/solve/metrics.hpp"

#include "reference/reference.hpp"
#include "support/groups.hpp"

namespace tessera {
namespace {

class Scores : public testing::TestWithParam<const char*> {};

TEST_P(Scores, AreTheReference) {
  const test::Reference file("metrics");
  const std::string prefix = std::string(GetParam()) + ".";
  const at::Tensor &truth = file[prefix + "truth"], &image = file[prefix + "image"];
  const Box whole = test::image_of(truth);
  test::on_groups([&](const Communicator& comm) {
    const auto transport = make_transport(comm, {}, TransportKind::mpi);
    Reducer reducer(comm);
    const Space space(comm, &reducer);
    for (const Grid3& grid : grids(comm.size(), whole)) {
      const Decomposition d(whole, {1, 1, 1}, grid);
      const Box block = d.block(comm.rank());
      const at::Tensor mine = test::part_of(image, block, at::kDouble);
      Metrics metrics(test::part_of(truth, block, at::kDouble), d, comm, transport);
      EXPECT_NEAR(metrics.psnr(mine, space), file.number(prefix + "psnr"), 1e-9);
      EXPECT_NEAR(metrics.ssim(mine, space), file.number(prefix + "ssim"), 1e-9);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Reference, Scores, testing::Values("color", "gray"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace tessera
