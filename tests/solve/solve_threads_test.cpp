// SPDX-License-Identifier: BSD-3-Clause
// The bits of checksums and scores do not depend on the number of threads.
#include <ATen/ops/scalar_tensor.h>

#include "domain/operators.hpp"
#include "support/threads.hpp"
#include "tessera/solve/checkpoint.hpp"
#include "tessera/solve/metrics.hpp"

namespace tessera {
namespace {

TEST(SolveThreads, ChecksumsAndScoresHaveTheSameBits) {
  const Communicator self;
  const Box image = Box::image2d(301, 203);
  const at::Tensor truth = test::random_tensor({3, 301, 203}, 1) + 0.5;
  const at::Tensor x = truth + test::random_tensor({3, 301, 203}, 2) * 0.1;
  test::same_on_any_threads([&] {
    Reducer reducer(self);
    const Space space(self, &reducer);
    Metrics metrics(truth, test::cut(image, 1), self, make_transport(self, {}, TransportKind::mpi));
    const auto sum = static_cast<std::int64_t>(local_checksum(x, image, image));
    return std::vector<at::Tensor>{at::scalar_tensor(sum, at::kLong),
                                   at::scalar_tensor(metrics.psnr(x, space), at::kDouble),
                                   at::scalar_tensor(metrics.psnr_8bit(x, space), at::kDouble),
                                   at::scalar_tensor(metrics.ssim(x, space).reflected, at::kDouble),
                                   at::scalar_tensor(metrics.ssim(x, space).valid, at::kDouble)};
  });
}

}  // namespace
}  // namespace tessera
