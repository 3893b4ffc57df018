// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/perf/measure.hpp"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>

#include "tessera/core/host.hpp"
#include "tessera/core/phase.hpp"
#include "tessera/denoise/execution.hpp"
#include "tessera/denoise/runner.hpp"
#include "tessera/domain/data_term.hpp"
#include "tessera/domain/tensor.hpp"
#include "tessera/physics/operators.hpp"
#include "tessera/solve/metrics.hpp"
#include "tessera/solve/observer.hpp"
#include "tessera/solve/solver.hpp"

namespace tessera {
namespace {

// Two convolutions of a shape in a row as in a residual block, with weights that keep the features of order
// one.
Network residual_block(const LayerRate& shape) {
  Network network;
  network.options.channels = shape.in;
  const int first = network.graph.add({.op = Op::input, .channels = shape.in});
  int last = first;
  for (const char* key : {"a", "b"}) {
    const std::int64_t k = shape.kernel;
    network.weights[key] = at::randn({shape.out, shape.in, k, k}, at::TensorOptions(at::kFloat)) /
                           std::sqrt(static_cast<double>(shape.in * k * k));
    last = network.graph.add(
        {.op = Op::conv, .inputs = {last}, .channels = shape.out, .kernel = shape.kernel, .weight = key});
    if (last == first + 1) last = network.graph.add({.op = Op::relu, .inputs = {last}});
  }
  network.graph.add({.op = Op::add, .inputs = {first, last}});
  return network;
}

// The rims of mode layer are strips of a row or two: slower than a square of as many pixels.
double measure_strips(const Communicator& comm, Device device, const MeasureOptions& options,
                      const Throughput& t) {
  RunnerOptions how;
  how.type = scalar_type(options.precision);
  how.tf32 = options.precision == Precision::tf32;
  how.device = device;
  double sum = 0;
  int count = 0;
  for (const LayerRate& r : t.layers) {
    if (r.op != Op::conv || r.kernel == 1 || r.in != r.out) continue;
    Runner runner(residual_block(r), how);
    const auto seconds = [&](std::int64_t rows, std::int64_t columns) {
      const at::Tensor x = at::randn({1, r.in, rows, columns}, tensor_options(device))
                               .to(how.type)
                               .contiguous(at::MemoryFormat::ChannelsLast);
      return time_median(comm, device, options.seconds, [&] { runner.run(x, 0); });
    };
    sum += seconds(1, 256) / seconds(16, 16);
    ++count;
  }
  return count > 0 ? std::max(1.0, sum / count) : 1.0;
}

// Writes more than a core's caches hold, as a pass of a network does between two data steps: what is timed
// next finds its tensors where a run would.
class Sweep {
 public:
  explicit Sweep(Device device) : memory_(at::empty({kBytes / 4}, tensor_options(device))) {}
  void operator()() const { memory_.fill_(1); }

