// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/perf/measure.hpp"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>

#include "overlap_save.hpp"
#include "tessera/core/phase.hpp"
#include "tessera/denoise/runner.hpp"
#include "tessera/domain/data_term.hpp"
#include "tessera/domain/tensor.hpp"
#include "tessera/physics/operators.hpp"
#include "tessera/solve/metrics.hpp"
#include "tessera/solve/observer.hpp"
#include "tessera/solve/solver.hpp"

namespace tessera {
namespace {

void settle(Device device) {
  if (device.is_cuda()) cudaDeviceSynchronize();
}

at::TensorOptions tensor_options(Device device, at::ScalarType type) {
  const at::TensorOptions host(type);
  return device.is_cuda() ? host.device(at::Device(at::kCUDA, static_cast<at::DeviceIndex>(device.index)))
                          : host;
}

at::ScalarType scalar_type(const std::string& precision) {
  return precision == "bfloat16" ? at::kBFloat16 : precision == "float16" ? at::kHalf : at::kFloat;
}

// A network of the convolutions that are to be timed, with weights that keep the features of order one.
class Bench {
 public:
  explicit Bench(std::int64_t channels) {
    network_.options.channels = channels;
    last_ = network_.graph.add({.op = Op::input, .channels = channels});
  }
  void convolve(Op op, int kernel, std::int64_t out, bool relu) {
    const std::int64_t in = network_.graph.nodes()[static_cast<std::size_t>(last_)].channels;
    const std::string key = concat("w", network_.weights.size());
    const std::int64_t k = op == Op::conv ? kernel : 2;
    const auto first = op == Op::conv_up ? in : out, second = op == Op::conv_up ? out : in;
    network_.weights[key] = at::randn({first, second, k, k}, at::TensorOptions(at::kFloat)) /
                            std::sqrt(static_cast<double>(in * k * k));
    last_ =
        network_.graph.add({.op = op, .inputs = {last_}, .channels = out, .kernel = kernel, .weight = key});
    if (relu) last_ = network_.graph.add({.op = Op::relu, .inputs = {last_}});
  }
  void add(int other) { last_ = network_.graph.add({.op = Op::add, .inputs = {other, last_}}); }
  int last() const { return last_; }
  const Network& network() const { return network_; }

 private:
  Network network_;
  int last_ = 0;
};

struct Timer {
  const Communicator& comm;
  Device device;
  MeasureOptions options;

  double run(const Bench& bench, std::int64_t rows, std::int64_t columns) const {
    RunnerOptions how;
    how.type = scalar_type(options.precision);
    how.tf32 = options.precision == "tf32";
    how.device = device;
    Runner runner(bench.network(), how);
    const at::Tensor x =
        at::randn({1, bench.network().channels(), rows, columns}, tensor_options(device, at::kFloat))
            .to(how.type)
            .contiguous(at::MemoryFormat::ChannelsLast);
    return time_median(comm, device, options.seconds, [&] { runner.run(x, 0); });
  }

