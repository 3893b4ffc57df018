// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/app/geometry.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "full_scale.hpp"
#include "tessera/app/job_denoiser.hpp"
#include "tessera/core/error.hpp"
#include "tessera/core/image_space.hpp"
#include "tessera/core/units.hpp"
#include "tessera/denoise/denoiser_table.hpp"
#include "tessera/denoise/network_denoiser.hpp"
#include "tessera/domain/operator_algebra.hpp"
#include "tessera/domain/tensor.hpp"
#include "tessera/domain/torch_cuda.hpp"
#include "tessera/io/image_format.hpp"
#include "tessera/io/measurement_file.hpp"
#include "tessera/solve/solver.hpp"

namespace tessera {
namespace {

std::vector<OperatorConfig> flatten(const OperatorConfig& op) {
  if (op.parts.empty()) return {op};
  std::vector<OperatorConfig> parts;
  for (const OperatorConfig& part : op.parts)
    for (OperatorConfig& p : flatten(part)) parts.push_back(std::move(p));
  return parts;
}

// The unknown's size from that of the first measurement: the largest image whose measurement has this size.
ImageSpace image_of_measurement(Geometry g, const Communicator& comm) {
  const Box measured = g.image.box;
  for (int pass = 0; pass < 8; ++pass) {  // a kernel given as a share of the width changes with it
    const std::optional<Box> next = describe(g, {g.parts[0]}, 0, {}, comm)->image_of(measured);
    TESSERA_VALIDATE(next, "a measurement of ", sides(measured),
                     " samples (no image has it under this operator, or many have) say problem.image.size");
    if (*next == g.image.box) break;
    g.image = ImageSpace(*next, g.image.channels);
  }
  return g.image;
}

std::vector<std::int64_t> grid_text(const Grid3& grid, const Box& image) {
  std::vector<std::int64_t> out{grid[0], grid[1], grid[2]};
  if (!ImageSpace(image).volume()) out.erase(out.begin());
  return out;
}

Index3 alignment_of(const std::optional<Network>& network) {
  return network ? network->alignment() : Index3{1, 1, 1};
}

// What a block costs: windows' multiply-adds. The halo is clipped at the image's border, as it is when run.
// In layer mode it is the rim that is computed twice, a row on each of the levels; rows lie together in
// memory and are cheaper than columns.
BlockCost cost_of(const Geometry& g) {
  if (!g.network) return [](const Box& b) { return static_cast<double>(b.pixels()); };
  const Box image = g.image.box;
  if (g.job.execution.mode == ExecutionMode::layer || g.network->graph.global()) {
    const std::int64_t rim = std::max<std::int64_t>(1, longest(g.network->alignment()) / 2);
    const std::int64_t slices = g.image.volume() ? rim : 0;
    return [rim, slices, image](const Box& b) {
      return static_cast<double>(
          b.grow({{slices, rim, rim + 1}, {slices, rim, rim + 1}}).intersect(image.hull(b)).pixels());
    };
  }
  const Index3 halo = g.network->halo();
  return [halo, image](const Box& b) {
    return static_cast<double>(b.grow({halo, halo}).intersect(image.hull(b)).pixels());
  };
}

}  // namespace

std::unique_ptr<OperatorPlan> describe(const Geometry& g, const std::vector<OperatorConfig>& parts,
                                       std::size_t first, Device device, const Communicator& comm) {
  std::vector<std::unique_ptr<OperatorPlan>> members;
  std::vector<std::unique_ptr<LocalOperator>> local;  // neighbors in the list share exchanges
  const auto close = [&] {
    if (!local.empty()) members.push_back(plan_local_stack(std::exchange(local, {})));
  };
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const OperatorRow& row = find_operator(parts[i].type);
    const OperatorRequest request{
        parts[i], static_cast<std::uint32_t>(first + i), g.job.problem.seed, g.image, device, *g.files, comm};
    if (row.local) {
      local.push_back(row.local(request));
    } else {
      close();
      members.push_back(row.global(request));
    }
  }
  close();
  return plan_stack(std::move(members));
}

Box box_of(const std::vector<std::int64_t>& size) {
  return {{0, 0, 0}, {size.size() > 2 ? size[0] : 1, size[size.size() - 2], size.back()}};
}

std::vector<std::int64_t> size_of(const Box& image) {
  if (!ImageSpace(image).volume()) return {image.extent(1), image.extent(2)};
  return {image.extent(0), image.extent(1), image.extent(2)};
}

Box middle_slice(const Box& image) {
  if (image.empty()) return image;
  const std::int64_t z = image.lo()[0] + image.extent(0) / 2;
  return {{z, image.lo()[1], image.lo()[2]}, {z + 1, image.hi()[1], image.hi()[2]}};
}

at::TensorOptions Geometry::options() const { return tensor_options(device); }

ProductSpace Geometry::domain() const { return {image, decomposition}; }