 private:
  static constexpr std::int64_t kBytes = std::int64_t{1} << 26;
  at::Tensor memory_;
};

Curve measure_copies(const Communicator& comm, Device device, double seconds) {
  Curve c;
  for (const double bytes : {1e5, 1e6, 1e7, 5e7}) {
    const auto pixels =
        static_cast<std::int64_t>(bytes / 8 / 64);  // 64 channels of float32, read and written
    const at::Tensor from =
        at::rand({1, 64, 1, pixels}, tensor_options(device)).contiguous(at::MemoryFormat::ChannelsLast);
    const at::Tensor to = from.clone();
    c.points[bytes] = time_median(comm, device, seconds, [&] { to.copy_(from); });
  }
  return c;
}

// Rows copied from a block into its halo's frame: what packing does, in one pass.
Curve measure_packing(const Communicator& comm, Device device, double seconds) {
  Curve c;
  const Sweep sweep(device);
  const auto alone = make_transport(Communicator(), device, TransportKind::mpi);
  for (const std::int64_t side : {64, 256, 1024}) {
    const Box image = Box::image2d(side, side);
    const Layout own({image});
    ExchangePlan plan(own, own.grow({{0, 8, 8}, {0, 8, 8}}), image, Border::circular, 0);
    const at::TensorOptions options = tensor_options(device);
    const at::Tensor block = at::rand({3, side, side}, options);
    const Box frame = plan.need();
    const at::Tensor framed = empty_block(3, frame, options);
    double bytes = 0;
    for (const Piece& p : plan.local()) bytes += 12.0 * static_cast<double>(p.to.pixels());
    Exchange exchange(std::move(plan), alone, 3, ElementType::float32);
    c.points[bytes] = time_median(
        comm, device, seconds, [&] { exchange.begin(view(block, image), view(framed, frame)).wait(); },
        sweep);
  }
  return c;
}

double time_blur(const Communicator& comm, Device device, double seconds, const BlurOptions& options,
                 std::int64_t side) {
  const auto blur = make_blur(options);
  const Box image = Box::image2d(side, side);
  const Box input = image.grow(blur->reach());
  const at::TensorOptions tensor = tensor_options(device);
  const LocalOperator* group[] = {blur.get()};
  const auto placed = blur->place(group, {ImageSpace(image, 3), input, {image}, tensor});
  const at::Tensor x = at::rand({3, input.extent(1), input.extent(2)}, tensor);  // zeros share one page
  const at::Tensor y = at::rand({3, side, side}, tensor);
  const auto there_and_back = [&] {
    placed->apply(x, {&y, 1});
    placed->adjoint({&y, 1}, x);
  };
  return time_median(comm, device, seconds, there_and_back, Sweep(device));
}

void measure_operators(Machine& m, const Communicator& comm, Device device, double seconds) {
  BlurOptions blur;
  blur.kernel = gaussian_kernel({1.6, 1.6}, 0);
  blur.method = BlurMethod::fft;
  for (const std::int64_t side : {64, 128, 256, 512}) {
    const auto op = make_blur(blur);
    const LocalOperator* group[] = {op.get()};
    const Box samples[] = {Box::image2d(side, side)};
    const OperatorWork::Transforms work = op->work(group, samples, 3).transforms.front();
    m.transform.points[work.values] = time_blur(comm, device, seconds, blur, side) / work.count;
  }
  constexpr std::int64_t taps = 9, side = 512;
  blur.kernel = at::ones({taps, taps}, at::kDouble).div_(taps * taps);
  blur.method = BlurMethod::direct;
  const auto op = make_blur(blur);
  const LocalOperator* group[] = {op.get()};
  const Box samples[] = {Box::image2d(side, side)};
  const OperatorWork work = op->work(group, samples, 3);
  const double whole = time_blur(comm, device, seconds, blur, side);
  m.direct = work.products / std::max(0.1 * whole, whole - m.copy.at(work.bytes));
}

class Seconds final : public Observer {
 public:
  void on_result(const IterationResult& r) override { list.push_back(r.seconds); }
  std::vector<double> list;
};

// Stands for a network: takes the caches, and says how long it took.
class SweepingDenoiser final : public Denoiser {
 public:
  explicit SweepingDenoiser(Device device) : device_(device), sweep_(device) {}
  void apply(const at::Tensor& in, double, at::Tensor& out) override {
    settle(device_);
    const double start = now();
    out.copy_(in);
    sweep_();
    settle(device_);
    list.push_back(now() - start);
  }
  std::int64_t bytes_sent() const override { return 0; }
  std::string description() const override { return "sweep"; }
  std::vector<double> list;  // seconds of each call