  // Seconds of one convolution of the shape that makes rows x columns pixels.
  double convolution(const NetworkWork::Layer& layer, std::int64_t rows, std::int64_t columns) const {
    Bench bench(layer.op == Op::conv_up ? layer.out : layer.in);
    if (layer.op == Op::conv && layer.in == layer.out) {
      const int first = bench.last();
      bench.convolve(Op::conv, layer.kernel, layer.out, true);
      bench.convolve(Op::conv, layer.kernel, layer.out, false);
      bench.add(first);
      return run(bench, rows, columns) / 2;
    }
    if (layer.op == Op::conv) {
      bench.convolve(Op::conv, layer.kernel, layer.out, false);
      return run(bench, rows, columns);
    }
    if (layer.op == Op::conv_down) {
      bench.convolve(Op::conv_down, 2, layer.out, false);
      return run(bench, 2 * rows, 2 * columns);
    }
    // There is no way up from the image: down and up together, less down.
    bench.convolve(Op::conv_down, 2, layer.in, false);
    const double down = run(bench, rows, columns);
    bench.convolve(Op::conv_up, 2, layer.out, false);
    return std::max(0.2 * down, run(bench, rows, columns) - down);
  }
};

double products(const NetworkWork::Layer& layer) {
  const double taps = layer.op == Op::conv ? layer.kernel * layer.kernel : layer.op == Op::conv_down ? 4 : 1;
  return taps * static_cast<double>(layer.in * layer.out);
}

bool same(const ConvolutionRate& r, const NetworkWork::Layer& layer) {
  return r.op == layer.op && r.kernel == layer.kernel && r.in == layer.in && r.out == layer.out;
}

Throughput measure_convolutions(const Timer& timer) {
  Throughput t;
  for (const NetworkWork& network : timer.options.networks)
    for (const NetworkWork::Layer& layer : network.layers) {
      if (layer.passed > 0) continue;
      if (std::any_of(t.shapes.begin(), t.shapes.end(), [&](const auto& r) { return same(r, layer); }))
        continue;
      ConvolutionRate rate{layer.op, layer.kernel, layer.in, layer.out, {}};
      for (const std::int64_t side : {16, 48, 128, 256, 512}) {
        const double pixels = static_cast<double>(side * side);
        if (pixels * products(layer) > timer.options.largest) break;
        rate.seconds.points[pixels] = timer.convolution(layer, side, side);
      }
      t.shapes.push_back(std::move(rate));
    }
  return t;
}

// The rims of mode layer are strips of a row or two: slower than a square of as many pixels.
double measure_strips(const Timer& timer, const Throughput& t) {
  double sum = 0;
  int count = 0;
  for (const ConvolutionRate& r : t.shapes) {
    if (r.op != Op::conv || r.kernel == 1 || r.in != r.out) continue;
    const NetworkWork::Layer layer{r.op, r.kernel, r.in, r.out};
    sum += timer.convolution(layer, 1, 256) / r.seconds.at(256);
    ++count;
  }
  return count > 0 ? std::max(1.0, sum / count) : 1.0;
}

Curve measure_copies(const Communicator& comm, Device device, double seconds) {
  Curve c;
  for (const double bytes : {1e5, 1e6, 1e7, 5e7}) {
    const auto pixels =
        static_cast<std::int64_t>(bytes / 8 / 64);  // 64 channels of float32, read and written
    const at::Tensor from = at::zeros({1, 64, 1, pixels}, tensor_options(device, at::kFloat))
                                .contiguous(at::MemoryFormat::ChannelsLast);
    const at::Tensor to = from.clone();
    c.points[bytes] = time_median(comm, device, seconds, [&] { to.copy_(from); });
  }
  return c;
}

// Rows copied from a block into its halo's frame: what packing does, in one pass.
Curve measure_packing(const Communicator& comm, Device device, double seconds) {
  Curve c;
  const auto alone = make_transport(Communicator(), device, TransportKind::mpi);
  for (const std::int64_t side : {64, 256, 1024}) {
    const Box image = Box::image2d(side, side);
    const Layout own({image});
    ExchangePlan plan(own, own.grow({{0, 8, 8}, {0, 8, 8}}), image, Border::circular, 0);
    const at::TensorOptions options = tensor_options(device, at::kFloat);
    const at::Tensor block = at::zeros({3, side, side}, options);
    const Box frame = plan.need();
    const at::Tensor framed = empty_block(3, frame, options);
    double bytes = 0;
    for (const Piece& p : plan.local()) bytes += 12.0 * static_cast<double>(p.to.pixels());
    Exchange exchange(std::move(plan), alone, 3, ElementType::float32);
    c.points[bytes] = time_median(comm, device, seconds,
                                  [&] { exchange.begin(view(block, image), view(framed, frame)).wait(); });
  }
  return c;
}

double time_blur(const Communicator& comm, Device device, double seconds, const BlurOptions& options,
                 std::int64_t side) {
  const auto blur = make_blur(options);
  const Box image = Box::image2d(side, side);
  const Box input = image.grow(blur->reach());
  const at::TensorOptions tensor = tensor_options(device, at::kFloat);
  const LocalOperator* group[] = {blur.get()};
  const auto placed = blur->place(group, {image, input, {image}, 3, tensor});
  const at::Tensor x = at::zeros({3, input.extent(1), input.extent(2)}, tensor);
  const at::Tensor y = at::zeros({3, side, side}, tensor);
  return time_median(comm, device, seconds, [&] {
    placed->apply(x, {&y, 1});
    placed->adjoint({&y, 1}, x);
  });
}

void measure_operators(Machine& m, const Communicator& comm, Device device, double seconds) {
  BlurOptions blur;
  blur.kernel = gaussian_kernel({1.6, 1.6}, 0);
  blur.method = BlurMethod::fft;
  for (const std::int64_t side : {64, 256, 512}) {
    const std::int64_t overlap = blur.kernel.size(0) - 1;
    const TilePlan tiles = choose_tiles({side, side}, {overlap, overlap});
    const double transforms = 4.0 * static_cast<double>(tiles.count[0] * tiles.count[1]);
    const double values = 3.0 * static_cast<double>(tiles.side[0] * tiles.side[1]);
    m.transform.points[values] = time_blur(comm, device, seconds, blur, side) / transforms;
  }
  blur.kernel = at::zeros({5, 5}, at::kDouble) + 0.04;
  blur.method = BlurMethod::direct;
  m.direct = 2 * 25 * 3 * 512.0 * 512 / time_blur(comm, device, seconds, blur, 512);
}

class Seconds final : public Observer {
 public:
  void on_result(const IterationResult& r) override { list.push_back(r.seconds); }
  std::vector<double> list;
};

// An iteration of proximal gradient descent without an operator and without a denoiser, PSNR included.
double measure_state(const Communicator& comm, Device device) {
  constexpr std::int64_t kSide = 512;
  const Communicator alone;
  const Box image = Box::image2d(kSide, kSide);
  const Decomposition d(image, {1, 1, 1}, {1, 1, 1});
  const at::TensorOptions options = tensor_options(device, at::kFloat);
  const auto transport = make_transport(alone, device, TransportKind::mpi);
  std::vector<std::unique_ptr<LocalOperator>> parts;
  parts.push_back(make_identity());
  std::shared_ptr<DistributedOperator> op = make_local_stack(d, parts, 3, options, transport, alone);
  Reducer reducer(alone);
  const Space space(alone, &reducer);
  const at::Tensor truth = at::zeros({3, kSide, kSide}, options);
  const auto data = make_least_squares({.A = op, .y = {truth.clone()}, .weights = {}, .prox = {}}, space);
  const auto denoiser = make_identity_denoiser();
  SolverOptions solver_options;
  solver_options.iterations = 8;
  solver_options.sigma = 0.0;
  const auto solver = make_solver("pgd", {*data, *denoiser, space, solver_options, truth.clone()});
  Metrics metrics(truth, d, alone, transport);
  Seconds seconds;
  comm.barrier();
  run_loop({.solver = *solver,
            .data = *data,
            .reducer = reducer,
            .space = space,
            .stop = {8, 0, 0},
            .metrics = &metrics,
            .observers = {&seconds},
            .pixels = 3.0 * kSide * kSide});
  settle(device);
  std::sort(seconds.list.begin(), seconds.list.end());
  double median = seconds.list[seconds.list.size() / 2] / (3.0 * kSide * kSide);
  comm.all_reduce({&median, 1}, Reduce::max);
  return median;
}

}  // namespace

double time_median(const Communicator& comm, Device device, double seconds,
                   const std::function<void()>& work) {
  const auto once = [&] {
    const double start = now();
    work();
    settle(device);
    return now() - start;
  };
  once();
  double first = once();
  comm.all_reduce({&first, 1}, Reduce::max);
  const int calls = static_cast<int>(std::clamp(seconds / std::max(first, 1e-7), 2.0, 50.0));
  std::vector<double> list{first};
  for (int i = 0; i < calls; ++i) list.push_back(once());
  std::sort(list.begin(), list.end());
  double median = list[list.size() / 2];
  comm.all_reduce({&median, 1}, Reduce::max);
  return std::max(median, 1e-9);
}

bool knows(const Machine& machine, const NetworkWork& network, const std::string& precision) {
  const auto t = machine.precisions.find(precision);
  if (t == machine.precisions.end()) return false;
  for (const NetworkWork::Layer& layer : network.layers)
    if (layer.passed == 0 && std::none_of(t->second.shapes.begin(), t->second.shapes.end(),
                                          [&](const auto& r) { return same(r, layer); }))
      return false;
  return true;
}

Machine measure_machine(const Communicator& comm, const std::shared_ptr<Transport>& transport, Device device,
                        const MeasureOptions& options) {
  Machine m = guessed_machine(device.is_cuda());
  m.precisions.clear();
  m.copy = m.pack = m.transform = {};
  m.measured = true;
  m.ranks_per_node = comm.local_size();
  std::string gpu = "cpu";
  std::size_t free = 0, total = 0;
  if (cudaDeviceProp p{}; device.is_cuda() && cudaGetDeviceProperties(&p, device.index) == cudaSuccess) {
    gpu = p.name;
    m.processors = p.multiProcessorCount;
    if (cudaMemGetInfo(&free, &total) == cudaSuccess) m.memory = static_cast<double>(total);
  }
  m.fingerprint = machine_fingerprint(comm.local_size(), at::get_num_threads(), gpu);
  m.name = "this computer";
  const Timer timer{comm, device, options};
  m.precisions[options.precision] = measure_convolutions(timer);
  m.strip = measure_strips(timer, m.precisions[options.precision]);
  m.copy = measure_copies(comm, device, options.seconds);
  m.pack = measure_packing(comm, device, options.seconds);
  measure_operators(m, comm, device, options.seconds);
  m.state = measure_state(comm, device);
  measure_links(m, comm, transport, device);
  return parse_machine(comm.broadcast(write_machine(m), 0), "the measured machine");
}

}  // namespace tessera
