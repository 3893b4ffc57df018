// SPDX-License-Identifier: BSD-3-Clause
// The projector of a GPU, for tests/gpu.sh: bench_rays CASE SIDE VIEWS ROUNDS DEVICE (cpu, cuda), or bench_rays check SIDE
// VIEWS DEVICE.
//   CASE   parallel  SIDE^3 voxels, SIDE rows of 3/2 SIDE columns; cone: a detector of (3/2 SIDE)^2, SAD 2 SIDE, SDD 4 SIDE,
//                    pitch 2. A line each: seconds of projection and adjoint in batches of 32 views, the best of the
//                    rounds, voxels times views per second, and how far <A x, y> is from <x, A^T y>, relative to
//                    |A x| |y|. Exit code 1 above 1e-6.
//   check  both against Projector, the host's: relative differences. Exit code 1 above 5e-6.
#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <memory>
#include <numbers>
#include <string>

#include "tessera/domain/torch_cuda.hpp"
#include "tessera/physics/projector.hpp"
#include "tessera/physics/ray_projector.hpp"

namespace tessera {
namespace {

constexpr std::int64_t kBatch = 32;

std::shared_ptr<const ProjectionGeometry> scan_of(const std::string& name, std::int64_t side,
                                                  std::int64_t views) {
  CircularScan scan;
  scan.beam = name == "cone" ? Beam::cone : Beam::parallel;
  scan.columns = side * 3 / 2;
  scan.rows = name == "cone" ? scan.columns : side;
  scan.source_axis = 2 * static_cast<double>(side);
  scan.source_detector = 2 * scan.source_axis;
  if (name == "cone") scan.column_pitch = scan.row_pitch = 2;
  const double turn = name == "cone" ? 2 * std::numbers::pi : std::numbers::pi;
  for (std::int64_t k = 0; k < views; ++k)
    scan.angles.push_back(turn * static_cast<double>(k) / static_cast<double>(views));
  return std::make_shared<const ProjectionGeometry>(circular_geometry(scan, {{side, side, side}, {1, 1, 1}}));
}

struct Bench {
  std::shared_ptr<const ProjectionGeometry> g;
  at::TensorOptions options;
  Box volume;
  RayProjector projector;
  at::Tensor x, room, sum;  // the volume, a batch of samples, the adjoint's

  Bench(const std::string& name, std::int64_t side, std::int64_t views, at::Device device)
      : g(scan_of(name, side, views)),
        options(at::TensorOptions(at::kFloat).device(device)),
        volume(g->volume.box()),
        projector(
            g, volume, options,
            [device]() -> void* { return device.is_cuda() ? current_stream(device.index()) : nullptr; }),
        x(at::rand({side, side, side}, options)),
        room(at::rand({std::min(kBatch, views), g->rows, g->columns}, options)),
        sum(at::zeros({side, side, side}, options)) {}

