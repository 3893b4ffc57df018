// SPDX-License-Identifier: BSD-3-Clause
// A reconstruction of arrays, without a file and without a folder: a picture blurred in memory.
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>

#include <cstdio>
#include <memory>
#include <vector>

#include "tessera/app/reconstruct.hpp"
#include "tessera/core/error.hpp"
#include "tessera/domain/tensor.hpp"
#include "tessera/io/distributed_image.hpp"
#include "tessera/physics/operators.hpp"

namespace {

using namespace tessera;

// This rank's samples of an image that is 0.6 everywhere, which a blur leaves as it is.
Tensors samples(const ProductSpace& range, int rank) {
  const Box& block = range.block(0, rank);
  return {at::full({1, block.extent(1), block.extent(2)}, 0.6, at::kFloat)};  // (C, H, W)
}

// The blocks of all ranks, as one file. With comm.gather() rank 0 could have them in its memory.
void write(const Reconstruction& r, const ImageSpace& image, const Communicator& comm) {
  std::vector<std::vector<double>> ends;
  for (const Index3& end : {r.block.lo(), r.block.hi()})
    for (const std::int64_t coordinate : end)
      ends.push_back(comm.all_gather(static_cast<double>(coordinate)));
  std::vector<Box> blocks;
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(comm.size()); ++rank) {
    Index3 lo{}, hi{};
    for (std::size_t d = 0; d < 3; ++d)
      lo[d] = std::int64_t(ends[d][rank]), hi[d] = std::int64_t(ends[3 + d][rank]);
    blocks.emplace_back(lo, hi);
  }
  write_image("arrays.h5", {.space = image}, Layout(blocks), view(r.image, r.block), comm);
}

int run(const Communicator& comm) {
  ArrayProblem problem;
  problem.image = ImageSpace(Box::image2d(60, 83));
  BlurOptions blur;
  blur.kernel = gaussian_kernel({1.5, 1.5});
  blur.boundary = Boundary::reflect;
  std::vector<std::unique_ptr<LocalOperator>> parts;
  parts.push_back(make_blur(blur));
  problem.op = plan_local_stack(std::move(parts));
  problem.noise = 0.01;
  problem.samples = samples;
  const Reconstruction r =
      reconstruct(problem, "denoiser: {network: tv}\nsolver: {name: admm, iterations: 30}\n", comm);
  write(r, problem.image, comm);
  double off = r.image.numel() > 0 ? (r.image - 0.6).abs().max().item<double>() : 0.0;
  comm.all_reduce({&off, 1}, Reduce::max);
  if (comm.rank() == 0) std::printf("%d iterations, %.2g off\n", r.loop.iterations, off);
  return off < 0.05 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  MpiSession session(&argc, &argv);
  const Communicator comm = Communicator::world();
  int code = 2;
  try {
    code = run(comm);
  } catch (const InputError& e) {  // the same on all ranks
    if (comm.rank() == 0) std::fprintf(stderr, "%s\n", e.what());
  }
  session.end(code);
}