StartedTransport open_transport(const Geometry& g, const Communicator& comm) {
  constexpr double kPatience = 60;
  return start_transport(comm, g.device, g.job.execution.transport, g.decomposition.grid(),
                         std::min(g.job.watchdog, kPatience));
}

namespace {

// What the reader of a picture dropped, expanded or picked.
void say_note(Geometry& g, const std::string& path, const SourceInfo& info) {
  if (info.note.empty()) return;
  const std::string note =
      concat(std::filesystem::path(path.substr(0, path.rfind(":/"))).filename().string(), ": ", info.note);
  if (std::find(g.notices.begin(), g.notices.end(), note) == g.notices.end()) g.notices.push_back(note);
}

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

// A solver that goes down on a potential reads it from the network's pass.
void ask_for_potential(Geometry& g) {
  const SolverRow& solver = find_solver(g.job.solver.name);
  if (!solver.needs_potential) return;
  const DenoiserRow& row = find_denoiser(g.job.denoiser.network);
  std::string known;
  for (const DenoiserRow& other : denoiser_table())
    if (other.potential) known += (known.empty() ? "" : ", ") + other.name;
  TESSERA_VALIDATE(row.potential, "solver.name is ", solver.name, " (it goes down on a potential, ", row.name,
                   " is no gradient step on one) write 'denoiser.network: ", known, "', or another solver");
  TESSERA_VALIDATE(
      g.job.execution.averaging != Averaging::cycle, "denoiser.averaging is cycle (", solver.name,
      " compares its objective from step to step, which other turns change) write none, flips ", "or all");
  TESSERA_VALIDATE(g.job.execution.precision == Precision::float32, "denoiser.precision is ",
                   word(g.job.execution.precision), " (", solver.name,
                   " compares objectives, whose differences it rounds away) write float32");
  g.network = with_potential(std::move(*g.network));
}

// The network, and what computes: everything that the image decides before an operator is described on it.
void take_network(Geometry& g, const Communicator& comm) {
  const JobConfig job = g.job;
  if (find_denoiser(job.denoiser.network).network()) {
    if (g.job.denoiser.weights.empty()) g.job.denoiser.weights = job_weights(g.job, g.image.channels);
    comm.together([&] {
      g.network = open_network(g.job.denoiser, g.image.channels);
      refuse_axes(*g.network, g.image);
    });
  }
  ask_for_potential(g);
  if (const Execution& e = g.job.execution; g.network)
    refuse_windows(*g.network, e.mode, e.patch.value_or(0), e.batch.value_or(0));
  const ChosenDevice chosen =
      choose_device(comm, job.device, job.domain.share_gpu ? GpuSharing::allowed : GpuSharing::refused);
  g.device = chosen.device;
  if (g.device.is_cuda()) track_device_memory();
  g.sharers = chosen.sharers;
}

// The grid of blocks, and what is to be said of it.
void cut_image(Geometry& g, int ranks) {
  const JobConfig job = g.job;
  const Index3 alignment = alignment_of(g.network);
  if (job.domain.grid.empty()) {
    g.decomposition = Decomposition::choose(g.image.box, alignment, ranks, cost_of(g));
  } else {
    std::vector<std::int64_t> blocks = job.domain.grid;
    TESSERA_VALIDATE(blocks.size() == 2 || g.image.volume(),
                     "domain.grid has three numbers (the image is a picture of ", sides(g.image.box),
                     ") write rows and columns of blocks");
    if (blocks.size() == 2) blocks.insert(blocks.begin(), 1);
    const std::int64_t all = blocks[0] * blocks[1] * blocks[2];
    TESSERA_VALIDATE(all == ranks, "domain.grid is [", fmt::format("{}", fmt::join(job.domain.grid, ", ")),
                     "] (", all, " blocks for ", ranks, " ranks) start as many ranks, or write 'grid: auto'");
    g.decomposition = Decomposition(
        g.image.box, alignment,
        {static_cast<int>(blocks[0]), static_cast<int>(blocks[1]), static_cast<int>(blocks[2])});
  }
  g.job.domain.grid = grid_text(g.decomposition.grid(), g.image.box);
  int idle = 0;
  for (int r = 0; r < ranks; ++r) idle += g.decomposition.block(r).empty();
  if (idle > 0)
    g.notices.push_back(concat(idle, " of ", ranks, " ranks hold no pixels (the image has fewer blocks of ",
                               alignment[1], " x ", alignment[2],
                               " pixels than ranks) fewer ranks do the same work"));
}

// Pixel sizes that the job says; those of a file hold where it says none.
void take_pixel_size(Geometry& g) {
  const ImageConfig& said = g.job.problem.image;
  const std::size_t axes = said.pixel.size();
  for (std::size_t d = 0; d < axes; ++d)
    g.image.grid[3 - axes + d] = {g.image.grid[3 - axes + d].name, said.pixel[d], said.unit};
}

}  // namespace

