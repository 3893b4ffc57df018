// SPDX-License-Identifier: BSD-3-Clause
// A reconstruction of arrays, without a file and without a folder: an operator and a denoiser of one's own.
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>

#include <cstdio>

#include "tessera/app/operator_table.hpp"
#include "tessera/app/reconstruct.hpp"
#include "tessera/denoise/denoiser_table.hpp"

namespace tessera {
OperatorRow exposures();
DenoiserRow shrink();
}  // namespace tessera

int main(int argc, char** argv) {
  using namespace tessera;
  MpiSession session(&argc, &argv);
  denoiser_table().push_back(shrink());
  const Communicator comm = Communicator::world();
  ArrayProblem problem;
  problem.image = ImageSpace(Box::image2d(60, 83));
  OperatorConfig config;
  OperatorFiles files;
  problem.op = exposures().global({config, 0, 0, problem.image, {}, files, comm});
  problem.noise = 0.01;
  problem.samples = [](const ProductSpace& range, int rank) {  // of an image that is 0.6 everywhere
    const Box& block = range.block(0, rank);
    at::Tensor y = at::full({1, block.extent(0), block.extent(1), block.extent(2)}, 0.6, at::kFloat);
    for (std::int64_t t = 0; t < y.size(1); ++t) y.select(1, t).div_(static_cast<double>(1 << t));
    return Tensors{y};
  };
  const Reconstruction r =
      reconstruct(problem, "denoiser: {network: shrink}\nsolver: {name: admm, iterations: 30}\n", comm);
  double off = r.image.numel() > 0 ? (r.image - 0.6).abs().max().item<double>() : 0.0;
  comm.all_reduce({&off, 1}, Reduce::max);
  if (comm.rank() == 0) std::printf("%d iterations, %.2g off\n", r.loop.iterations, off);
  session.end(off < 0.05 ? 0 : 1);
}