  void for_batches(const std::function<void(const Box&, const at::Tensor&)>& work) const {
    const Box all = g->samples();
    for (std::int64_t v = 0; v < all.hi()[0]; v += kBatch) {
      const Box some({v, 0, 0}, {std::min(v + kBatch, all.hi()[0]), g->rows, g->columns});
      work(some, room.narrow(0, 0, some.extent(0)));
    }
  }
  // Returns after all that was begun.
  void finish() const {
    (void)room.select(0, 0).select(0, 0).select(0, 0).item().toFloat();
    (void)sum.select(0, 0).select(0, 0).select(0, 0).item().toFloat();
  }
  double best(int rounds, const std::function<void()>& work) const {
    double least = 1e9;
    for (int r = 0; r <= rounds; ++r) {  // the first one warms up
      finish();
      timespec a{}, b{};
      clock_gettime(CLOCK_MONOTONIC, &a);
      work();
      finish();
      clock_gettime(CLOCK_MONOTONIC, &b);
      if (r > 0 || rounds == 0)
        least = std::min(least, static_cast<double>(b.tv_sec - a.tv_sec) +
                                    1e-9 * static_cast<double>(b.tv_nsec - a.tv_nsec));
    }
    return least;
  }
};

double product(const at::Tensor& a, const at::Tensor& b) {
  return (a.flatten().to(at::kDouble) * b.flatten().to(at::kDouble)).sum().item().toDouble();
}

int measure(const std::string& name, std::int64_t side, std::int64_t views, int rounds, at::Device device) {
  Bench b(name, side, views, device);
  const double adjoint = b.best(rounds, [&] {
    b.for_batches([&](const Box& some, const at::Tensor& y) { b.projector.gather(some, y, b.sum); });
  });
  // <A x, y> and <x, A^T y> for one y in each batch.
  b.sum.zero_();
  const at::Tensor y = b.room.clone();
  b.for_batches([&](const Box& some, const at::Tensor& v) { b.projector.gather(some, v, b.sum); });
  double forward_sum = 0, ax = 0, yy = 0, back_sum = 0;
  for (std::int64_t d = 0; d < side; ++d) back_sum += product(b.x.select(0, d), b.sum.select(0, d));
  b.projector.load(b.x);
  b.for_batches([&](const Box& some, const at::Tensor& v) {
    b.projector.project(some, v);
    for (std::int64_t n = 0; n < some.extent(0); ++n) {
      forward_sum += product(v.select(0, n), y.select(0, n));
      ax += product(v.select(0, n), v.select(0, n));
      yy += product(y.select(0, n), y.select(0, n));
    }
  });
  const double forward = b.best(rounds, [&] {
    b.projector.load(b.x);
    b.for_batches([&](const Box& some, const at::Tensor& v) { b.projector.project(some, v); });
  });
  const double work = 1e-9 * static_cast<double>(b.volume.pixels() * views),
               off = std::abs(forward_sum - back_sum) / std::sqrt(ax * yy);
  std::printf("| %s | %lld^3, %lld views | %.4f s | %.1f | %.4f s | %.1f | %.1e |\n", name.c_str(),
              static_cast<long long>(side), static_cast<long long>(views), forward, work / forward, adjoint,
              work / adjoint, off);
  return off < 1e-6 ? 0 : 1;
}

double difference(const at::Tensor& got, const at::Tensor& wanted) {
  const at::Tensor d = got.cpu().to(at::kDouble) - wanted.to(at::kDouble);
  return std::sqrt(product(d, d) / product(wanted, wanted));
}

int check(const std::string& name, std::int64_t side, std::int64_t views, at::Device device) {
  Bench b(name, side, views, device);
  const Box all = b.g->samples();
  const at::Tensor y = at::rand({views, b.g->rows, b.g->columns}, at::kFloat),
                   ax = at::empty(y.sizes(), at::kFloat), aty = at::empty(b.x.sizes(), at::kFloat),
                   there = at::empty(y.sizes(), b.options), x = b.x.cpu();
  Projector host(b.g, b.volume);
  host.load(x.const_data_ptr<float>());
  host.project(all, ax.mutable_data_ptr<float>());
  host.clear();
  host.gather(all, y.const_data_ptr<float>());
  host.store(aty.mutable_data_ptr<float>());
  b.projector.load(b.x);
  b.projector.project(all, there);
  b.projector.gather(all, y.to(b.options.device()), b.sum);
  const double forward = difference(there, ax), back = difference(b.sum, aty);
  std::printf("| %s | %lld^3, %lld views | %.1e | %.1e |\n", name.c_str(), static_cast<long long>(side),
              static_cast<long long>(views), forward, back);
  return forward < 5e-6 && back < 5e-6 ? 0 : 1;
}

int run(int argc, char** argv) {
  const std::string name = argc > 1 ? argv[1] : "";
  const bool checks = name == "check";
  if (argc != (checks ? 5 : 6) || (!checks && name != "parallel" && name != "cone")) {
    std::fprintf(stderr,
                 "usage: bench_rays parallel|cone SIDE VIEWS ROUNDS DEVICE, or check SIDE VIEWS DEVICE\n");
    return 2;
  }
  const bool cuda = std::string(argv[argc - 1]) == "cuda";
  if (cuda && !at::globalContext().hasCUDA()) {
    std::fprintf(stderr, "no GPU is there (device cuda was asked for) use cpu\n");
    return 2;
  }
  const at::Device device = cuda ? at::Device(at::kCUDA, 0) : at::Device(at::kCPU);
  const std::int64_t side = std::atoll(argv[2]), views = std::atoll(argv[3]);
  if (!checks) return measure(name, side, views, std::atoi(argv[4]), device);
  const int parallel = check("parallel", side, views, device), cone = check("cone", side, views, device);
  return std::max(parallel, cone);
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) { return tessera::run(argc, argv); }
