// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/app/geometry.hpp"

#include <ATen/Context.h>
#include <ATen/ops/empty.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "full_scale.hpp"
#include "tessera/config/parse.hpp"
#include "tessera/core/error.hpp"
#include "tessera/core/host.hpp"
#include "tessera/core/memory.hpp"
#include "tessera/core/units.hpp"
#include "tessera/domain/tensor.hpp"
#include "tessera/io/measurement_file.hpp"
#include "tessera/solve/solver.hpp"

namespace tessera {
namespace {

std::vector<OperatorConfig> flatten(const OperatorConfig& op) {
  if (op.type != "stack") return {op};
  std::vector<OperatorConfig> parts;
  for (const OperatorConfig& part : op.parts)
    for (OperatorConfig& p : flatten(part)) parts.push_back(std::move(p));
  return parts;
}

// The unknown's size from that of the first measurement: the largest image whose measurement has this size.
Box image_of_measurement(const OperatorConfig& part, const Box& measured, std::int64_t channels,
                         const Communicator& comm) {
  Box image = measured;
  for (int pass = 0; pass < 8; ++pass) {  // a kernel given as a share of the width changes with it
    const auto op = make_part(part, 0, 0, image, image, channels, comm);
    const Anchor anchor = op->anchor();
    const Reach reach = op->reach();
    Index3 hi{1, 0, 0};
    for (std::size_t d : {std::size_t{1}, std::size_t{2}}) {
      const std::int64_t wanted = measured.extent(d);
      std::int64_t n = wanted * anchor.factor[d] + reach.lo[d] + reach.hi[d];
      const auto made = [&](std::int64_t size) {
        Index3 probe{1, size, size};
        return op->measurement(Box({0, 0, 0}, probe)).extent(d);
      };
      while (n > 1 && made(n) > wanted) --n;
      TESSERA_VALIDATE(made(n) == wanted, "a measurement of ", wanted, " samples on axis ", d,
                       " (no image has it under this operator) say problem.image.size");
      hi[d] = n;
    }
    const Box next({0, 0, 0}, hi);
    if (next == image) break;
    image = next;
  }
  return image;
}

Index3 alignment_of(const std::optional<Network>& network, const Box& image) {
  const std::int64_t a = network ? network->alignment() : 1;
  return {image.extent(0) > 1 ? a : 1, a, a};
}

// What a block costs: windows' multiply-adds. The halo is clipped at the image's border, as it is when run.
// In layer mode it is the rim that is computed twice, a row on each of the levels; rows lie together in
// memory and are cheaper than columns.
BlockCost cost_of(const Geometry& g) {
  if (!g.network) return [](const Box& b) { return static_cast<double>(b.pixels()); };
  const Box image = g.image;
  if (g.job.denoiser.mode == "layer") {
    const std::int64_t rim = std::max<std::int64_t>(1, g.network->alignment() / 2);
    return [rim, image](const Box& b) {
      return static_cast<double>(
          b.grow({{0, rim, rim + 1}, {0, rim, rim + 1}}).intersect(image.hull(b)).pixels());
    };
  }
  const std::int64_t halo = g.network->halo();
  return [halo, image](const Box& b) {
    return static_cast<double>(b.grow({{0, halo, halo}, {0, halo, halo}}).intersect(image.hull(b)).pixels());
  };
}

}  // namespace

at::TensorOptions Geometry::options() const {
  const at::TensorOptions host(at::kFloat);
  return device.is_cuda() ? host.device(at::Device(at::kCUDA, static_cast<at::DeviceIndex>(device.index)))
                          : host;
}

TransportKind transport_kind(const std::string& name) {
  if (name == "mpi") return TransportKind::mpi;
  if (name == "cuda-mpi") return TransportKind::cuda_mpi;
  if (name == "nccl") return TransportKind::nccl;
  return TransportKind::automatic;
}

StartedTransport open_transport(const Geometry& g, const Communicator& comm) {
  constexpr double kPatience = 60;
  return start_transport(comm, g.device, transport_kind(g.job.domain.transport), g.decomposition.grid(),
                         std::min(g.job.watchdog, kPatience));
}

ChosenDevice choose_device(const std::string& wanted, GpuSharing sharing, const Communicator& comm) {
  return wanted == "cpu" ? ChosenDevice{} : choose_gpu(comm, wanted == "cuda", sharing);
}

std::string default_weights(const std::string& network, std::int64_t image_channels) {
  return concat(network, "_small_", image_channels == 1 ? "gray" : "color");
}

// Which of the shipped weights. Those that stay stable at low levels cost 0.7 dB where levels are high enough
// for the others, which is where hqs and admm end by themselves.
std::string job_weights(const JobConfig& job, std::int64_t channels) {
  constexpr double kEnough = 0.04;
  const ScheduleConfig& sigma = job.solver.sigma;
  const double last = sigma.values.empty() ? sigma.last : sigma.values.back();
  const bool low = !sigma.automatic && sigma.form != "dpir" && last < kEnough;
  const bool stable = low || data_step(job.solver.name) != DataStep::prox;
  return default_weights(job.denoiser.network, channels) + (stable ? "_stable" : "");
}

Network open_network(const DenoiserConfig& config, std::int64_t image_channels) {
  if (config.weights == "random") {
    NetworkOptions options;
    options.name = config.network;
    options.channels = image_channels;
    if (!config.widths.empty()) options.widths = config.widths;
    if (config.blocks) options.blocks = *config.blocks;
    if (config.depth) options.depth = *config.depth;
    return random_network(options, 0);
  }
  const std::string weights =
      config.weights.empty() ? default_weights(config.network, image_channels) : config.weights;
  return load_network(config.network, weights, image_channels);
}

namespace {

// What is 0 and 1 in the image's file, and in that of a truth that only scores.
void set_scale(Geometry& g, const std::vector<std::string>& sources, const Communicator& comm) {
  const ProblemConfig& p = g.job.problem;
  FullScale scale{p.scale.offset, p.scale.factor};
  if (p.scale.from_data) {
    const MeasurementOrigin origin = measurement_origin(p.measurements, comm);
    const double most = origin.internal ? brightest_samples(sources, origin.factor, origin.offset, comm)
                                        : brightest_samples(sources, 1, 0, comm);
    TESSERA_VALIDATE(most > p.scale.offset, "problem.scale.factor is data (no sample of ", p.measurements,
                     " lies above the offset ", p.scale.offset, ") write a number");
    scale.factor = most - p.scale.offset;
  } else if (p.scale.factor == 0) {
    scale = full_scale_of(g.data, sources, p.scale.offset, comm);
  }
  if (!scale.note.empty()) g.notices.push_back(scale.note);
  g.offset = scale.offset;
  g.factor = scale.factor;
  g.truth_scale = {g.offset, g.factor};
  // A truth of another kind of number has a white of its own; measurement and truth need not share units.
  if (!p.measurements.empty() && !p.truth.empty() && (g.truth->says_scale || g.truth->type != g.data.type)) {
    const FullScale own = full_scale_of(*g.truth, {p.truth}, 0, comm);
    const bool real = !g.truth->says_scale && g.truth->type.starts_with("float");
    if (!real || (own.factor == 1 && g.factor > 8)) g.truth_scale = {own.offset, own.factor};
    if (g.truth_scale != std::array{g.offset, g.factor})
      g.notices.push_back(concat("the truth is in units of its own (", g.truth->type, ", the measurement is ",
                                 g.data.type, "): ", g.truth_scale[0], " is 0 and ",
                                 g.truth_scale[0] + g.truth_scale[1], " is 1"));
  }
}

}  // namespace

Geometry plan_geometry(const JobConfig& job, const Communicator& comm, int ranks) {
  Geometry g;
  g.job = job;
  g.notices = job.notices;
  g.parts = flatten(job.problem.op);
  g.grid_given = !job.domain.grid.empty();
  const ProblemConfig& p = job.problem;
  std::vector<std::string> sources;  // of the image's units

  if (!p.truth.empty()) {
    g.truth = image_source_info(p.truth, comm);
    if (!g.truth->note.empty()) g.notices.push_back(g.truth->note);
    g.image = g.truth->box;
    g.channels = g.truth->channels;
    g.data = *g.truth;
    sources = {p.truth};
  } else if (!p.scene.size.empty()) {
    g.truth = SourceInfo{.box = Box::image2d(p.scene.size[0], p.scene.size[1]),
                         .channels = p.scene.channels,
                         .type = "float32",
                         .says_scale = true};
    g.image = g.truth->box;
    g.channels = g.truth->channels;
    g.data = *g.truth;
  }
  if (const std::int64_t n = p.simulate.finer; n > 1) {
    TESSERA_VALIDATE(g.image.extent(1) % n == 0 && g.image.extent(2) % n == 0, "problem.simulate.finer is ",
                     n, " (the truth has ", g.image.extent(1), " x ", g.image.extent(2),
                     " pixels, no multiple of it) cut the truth to one");
    g.image = Box::image2d(g.image.extent(1) / n, g.image.extent(2) / n);
  }
  if (!p.measurements.empty()) {
    const std::vector<MeasurementPartInfo> parts = measurement_info(p.measurements, comm);
    TESSERA_VALIDATE(parts.size() == g.parts.size(), p.measurements, " holds ", parts.size(),
                     " measurements (the operator has ", g.parts.size(), " parts) give one for each");
    if (!g.truth) {
      g.channels = parts[0].channels;
      g.image = p.image.size.empty() ? image_of_measurement(g.parts[0], parts[0].box, g.channels, comm)
                                     : Box::image2d(p.image.size[0], p.image.size[1]);
    }
    g.data = parts[0].source;
    if (!g.data.note.empty()) g.notices.push_back(g.data.note);
    sources.clear();
    for (const MeasurementPartInfo& part : parts) sources.push_back(part.path);
  }
  if (g.truth && !p.image.size.empty())
    TESSERA_VALIDATE(g.image == Box::image2d(p.image.size[0], p.image.size[1]), "problem.image.size is ",
                     p.image.size[0], " x ", p.image.size[1], " (the truth has ", g.image.extent(1), " x ",
                     g.image.extent(2), ") leave it out");
  if (p.image.channels > 0)
    TESSERA_VALIDATE(p.image.channels == g.channels, "problem.image.channels is ", p.image.channels,
                     " (the data have ", g.channels, ") leave it out");
  set_scale(g, sources, comm);
  g.job.problem.scale = {.offset = g.offset, .factor = g.factor};
  NoiseConfig& noise = g.job.problem.noise;
  if (noise.unit == "file") {
    noise.gaussian /= g.factor;
    noise.poisson /= g.factor;
    noise.unit = "internal";
  }

  if (job.denoiser.network != "tv" && job.denoiser.network != "none") {
    if (job.denoiser.weights.empty()) g.job.denoiser.weights = job_weights(job, g.channels);
    comm.together([&] { g.network = open_network(g.job.denoiser, g.channels); });
  }
  const ChosenDevice chosen =
      choose_device(job.device, job.domain.share_gpu ? GpuSharing::allowed : GpuSharing::refused, comm);
  g.device = chosen.device;
  g.sharers = chosen.sharers;

  const Index3 alignment = alignment_of(g.network, g.image);
  if (job.domain.grid.empty()) {
    g.decomposition = Decomposition::choose(g.image, alignment, ranks, cost_of(g));
  } else {
    TESSERA_VALIDATE(job.domain.grid[0] * job.domain.grid[1] == ranks, "domain.grid is [", job.domain.grid[0],
                     ", ", job.domain.grid[1], "] (", job.domain.grid[0] * job.domain.grid[1], " blocks for ",
                     ranks, " ranks) start as many ranks, or write 'grid: auto'");
    g.decomposition = Decomposition(
        g.image, alignment, {1, static_cast<int>(job.domain.grid[0]), static_cast<int>(job.domain.grid[1])});
  }
  const Grid3 grid = g.decomposition.grid();
  g.job.domain.grid = {grid[1], grid[2]};
  int idle = 0;
  for (int r = 0; r < ranks; ++r) idle += g.decomposition.block(r).empty();
  if (idle > 0)
    g.notices.push_back(concat(idle, " of ", ranks, " ranks hold no pixels (the image has fewer blocks of ",
                               alignment[1], " x ", alignment[2],
                               " pixels than ranks) fewer ranks do the same work"));
  return g;
}

Geometry with_image(const Geometry& g, const Box& image, int ranks) {
  Geometry other = g;
  other.image = image;
  other.decomposition = Decomposition::choose(image, alignment_of(g.network, image), ranks, cost_of(other));
  const Grid3 grid = other.decomposition.grid();
  other.job.domain.grid = {grid[1], grid[2]};
  return other;
}

std::int64_t available_bytes(const Geometry& g, int ranks_on_host) {
  if (!g.device.is_cuda()) return host_memory().available / std::max(1, ranks_on_host);
  std::size_t free = 0, total = 0;  // of the current device, which is this rank's
  if (cudaMemGetInfo(&free, &total) != cudaSuccess) free = static_cast<std::size_t>(host_memory().available);
  return static_cast<std::int64_t>(free) / g.sharers;
}

namespace {

// Bytes of one rank that are not features, from above: state, truth, measurement, halos, and what a step or
// the simulation takes for a moment. Up to 15 images were measured with one blur (hqs with conjugate
// gradients and a truth).
std::int64_t other_bytes(const Geometry& g) {
  const std::int64_t halo = g.network ? g.network->halo() : 0;
  std::int64_t pixels = 0, window = 0, numbers = 0;
  for (int r = 0; r < g.decomposition.ranks(); ++r) {
    const Box block = g.decomposition.padded_block(r);
    pixels = std::max(pixels, block.pixels());
    window = std::max(
        window, block.grow({{0, halo, halo}, {0, halo, halo}}).intersect(g.decomposition.padded()).pixels());
  }
  if (g.network)
    for (const auto& [name, weight] : g.network->weights) numbers += weight.numel();
  // Weights: as read, and as the convolutions want them, which is 4 times as much for Winograd's.
  const std::string& precision = g.job.denoiser.precision;
  const bool sixteen = precision == "bfloat16" || precision == "float16";
  const double each = g.device.is_cuda() ? (sixteen ? 2.2 : 4.4) : sixteen ? 6.4 : 20.8;
  const auto parts = static_cast<std::int64_t>(g.parts.size());
  return 4 * g.channels * ((16 + 5 * parts) * pixels + 2 * window) +
         static_cast<std::int64_t>(each * static_cast<double>(numbers)) + (std::int64_t{16} << 20);
}

}  // namespace

ExecutionMode execution_mode(const std::string& name) {
  if (name == "whole") return ExecutionMode::whole;
  if (name == "patch") return ExecutionMode::patch;
  if (name == "layer") return ExecutionMode::layer;
  return ExecutionMode::automatic;
}

Averaging averaging(const std::string& name) {
  if (name == "cycle") return Averaging::cycle;
  if (name == "flips") return Averaging::flips4;
  if (name == "all") return Averaging::all8;
  return Averaging::none;
}

int turns(Averaging averaging) {
  return averaging == Averaging::flips4 ? 4 : averaging == Averaging::all8 ? 8 : 1;
}

ExecutionOptions execution_options(const Geometry& g, int ranks_on_host) {
  const DenoiserConfig& d = g.job.denoiser;
  ExecutionOptions o;
  o.mode = execution_mode(d.mode);
  o.patch = d.patch.value_or(0);
  o.batch = d.batch.value_or(0);
  o.halo_depth = static_cast<int>(d.halo_depth.value_or(0));
  o.averaging = averaging(d.averaging);
  o.type = d.precision == "bfloat16" ? at::kBFloat16 : d.precision == "float16" ? at::kHalf : at::kFloat;
  o.tf32 = d.precision == "tf32";
  o.device = g.device;
  // Features take what a budget leaves beside everything else; without one, at most half of what is free.
  const std::int64_t available = available_bytes(g, ranks_on_host);
  o.memory_bytes = available / 2;
  if (!g.network) return o;
  const auto budget = memory_budget(g.job, available);
  // A budget is of the whole process; what is free is beside what it has already.
  const std::int64_t program = budget && !g.device.is_cuda() ? process_bytes() : 0;
  const std::int64_t other = other_bytes(g) + program, most = budget.value_or(available);
  TESSERA_VALIDATE(most > other, budget ? "memory is " : "free memory is ",
                   format_bytes(static_cast<double>(most)), " per rank (",
                   program > 0 ? "program, libraries, state" : "state",
                   ", data and weights of a rank take up to ", format_bytes(static_cast<double>(other)),
                   ", which leaves the network nothing) ",
                   budget ? "raise it, or use more ranks" : "use more ranks on more nodes");
  o.memory_bytes = budget ? most - other : std::min(o.memory_bytes, most - other);
  return o;
}

std::unique_ptr<Denoiser> make_denoiser(const Geometry& g, const Communicator& comm,
                                        const std::shared_ptr<Transport>& transport) {
  const DenoiserContext context{g.decomposition, g.channels, comm, transport};
  const DenoiserConfig& d = g.job.denoiser;
  if (d.network == "none") return make_identity_denoiser();
  if (d.network == "tv")
    return make_total_variation(
        {.weight = d.weight, .iterations = static_cast<int>(d.iterations), .tolerance = d.tolerance}, context,
        g.options());
  ExecutionOptions options = execution_options(g, comm.local_size());
  comm.all_reduce({&options.memory_bytes, 1}, Reduce::min);  // the cut into windows is the same on all ranks
  return make_network_denoiser(*g.network, options, context);
}

}  // namespace tessera
