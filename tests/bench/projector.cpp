// SPDX-License-Identifier: BSD-3-Clause
// Times the projector, for tomography.sh: bench_projector CASE ROUNDS [SIDE], OMP_NUM_THREADS threads. A
// line each for the forward projection and the adjoint: wall seconds and CPU seconds of all threads (both
// the best of the rounds, the copies into and out of the kernels' layout counted) and, of the first, the
// relative error against the closed form of a smooth ball or disk, sin^2 shaped, in all samples.
//   CASE  parallel2  SIDE^2 (1024), SIDE 720 / 1024 views, 1.5 SIDE columns
//         fan2       the same by a fan
//         parallel3  SIDE^3 (256), 360 views, 368 columns of 256
//         cone       SIDE^3 (256), 90 views, detector (2 SIDE)^2, SAD 2 SIDE, SDD 4 SIDE
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <memory>
#include <numbers>
#include <string>
#include <vector>

#include "tessera/physics/projection_geometry.hpp"
#include "tessera/physics/projector.hpp"

namespace tessera {
namespace {

double seconds(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

struct Times {
  double wall = 1e9, cpu = 1e9;
};
Times best(int rounds, const std::function<void()>& work) {
  Times best;
  for (int r = 0; r < rounds; ++r) {
    const double wall = seconds(CLOCK_MONOTONIC), cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
    work();
    best.wall = std::min(best.wall, seconds(CLOCK_MONOTONIC) - wall);
    best.cpu = std::min(best.cpu, seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu);
  }
  return best;
}

// (1 - r^2)^2 inside of the radius: its line integral at distance p is 16/15 R (1 - (p/R)^2)^(5/2).
double density(double square) { return square < 1 ? (1 - square) * (1 - square) : 0; }
double integral(double radius, double square) {
  return square < 1 ? 16.0 / 15 * radius * std::pow(1 - square, 2.5) : 0;
}

int run(const std::string& name, int rounds, std::int64_t side) {
  const bool flat = name == "parallel2" || name == "fan2";
  if (side == 0) side = flat ? 1024 : 256;
  CircularScan scan;
  scan.beam = name == "cone" ? Beam::cone : name == "fan2" ? Beam::fan : Beam::parallel;
  const double n = static_cast<double>(side);
  std::int64_t views = flat ? 720 * side / 1024 : name == "cone" ? 90 : 360;
  scan.columns = flat ? side * 3 / 2 : name == "cone" ? 2 * side : side * 368 / 256;
  scan.rows = flat ? 1 : name == "cone" ? 2 * side : side;
  scan.source_axis = 2 * n;
  scan.source_detector = 4 * n;
  if (name == "fan2") scan.column_pitch = 2;
  const double turn = scan.beam == Beam::parallel ? std::numbers::pi : 2 * std::numbers::pi;
  for (std::int64_t k = 0; k < views; ++k)
    scan.angles.push_back(turn * static_cast<double>(k) / static_cast<double>(views));
  const VolumeGrid grid{{flat ? 1 : side, side, side}, {1, 1, 1}};
  const auto g = std::make_shared<const ProjectionGeometry>(circular_geometry(scan, grid));
  const Box samples = g->samples(), volume = grid.box();
  std::vector<float> x(static_cast<std::size_t>(volume.pixels())),
      y(static_cast<std::size_t>(samples.pixels()));
  const double radius = 0.4 * n;
  const Vector3 center{0.05 * n, -0.03 * n, flat ? 0 : 0.02 * n};
  std::size_t i = 0;
  for (std::int64_t d = 0; d < grid.size[0]; ++d)
    for (std::int64_t h = 0; h < side; ++h)
      for (std::int64_t w = 0; w < side; ++w) {
        const double p[] = {static_cast<double>(w) - 0.5 * (n - 1) - center[0],
                            static_cast<double>(h) - 0.5 * (n - 1) - center[1],
                            static_cast<double>(d) - 0.5 * static_cast<double>(grid.size[0] - 1) - center[2]};
        x[i++] = static_cast<float>(density((p[0] * p[0] + p[1] * p[1] + p[2] * p[2]) / (radius * radius)));
      }
  const Times forward = best(rounds, [&] {
    Projector projector(g, volume);
    projector.load(x.data());
    projector.project(samples, y.data());
  });
  double error = 0, norm = 0;
  i = 0;
  for (const ProjectionView& view : g->views)
    for (std::int64_t j = 0; j < scan.rows; ++j)
      for (std::int64_t c = 0; c < scan.columns; ++c) {
        double off[3], way[3], along = 0, length = 0, square = 0;
        for (std::size_t k = 0; k < 3; ++k) {
          const double p =
              view.center[k] +
              (static_cast<double>(c) - 0.5 * static_cast<double>(scan.columns - 1)) * view.u[k] +
              (static_cast<double>(j) - 0.5 * static_cast<double>(scan.rows - 1)) * view.v[k];
          off[k] = p - center[k];
          way[k] = scan.beam == Beam::parallel ? view.source[k] : p - view.source[k];
          along += off[k] * way[k];
          length += way[k] * way[k];
          square += off[k] * off[k];
        }
        const double exact = integral(radius, (square - along * along / length) / (radius * radius));
        const double miss = exact - static_cast<double>(y[i++]);
        error += miss * miss;
        norm += exact * exact;
      }
  const Times adjoint = best(rounds, [&] {
    Projector projector(g, volume);
    projector.clear();
    projector.gather(samples, y.data());
    projector.store(x.data());
  });
  const double work = static_cast<double>(volume.pixels() * views);
  std::printf("%-10s %5lld forward %8.3f s wall %8.3f s cpu  %6.2f G voxel views/s  error %.2e\n",
              name.c_str(), static_cast<long long>(side), forward.wall, forward.cpu,
              1e-9 * work / forward.wall, std::sqrt(error / norm));
  std::printf("%-10s %5lld adjoint %8.3f s wall %8.3f s cpu  %6.2f G voxel views/s\n", name.c_str(),
              static_cast<long long>(side), adjoint.wall, adjoint.cpu, 1e-9 * work / adjoint.wall);
  return 0;
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  const std::string name = argc > 1 ? argv[1] : "";
  if (name != "parallel2" && name != "fan2" && name != "parallel3" && name != "cone") {
    std::fprintf(stderr, "usage: bench_projector parallel2|fan2|parallel3|cone ROUNDS [SIDE]\n");
    return 2;
  }
  return tessera::run(name, argc > 2 ? std::atoi(argv[2]) : 3, argc > 3 ? std::atoll(argv[3]) : 0);
}
