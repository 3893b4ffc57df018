// SPDX-License-Identifier: BSD-3-Clause
// PSNR and SSIM against two references (deepinv with torchmetrics, scikit-image), on any number of ranks.
#include "tessera/solve/metrics.hpp"

#include <cmath>

#include "reference/reference.hpp"
#include "support/groups.hpp"

namespace tessera {
namespace {

// deepinv adds 1e-8 to the mean squared error; ours is the definition.
double with_offset(double psnr) { return -10 * std::log10(std::pow(10, -psnr / 10) + 1e-8); }

class Scores : public testing::TestWithParam<const char*> {
 protected:
  /// Calls check(metrics, this rank's block of the image, space) on all grids of all numbers of ranks.
  template <class Check>
  void on_all_grids(const Box& region, Check check) {
    const test::Reference file("metrics");
    const at::Tensor &truth = file[std::string(GetParam()) + ".truth"],
                     &image = file[std::string(GetParam()) + ".image"];
    const Box whole = test::image_of(truth);
    test::on_groups([&](const Communicator& comm) {
      const auto transport = make_transport(comm, {}, TransportKind::mpi);
      Reducer reducer(comm);
      const Space space(comm, &reducer);
      for (const Grid3& grid : grids(comm.size(), whole)) {
        const Decomposition d(whole, {1, 1, 1}, grid);
        const Box block = d.block(comm.rank());
        const at::Tensor own_truth = test::part_of(truth, block, at::kDouble);
        Metrics metrics = region.empty() ? Metrics(own_truth, d, comm, transport)
                                         : Metrics(own_truth, d, comm, transport, region);
        check(metrics, test::part_of(image, block, at::kDouble), space);
      }
    });
  }
};

TEST_P(Scores, AreDeepinvs) {
  const test::Reference file("metrics");
  const std::string prefix = std::string(GetParam()) + ".";
  on_all_grids({}, [&](Metrics& metrics, const at::Tensor& mine, const Space& space) {
    EXPECT_NEAR(with_offset(metrics.psnr(mine, space)), file.number(prefix + "psnr"), 1e-9);
    EXPECT_NEAR(metrics.ssim(mine, space).reflected, file.number(prefix + "ssim"), 1e-9);
  });
}

TEST_P(Scores, AreScikitImages) {
  const test::Reference file("metrics_skimage");
  const auto r = file["region"].accessor<std::int64_t, 1>();
  const Box region({0, r[0], r[2]}, {1, r[1], r[3]});
  for (const char* suffix : {".", "_region."}) {
    const std::string prefix = std::string(GetParam()) + suffix;
    on_all_grids(*suffix == '.' ? Box() : region,
                 [&](Metrics& metrics, const at::Tensor& mine, const Space& space) {
                   EXPECT_NEAR(metrics.psnr(mine, space), file.number(prefix + "psnr"), 1e-9);
                   EXPECT_NEAR(metrics.psnr_8bit(mine, space), file.number(prefix + "psnr_8bit"), 1e-9);
                   EXPECT_NEAR(metrics.ssim(mine, space).valid, file.number(prefix + "ssim_valid"), 1e-9);
                 });
  }
}

INSTANTIATE_TEST_SUITE_P(Reference, Scores, testing::Values("color", "gray"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace tessera
