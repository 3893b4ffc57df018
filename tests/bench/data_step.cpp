// SPDX-License-Identifier: BSD-3-Clause
// Times the data step on one rank, for data_step.sh: OMP_NUM_THREADS threads, milliseconds, the median of
// ROUNDS.
//   bench_data_step blurs ROUNDS   direct against FFT: apply and adjoint of one blur, color, by kernel and
//   image bench_data_step step ROUNDS    eight turned blurs, 512 x 512 color: the parts of an iteration
#include <ATen/Parallel.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "tessera/core/phase.hpp"
#include "tessera/domain/data_term.hpp"
#include "tessera/domain/tensor.hpp"
#include "tessera/domain/tensor_memory.hpp"
#include "tessera/physics/noise.hpp"
#include "tessera/physics/operators.hpp"
#include "tessera/solve/checkpoint.hpp"

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

// Apply and adjoint of so many equal blurs on the pixels that they reach, placed together; of one of them.
double time_blur(int rounds, std::int64_t side, const at::Tensor& kernel, BlurMethod method,
                 std::int64_t factor, std::size_t count = 1) {
  const auto op = blur(kernel, method, factor);
  const Box image = Box::image2d(side, side), input = image.grow(op->reach()),
            samples = op->measurement(image);
  const std::vector<const LocalOperator*> group(count, op.get());
  const auto placed =
      op->place(group, {image, input, std::vector<Box>(count, samples), 3, at::TensorOptions(at::kFloat)});
  const at::Tensor x = at::rand({3, input.extent(1), input.extent(2)}), back = at::zeros(x.sizes());
  const std::vector<at::Tensor> y(count, at::zeros({3, samples.extent(1), samples.extent(2)}));
  return milliseconds(rounds,
                      [&] {
                        placed->apply(x, y);
                        placed->adjoint(y, back);
                      }) /
         static_cast<double>(count);
}

void blurs(int rounds) {
  std::printf("threads factor kernel side direct_ms fft_ms fft_in_8_ms fft/direct fft_in_8/direct\n");
  for (const std::int64_t factor : {1, 2})
    for (const std::int64_t taps : {3, 5, 7, 9, 11, 13, 15, 19, 25})
      for (const std::int64_t side : {128, 512, 1024}) {
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

void step(int rounds) {
  const Communicator self;
  const Box image = Box::image2d(512, 512);
  const Decomposition whole(image, {1, 8, 8}, {1, 1, 1});
  std::vector<std::unique_ptr<LocalOperator>> parts;
  for (int k = 0; k < 8; ++k)
    parts.push_back(blur(gaussian_kernel({5.12, 2.56}, 180.0 * k / 8), BlurMethod::automatic));
  const std::shared_ptr<DistributedOperator> A = make_local_stack(
      whole, parts, 3, at::TensorOptions(at::kFloat), make_transport(self, {}, TransportKind::mpi), self);
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
  const auto line = [&](const char* what, const std::function<void()>& work) {
    std::printf("%7d %-28s %8.2f\n", at::get_num_threads(), what, milliseconds(rounds, work));
  };
  std::printf("threads what                         milliseconds\n");
  line("gradient", [&] { f->gradient(x, out), settle(); });
  line("closed-form prox", [&] { f->prox(x, 1.0, out, false), settle(); });
  line("nine inner products", [&] {
    for (int k = 0; k < 9; ++k) local_dot(x, x);
  });
  line("noise of one part", [&] { add_noise(clean.clone(), {0.01, 0.01}, 0, 0, image, image); });
  line("checksum", [&] { local_checksum(x, image, image); });
}

}  // namespace
}  // namespace tessera

int main(int count, char** arguments) {
  tessera::track_tensor_memory();
  if (count != 3) return 2;
  (std::string(arguments[1]) == "blurs" ? tessera::blurs : tessera::step)(std::atoi(arguments[2]));
}