 private:
  Device device_;
  Sweep sweep_;
};

// An iteration of proximal gradient descent without an operator and without a denoiser, PSNR included.
double measure_state(const Communicator& comm, Device device, std::int64_t side) {
  const Communicator alone;
  const Box image = Box::image2d(side, side);
  const Decomposition d(image, {1, 1, 1}, {1, 1, 1});
  const at::TensorOptions options = tensor_options(device);
  const auto transport = make_transport(alone, device, TransportKind::mpi);
  std::vector<std::unique_ptr<LocalOperator>> parts;
  parts.push_back(make_identity());
  std::shared_ptr<DistributedOperator> op =
      make_local_stack({ProductSpace(ImageSpace(d.image(), 3), d), options, transport, alone}, parts);
  Reducer reducer(alone);
  const Space space(alone, &reducer);
  const at::Tensor truth = at::rand({3, side, side}, options);
  const auto data = make_least_squares({.A = op, .y = {truth.clone()}, .weights = {}, .prox = {}}, space);
  SweepingDenoiser denoiser(device);
  SolverOptions solver_options;
  solver_options.iterations = 8;
  solver_options.sigma = 0.0;
  const auto solver = make_solver(kTimedSolver, {*data, denoiser, space, solver_options, truth.clone()});
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
            .pixels = 3.0 * static_cast<double>(side * side)});
  settle(device);
  std::vector<double> rest;  // of each iteration
  for (std::size_t i = 0; i < seconds.list.size(); ++i) rest.push_back(seconds.list[i] - denoiser.list[i]);
  std::sort(rest.begin(), rest.end());
  double median = std::max(1e-9, rest[rest.size() / 2]);
  comm.all_reduce({&median, 1}, Reduce::max);
  return median;
}

}  // namespace

void settle(Device device) {
  if (device.is_cuda()) cudaDeviceSynchronize();
}

double time_median(const Communicator& comm, Device device, double seconds, const std::function<void()>& work,
                   const std::function<void()>& before) {
  const auto once = [&] {
    if (before) before();
    settle(device);
    const double start = now();
    work();
    settle(device);
    return now() - start;
  };
  const double begin = now();
  once();
  double first = once(), both = now() - begin;
  comm.all_reduce({&both, 1}, Reduce::max);
  const int calls = static_cast<int>(std::clamp(2 * seconds / std::max(both, 1e-7), 2.0, 50.0));
  std::vector<double> list{first};
  for (int i = 0; i < calls; ++i) list.push_back(once());
  std::sort(list.begin(), list.end());
  double median = list[list.size() / 2];
  comm.all_reduce({&median, 1}, Reduce::max);
  return std::max(median, 1e-9);
}

Machine measure_machine(const Communicator& comm, const std::shared_ptr<Transport>& transport, Device device,
                        const MeasureOptions& options) {
  Machine m = guessed_machine(device.is_cuda());
  m.precisions.clear();
  m.copy = m.pack = m.transform = {};
  m.measured = true;
  m.ranks_per_node = comm.local_size();
  m.memory = static_cast<double>(host_memory().total / comm.local_size());
  std::string gpu = "cpu";
  std::size_t free = 0, total = 0;
  if (cudaDeviceProp p{}; device.is_cuda() && cudaGetDeviceProperties(&p, device.index) == cudaSuccess) {
    gpu = p.name;
    m.processors = p.multiProcessorCount;
    if (cudaMemGetInfo(&free, &total) == cudaSuccess) m.memory = static_cast<double>(total);
  }
  m.fingerprint = machine_fingerprint(comm.local_size(), at::get_num_threads(), gpu);
  m.name = "this computer";
  Throughput& layers = m.precisions[options.precision];
  for (const Network* network : options.networks) measure_network(comm, device, *network, options, layers);
  m.strip = measure_strips(comm, device, options, layers);
  m.copy = measure_copies(comm, device, options.seconds);
  m.pack = measure_packing(comm, device, options.seconds);
  measure_operators(m, comm, device, options.seconds);
  m.state = {};
  for (const std::int64_t side : {64, 128, 256, 512, 1024})
    m.state.points[3.0 * static_cast<double>(side * side)] = measure_state(comm, device, side);
  measure_links(m, comm, transport, device);
  return parse_machine(comm.broadcast(write_machine(m), 0), "the measured machine");
}

}  // namespace tessera
