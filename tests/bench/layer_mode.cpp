// SPDX-License-Identifier: BSD-3-Clause
// One pass of a network in layer mode on the ranks of this launch, for layer_mode.sh:
//   bench_layer_mode WEIGHTS SIZE DEPTH PASSES ROWS COLUMNS
// prints one JSON line. Wall time is the slowest rank's, CPU time the sum of all ranks; of PASSES passes
// after one that is not timed, the quickest.
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <limits>

#include "tessera/core/phase.hpp"
#include "tessera/denoise/denoiser.hpp"
#include "tessera/denoise/network_denoiser.hpp"
#include "tessera/domain/tensor.hpp"

namespace tessera {
namespace {

double cpu_seconds() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// A pattern of stripes and noise that depends on the global pixel alone.
at::Tensor picture(const Box& box) {
  at::Tensor x = at::zeros({3, box.extent(1), box.extent(2)});
  auto a = x.accessor<float, 3>();
  for (std::int64_t c = 0; c < 3; ++c)
    for (std::int64_t i = 0; i < box.extent(1); ++i)
      for (std::int64_t j = 0; j < box.extent(2); ++j) {
        const auto y = static_cast<double>(box.lo()[1] + i), z = static_cast<double>(box.lo()[2] + j);
        const double noise = std::sin(12.9898 * y + 78.233 * z + static_cast<double>(c)) * 43758.5453;
        a[c][i][j] = static_cast<float>(0.5 + 0.3 * std::sin(0.02 * y * (1 + 0.1 * static_cast<double>(c))) +
                                        0.1 * (noise - std::floor(noise) - 0.5));
      }
  return x;
}

int bench(char** arguments, const Communicator& comm) {
  const std::string weights = arguments[1];
  const std::int64_t size = std::atoll(arguments[2]);
  const Network network = weights == "random" ? random_network({}, 1) : load_network("drunet", weights, 3);
  const std::int64_t a = network.alignment()[1];
  const Decomposition d(Box::image2d(size, size), {1, a, a},
                        {1, std::atoi(arguments[5]), std::atoi(arguments[6])});
  const DenoiserContext context{d, ImageSpace(d.image(), 3), comm,
                                make_transport(comm, {}, TransportKind::mpi)};
  const auto denoiser = make_network_denoiser(
      network, {.mode = ExecutionMode::layer, .halo_depth = std::atoi(arguments[3])}, context);
  const at::Tensor in = picture(d.block(comm.rank()));
  at::Tensor out = at::empty_like(in);
  denoiser->apply(in, 0.05, out);

  double wall = std::numeric_limits<double>::infinity(), cpu = wall, wait = 0, halo = 0;
  for (int pass = std::atoi(arguments[4]); pass > 0; --pass) {
    take_phases();
    comm.barrier();
    const double start = now(), used = cpu_seconds();
    denoiser->apply(in, 0.05, out);
    double seconds[] = {now() - start}, total[] = {cpu_seconds() - used};
    double shares[] = {0, 0};
    for (const PhaseRecord& r : take_phases()) {
      if (r.phase != Phase::halo) continue;
      shares[0] += r.wait_seconds / seconds[0];
      shares[1] += (r.seconds - r.wait_seconds) / seconds[0];
    }
    comm.all_reduce(seconds, Reduce::max);
    comm.all_reduce(shares, Reduce::max);
    comm.all_reduce(total, Reduce::sum);
    cpu = std::min(cpu, total[0]);
    if (seconds[0] >= wall) continue;
    wall = seconds[0];
    wait = shares[0];
    halo = shares[1];
  }
  double norm[] = {out.to(at::kDouble).square().sum().item<double>()};
  comm.all_reduce(norm, Reduce::sum);
  if (comm.rank() == 0)
    std::printf(
        "{\"ranks\": %d, \"wall\": %.6f, \"cpu\": %.6f, \"wait\": %.6f, \"halo\": %.6f, \"norm\": %.9e}\n",
        comm.size(), wall, cpu, wait, halo, std::sqrt(norm[0]));
  return 0;
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  tessera::MpiSession session(&argc, &argv);
  if (argc != 7) return 2;
  tessera::track_tensor_memory();
  return tessera::bench(argv, tessera::Communicator::world());
}