Geometry plan_geometry(const JobConfig& job, const Communicator& comm, int ranks,
                       std::shared_ptr<OperatorFiles> files) {
  Geometry g;
  g.job = job;
  g.notices = job.notices;
  g.parts = flatten(job.problem.op);
  g.files = files ? std::move(files) : std::make_shared<OperatorFiles>();
  g.grid_given = !job.domain.grid.empty();
  const ProblemConfig& p = job.problem;
  std::vector<std::string> sources;  // of the image's units

  if (!p.truth.empty()) {
    g.truth = image_source_info(p.truth, comm);
    say_note(g, p.truth, *g.truth);
    g.image = *g.truth;
    g.data = *g.truth;
    sources = {p.truth};
  } else if (!p.scene.size.empty()) {
    g.truth = SourceInfo{ImageSpace(Box::image2d(p.scene.size[0], p.scene.size[1]), p.scene.channels)};
    g.truth->type = "float32";
    g.truth->says_scale = true;
    g.image = *g.truth;
    g.data = *g.truth;
  }
  if (const std::int64_t n = p.simulate.finer; n > 1) {
    TESSERA_VALIDATE(!g.image.volume(), "problem.simulate.finer is ", n, " (the truth is a volume of ",
                     sides(g.image.box), "; pictures alone are made finer) write 1");
    TESSERA_VALIDATE(g.image.box.extent(1) % n == 0 && g.image.box.extent(2) % n == 0,
                     "problem.simulate.finer is ", n, " (the truth has ", g.image.box.extent(1), " x ",
                     g.image.box.extent(2), " pixels, no multiple of it) cut the truth to one");
    g.image = g.image.on(Box::image2d(g.image.box.extent(1) / n, g.image.box.extent(2) / n));
    for (std::size_t d : {std::size_t{1}, std::size_t{2}}) g.image.grid[d].spacing *= static_cast<double>(n);
  }
  std::size_t measured = 0;  // parts
  if (!p.measurements.empty()) {
    const std::vector<MeasurementPartInfo> parts = measurement_info(p.measurements, comm);
    measured = parts.size();
    if (!g.truth) {
      g.image = ImageSpace(parts[0].source.box, parts[0].source.channels);
      if (p.image.size.empty())
        g.image = image_of_measurement(g, comm);
      else
        g.image = ImageSpace(box_of(p.image.size), g.image.channels);
    }
    g.data = parts[0].source;
    say_note(g, p.measurements, g.data);
    sources.clear();
    for (const MeasurementPartInfo& part : parts) sources.push_back(part.path);
  }
  for (const std::string& path : {p.weights, p.dark, p.flat}) {
    const ImageFormat* const format = find_format(path);
    if (format && !format->measurements) say_note(g, path, image_source_info(path, comm));
  }
  if (g.truth && !p.image.size.empty())
    TESSERA_VALIDATE(g.image.box == box_of(p.image.size), "problem.image.size is ",
                     sides(box_of(p.image.size)), " (the truth has ", sides(g.image.box), ") leave it out");
  if (p.image.channels > 0)
    TESSERA_VALIDATE(p.image.channels == g.image.channels, "problem.image.channels is ", p.image.channels,
                     " (the data have ", g.image.channels, ") leave it out");
  set_scale(g, sources, comm);
  g.job.problem.scale = {.offset = g.offset, .factor = g.factor};
  NoiseConfig& noise = g.job.problem.noise;
  if (noise.unit == "file") {
    noise.gaussian /= g.factor;
    noise.poisson /= g.factor;
    noise.unit = "internal";
  }

  take_pixel_size(g);
  take_network(g, comm);
  g.op = describe(g, g.parts, 0, g.device, comm);
  cut_image(g, ranks);
  if (const std::size_t wanted = g.op->range(g.domain()).parts(); measured > 0)
    TESSERA_VALIDATE(measured == wanted, p.measurements, " holds ", measured,
                     " measurements (the operator has ", wanted, " parts) give one for each");
  return g;
}

Geometry plan_arrays(const JobConfig& job, const ImageSpace& image, std::shared_ptr<OperatorPlan> op,
                     const Communicator& comm) {
  Geometry g;
  g.job = job;
  g.notices = job.notices;
  g.files = std::make_shared<OperatorFiles>();
  g.grid_given = !job.domain.grid.empty();
  g.image = image;
  static_cast<ImageSpace&>(g.data) = image;
  g.job.problem.scale = {.offset = 0, .factor = 1};
  take_network(g, comm);
  g.op = std::move(op);
  cut_image(g, comm.size());
  return g;
}

Geometry with_image(const Geometry& g, const Box& image, int ranks) {
  Geometry other = g;
  other.image = g.image.on(image);
  if (image != g.image.box) other.op = describe(other, g.parts, 0, g.device, Communicator());
  other.decomposition = Decomposition::choose(image, alignment_of(g.network), ranks, cost_of(other));
  other.job.domain.grid = grid_text(other.decomposition.grid(), image);
  return other;
}

}  // namespace tessera
