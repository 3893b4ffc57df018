// SPDX-License-Identifier: BSD-3-Clause
// Times the data step on one rank, for data_step.sh: OMP_NUM_THREADS threads, milliseconds, the median of
// ROUNDS.
//   bench_data_step blurs ROUNDS [SIDE]   direct against FFT: apply and adjoint of one blur, color, by kernel and side
//   bench_data_step step ROUNDS           eight turned blurs, 512 x 512 color: the parts of an iteration
//   (either with "turns" in the place of the rounds: for in_turn.py)
//   bench_data_step prox ROUNDS [GAMMA]   conjugate gradients with and without the preconditioner, 512 x 512 color
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tessera/core/error.hpp"
#include "tessera/core/phase.hpp"
#include "tessera/domain/data_term.hpp"
#include "tessera/domain/tensor.hpp"
#include "tessera/domain/tensor_memory.hpp"
#include "tessera/physics/noise.hpp"
#include "tessera/physics/operators.hpp"
#include "tessera/solve/checkpoint.hpp"
#include "turns.hpp"

namespace tessera {
namespace {

double milliseconds(int rounds, const std::function<void()>& work) {
  work();  // not timed: first touch, plans of transforms
  std::vector<double> times;
  for (int r = 0; r < rounds; ++r) {
    const double start = now();
    work();
    times.push_back(1e3 * (now() - start));
  }
  std::nth_element(times.begin(), times.begin() + rounds / 2, times.end());
  return times[static_cast<std::size_t>(rounds / 2)];
}

std::unique_ptr<LocalOperator> blur(const at::Tensor& kernel, BlurMethod method, std::int64_t factor = 1) {
  BlurOptions options;
  options.kernel = kernel;
  options.method = method;
  options.factor = factor;
  return make_blur(std::move(options));
}

// While it lives, what is allocated lies elsewhere than the last time: how the parts of a transform lie to each other is
// worth 3 %, and would otherwise be the same in every start.
at::Tensor other_places() {
  static std::mt19937 bits(std::random_device{}());
  return at::empty({(std::int64_t{1} << 22) + 64 * static_cast<std::int64_t>(bits() % (1 << 14))}, at::kByte);
}

// Apply and adjoint of so many equal blurs on the pixels that they reach, placed together; of one of them.
double time_blur(int rounds, std::int64_t side, const at::Tensor& kernel, BlurMethod method,
                 std::int64_t factor, std::size_t count = 1) {
  const auto op = blur(kernel, method, factor);
  const Box image = Box::image2d(side, side), input = image.grow(op->reach()),
            samples = op->measurement(image);
  const std::vector<const LocalOperator*> group(count, op.get());
  const at::Tensor gap = other_places();
  const auto placed = op->place(
      group, {ImageSpace(image, 3), input, std::vector<Box>(count, samples), at::TensorOptions(at::kFloat)});
  const at::Tensor x = at::rand({3, input.extent(1), input.extent(2)}), back = at::zeros(x.sizes());
  const std::vector<at::Tensor> y(count, at::zeros({3, samples.extent(1), samples.extent(2)}));
  return milliseconds(rounds,
                      [&] {
                        placed->apply(x, y);
                        placed->adjoint(y, back);
                      }) /
         static_cast<double>(count);
}

constexpr std::int64_t kFactors[] = {1, 2}, kTaps[] = {3, 5, 7, 9, 11, 13, 15, 19, 25};

void blurs_in_turn(const std::vector<std::int64_t>& sides) {
  std::vector<TimedRow> rows;
  for (const std::int64_t factor : kFactors)
    for (const std::int64_t taps : kTaps)
      for (const std::int64_t side : sides)
        for (const auto& [name, method, count] : {std::tuple{"direct", BlurMethod::direct, 1},
                                                  {"fft", BlurMethod::fft, 1},
                                                  {"fft in 8", BlurMethod::fft, 8}})
          rows.push_back({concat("factor ", factor, ", ", taps, " x ", taps, ", ", side, ", ", name), [=] {
                            return time_blur(1, side, at::rand({taps, taps}, at::kDouble), method, factor,
                                             static_cast<std::size_t>(count));
                          }});
  measure_in_turn(rows);
}

void blurs(int rounds, const std::vector<std::int64_t>& sides) {
  std::printf("threads factor kernel side direct_ms fft_ms fft_in_8_ms fft/direct fft_in_8/direct\n");
  for (const std::int64_t factor : kFactors)
    for (const std::int64_t taps : kTaps)
      for (const std::int64_t side : sides) {
        const at::Tensor kernel = at::rand({taps, taps}, at::kDouble);
        const double direct = time_blur(rounds, side, kernel, BlurMethod::direct, factor);
        const double fft = time_blur(rounds, side, kernel, BlurMethod::fft, factor);
        const double eight = time_blur(1 + rounds / 4, side, kernel, BlurMethod::fft, factor, 8);
        std::printf("%7d %6ld %6ld %4ld %9.2f %6.2f %11.2f %10.2f %15.2f\n", at::get_num_threads(),
                    static_cast<long>(factor), static_cast<long>(taps), static_cast<long>(side), direct, fft,
                    eight, fft / direct, eight / direct);
        std::fflush(stdout);
      }
}

// 0 rounds: for in_turn.py.
void step(int rounds) {
  const Communicator self;
  const Box image = Box::image2d(512, 512);
  const Decomposition whole(image, {1, 8, 8}, {1, 1, 1});
  std::vector<std::unique_ptr<LocalOperator>> parts;
  for (int k = 0; k < 8; ++k)
    parts.push_back(blur(gaussian_kernel({5.12, 2.56}, 180.0 * k / 8), BlurMethod::automatic));
  const at::Tensor gap = other_places();
  const std::shared_ptr<DistributedOperator> A =
      make_local_stack({ProductSpace(ImageSpace(image, 3), whole), at::TensorOptions(at::kFloat),
                        make_transport(self, {}, TransportKind::mpi), self},
                       parts);
  Reducer reducer(self);
  const Space space(self, &reducer);
  at::Tensor x = at::rand({3, 512, 512}), out = at::empty_like(x);
  Measurement y = A->make_measurement();
  A->apply(x, y);
  const auto f = make_least_squares({A, y, {}, 0.01, {}, 0}, space);
  const auto settle = [&] {
    reducer.launch();
    reducer.finish();
  };
  const at::Tensor clean = at::rand({3, 512, 512}, at::kDouble);
  const std::vector<std::pair<const char*, std::function<void()>>> lines{
      {"gradient", [&] { f->gradient(x, out), settle(); }},
      {"closed-form prox", [&] { f->prox(x, 1.0, out, false), settle(); }},
      {"nine inner products",
       [&] {
         for (int k = 0; k < 9; ++k) local_dot(x, x);
       }},
      {"noise of one part",
       [&] {
         add_noise(clean.clone(), {0.01, 0.01}, 0, 0, image, image);
       }},
      {"checksum", [&] { local_checksum(x, image, image); }}};
  if (rounds == 0) {
    std::vector<TimedRow> rows;
    for (const auto& [what, work] : lines) rows.push_back({what, [&] { return milliseconds(1, work); }});
    return measure_in_turn(rows);
  }
  std::printf("threads what                         milliseconds\n");
  for (const auto& [what, work] : lines)
    std::printf("%7d %-28s %8.2f\n", at::get_num_threads(), what, milliseconds(rounds, work));
}

// Weights over a part: all alike; nothing from a disk, one in twenty missing, half missing; 1 to 10, smooth.
at::Tensor weights_like(const at::Tensor& y, const std::string& kind) {
  const auto ramp = [](std::int64_t n) { return at::arange(n, at::kFloat).div_(static_cast<double>(n)); };
  const at::Tensor row = ramp(y.size(1)).unsqueeze(1), column = ramp(y.size(2)).unsqueeze(0);
  if (kind == "disk") return (row - 0.5).square().add((column - 0.5).square()).gt(0.04).to(at::kFloat);
  if (kind == "missing 5 %") return at::rand(y.sizes()).gt(0.05).to(at::kFloat);
  if (kind == "missing 50 %") return at::rand(y.sizes()).gt(0.5).to(at::kFloat);
  at::Tensor w = (row * 9.4).sin().mul((column * 9.4).cos()).add(1).mul(0.45).add(0.1).reciprocal();
  return w.div(w.mean()).expand_as(y).contiguous();
}

void prox(int rounds, const std::vector<double>& gammas) {
  const Communicator self;
  const std::int64_t side = 512;
  const Box image = Box::image2d(side, side);
  const Decomposition whole(image, {1, 8, 8}, {1, 1, 1});
  Reducer reducer(self);
  const Space space(self, &reducer);
  const double noise = 0.01;
  at::manual_seed(0);
  at::Tensor curve = at::zeros({15, 15}, at::kDouble);
  for (int k = 0; k < 200; ++k) {
    const double t = k / 199.0;
    curve[std::lround(7 + 5 * std::cos(3 * t))][std::lround(7 + 5 * std::sin(5 * t) * t)] += 1 / 200.0;
  }
  at::Tensor uneven = at::rand({15, 15}, at::kDouble);
  const std::vector<std::pair<const char*, at::Tensor>> kernels = {
      {"gaussian 0.7", gaussian_kernel({0.7, 0.7})},
      {"gaussian 1.6", gaussian_kernel({1.6, 1.6})},
      {"15 x 15 curve", curve},
      {"15 x 15 random", uneven.div(uneven.sum())}};
  std::printf(
      "threads boundary kernel          factor weights       gamma | plain: iterations      ms | "
      "preconditioned: iterations      ms | time ratio\n");
  const at::Tensor truth =
      at::rand({3, side / 8, side / 8}).repeat_interleave(8, 1).repeat_interleave(8, 2).contiguous();
  for (const auto& [name, kernel] : kernels)
    for (const auto& [boundary, factor] :
         {std::pair{Boundary::valid, 1}, {Boundary::reflect, 1}, {Boundary::valid, 2}})
      for (const char* kind : {"alike", "1 to 10", "disk", "missing 5 %", "missing 50 %"})
        for (const double gamma : gammas) {
          if (boundary == Boundary::reflect && kind != std::string("alike")) continue;
          BlurOptions options;
          options.kernel = kernel;
          options.boundary = boundary;
          options.factor = factor;
          std::vector<std::unique_ptr<LocalOperator>> parts;
          parts.push_back(make_blur(options));
          const std::shared_ptr<DistributedOperator> A = make_local_stack(
              {ProductSpace(ImageSpace(whole.image(), 3), whole), at::TensorOptions(at::kFloat),
               make_transport(self, {}, TransportKind::mpi), self},
              parts);
          Measurement y = A->make_measurement(), w;
          A->apply(truth, y);
          y[0].add_(at::randn(y[0].sizes()), noise);
          if (kind != std::string("alike")) w.push_back(weights_like(y[0], kind));
          const at::Tensor z = truth + 0.05 * at::randn(truth.sizes());
          double ms[2];
          std::int64_t iterations[2];
          for (const bool use : {false, true}) {
            const auto f = make_least_squares(
                {A, y, w, noise, {2000, 0, use ? Preconditioning::always : Preconditioning::never}, 0},
                space);
            at::Tensor u = A->make_image();
            ms[use] = milliseconds(rounds, [&] {
              f->prox(z, gamma, u, false);
              reducer.launch();
              reducer.finish();
            });
            const ProxReport report = f->prox_report();
            iterations[use] = report.iterations / report.calls;
          }
          std::printf("%7d %-8s %-15s %6d %-12s %6.0f | %17ld %7.2f | %25ld %7.2f | %8.2f\n",
                      at::get_num_threads(), boundary == Boundary::valid ? "valid" : "reflect", name, factor,
                      kind, gamma, static_cast<long>(iterations[0]), ms[0], static_cast<long>(iterations[1]),
                      ms[1], ms[0] / ms[1]);
          std::fflush(stdout);
        }
}

}  // namespace
}  // namespace tessera

int main(int count, char** arguments) {
  tessera::track_tensor_memory();
  if (count < 3) return 2;
  const std::string what = arguments[1];
  const int rounds = std::atoi(arguments[2]);  // 0 for "turns"
  const std::vector<std::int64_t> sides = count > 3 ? std::vector<std::int64_t>{std::atoi(arguments[3])}
                                                    : std::vector<std::int64_t>{128, 512, 1024};
  if (what == "blurs" && rounds == 0)
    tessera::blurs_in_turn(sides);
  else if (what == "blurs")
    tessera::blurs(rounds, sides);
  else if (what == "prox")
    tessera::prox(rounds, count > 3 ? std::vector<double>{std::atof(arguments[3])}
                                    : std::vector<double>{1, 5, 20, 100, 2000});
  else
    tessera::step(rounds);
}
