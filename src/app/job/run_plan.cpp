// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/app/run_plan.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "job/beside_files.hpp"
#include "job/facts.hpp"
#include "job/gray.hpp"
#include "job/job_scan.hpp"
#include "job/pixel_sizes.hpp"
#include "job/set_scale.hpp"
#include "tessera/app/job_denoiser.hpp"
#include "tessera/core/error.hpp"
#include "tessera/core/image_space.hpp"
#include "tessera/denoise/denoiser_table.hpp"
#include "tessera/denoise/network_denoiser.hpp"
#include "tessera/denoise/planes.hpp"
#include "tessera/domain/operator_algebra.hpp"
#include "tessera/domain/projection.hpp"
#include "tessera/domain/tensor.hpp"
#include "tessera/domain/torch_cuda.hpp"
#include "tessera/io/image_format.hpp"
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
ImageSpace image_of_measurement(RunPlan plan, const Communicator& comm) {
  const Box measured = plan.image.box;
  for (int pass = 0; pass < 8; ++pass) {  // a kernel given as a share of the width changes with it
    const std::optional<Box> next = describe(plan, {plan.parts[0]}, 0, {}, comm)->image_of(measured);
    TESSERA_VALIDATE(next, "a measurement of ", sides(measured),
                     " samples (no image has it under this operator, or many have) say problem.image.size");
    if (*next == plan.image.box) break;
    const auto pixels = plan.image.grid;
    plan.image = ImageSpace(*next, plan.image.channels);
    plan.image.grid = pixels;
  }
  return plan.image;
}

std::vector<std::int64_t> grid_text(const Grid3& grid, const Box& image) {
  std::vector<std::int64_t> out{grid[0], grid[1], grid[2]};
  if (!ImageSpace(image).volume()) out.erase(out.begin());
  return out;
}

Index3 alignment_of(const RunPlan& plan) {
  return plan.network ? planes_alignment(plan.network->alignment(), plan.job.execution.planes)
                      : Index3{1, 1, 1};
}

// What a block costs: windows' multiply-adds. The halo is clipped at the image's border, as it is when run.
// In layer mode it is the rim that is computed twice, a row on each of the levels; rows lie together in
// memory and are cheaper than columns. By planes the sum over their kinds, each with a halo of its own.
BlockCost cost_of(const RunPlan& plan) {
  if (!plan.network) return [](const Box& b) { return static_cast<double>(b.pixels()); };
  const Box image = plan.image.box;
  Reach reach{plan.network->halo(), plan.network->halo()};
  if (plan.job.execution.mode == ExecutionMode::layer || plan.network->graph.global()) {
    const std::int64_t rim = std::max<std::int64_t>(1, longest(plan.network->alignment()) / 2);
    const std::int64_t slices = plan.network->graph.axes() == Axes::volume ? rim : 0;
    reach = {{slices, rim, rim + 1}, {slices, rim, rim + 1}};
  }
  std::vector<Reach> around;
  for (const Plane plane : plan.job.execution.planes.list()) {
    Reach turned;
    for (std::size_t d = 1; d < 3; ++d) {
      turned.lo[axes_of(plane)[d]] = reach.lo[d];
      turned.hi[axes_of(plane)[d]] = reach.hi[d];
    }
    around.push_back(turned);
  }
  if (around.empty()) around.push_back(reach);
  return [around, image](const Box& b) {
    double pixels = 0;
    for (const Reach& r : around) pixels += static_cast<double>(b.grow(r).intersect(image.hull(b)).pixels());
    return pixels;
  };
}

}  // namespace

std::unique_ptr<OperatorPlan> describe(const RunPlan& plan, const std::vector<OperatorConfig>& parts,
                                       std::size_t first, Device device, const Communicator& comm) {
  std::vector<std::unique_ptr<OperatorPlan>> members;
  std::vector<std::unique_ptr<LocalOperator>> local;  // neighbors in the list share exchanges
  const auto close = [&] {
    if (!local.empty()) members.push_back(plan_local_stack(std::exchange(local, {})));
  };
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const OperatorRow& row = find_operator(parts[i].type);
    const OperatorRequest request{parts[i],
                                  static_cast<std::uint32_t>(first + i),
                                  plan.job.problem.seed,
                                  plan.image,
                                  device,
                                  *plan.files,
                                  comm,
                                  plan.scan ? ImageSpace().grid : plan.data.grid};
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

at::TensorOptions RunPlan::options() const { return tensor_options(device); }

ProductSpace RunPlan::domain() const { return {image, decomposition}; }

StartedTransport open_transport(const RunPlan& plan, const Communicator& comm) {
  constexpr double kPatience = 60;
  return start_transport(comm, plan.device, plan.job.execution.transport, plan.decomposition.grid(),
                         std::min(plan.job.watchdog, kPatience));
}

namespace {

// What the reader of a picture dropped, expanded or picked.
void say_note(RunPlan& plan, const std::string& path, const SourceInfo& info) {
  if (info.note.empty()) return;
  const std::string note =
      concat(std::filesystem::path(path.substr(0, path.rfind(":/"))).filename().string(), ": ", info.note);
  if (std::find(plan.notices.begin(), plan.notices.end(), note) == plan.notices.end())
    plan.notices.push_back(note);
}

// A solver that goes down on a potential reads it from the network's pass.
void ask_for_potential(RunPlan& plan) {
  const SolverRow& solver = find_solver(plan.job.solver.name);
  if (!solver.needs_potential) return;
  const DenoiserRow& row = find_denoiser(plan.job.denoiser.network);
  std::string known;
  for (const DenoiserRow& other : denoiser_table())
    if (other.potential) known += (known.empty() ? "" : ", ") + other.name;
  TESSERA_VALIDATE(row.potential, "solver.name is ", solver.name, " (it goes down on a potential, ", row.name,
                   " is no gradient step on one) write 'denoiser.network: ", known, "', or another solver");
  TESSERA_VALIDATE(
      plan.job.execution.averaging != Averaging::cycle, "denoiser.averaging is cycle (", solver.name,
      " compares its objective from step to step, which other turns change) write none, flips ", "or all");
  TESSERA_VALIDATE(plan.job.execution.precision == Precision::float32, "denoiser.precision is ",
                   word(plan.job.execution.precision), " (", solver.name,
                   " compares objectives, whose differences it rounds away) write float32");
  plan.network = with_potential(std::move(*plan.network));
}

// The image with the pixel sizes of the job, else those of data on its grid: they say in which planes a network for
// pictures sees it, and how averaging may turn it.
ImageSpace with_spacing(const RunPlan& plan) {
  ImageSpace image = plan.image;
  const bool said =
      std::any_of(image.grid.begin(), image.grid.end(), [](const auto& axis) { return axis.spacing > 0; });
  if (!said && std::all_of(plan.parts.begin(), plan.parts.end(), [](const OperatorConfig& part) {
        return find_operator(part.type).choice.same_grid;
      }))
    image.grid = plan.data.grid;
  return image;
}

// What headers and the operator decide, or what has been decided.
void take_settings(RunPlan& plan, Settings settings) {
  plan.job = with_settings(std::move(plan.job), settings);
  plan.of_files = plan.notices.size();
  plan.notices.insert(plan.notices.end(), settings.reasons.begin(), settings.reasons.end());
  plan.settings = std::move(settings);
}

// The network, and what computes: everything that the image decides before an operator is described on it.
void take_network(RunPlan& plan, const Communicator& comm) {
  const JobConfig job = plan.job;
  if (find_denoiser(job.denoiser.network).network()) {
    if (plan.job.denoiser.weights.empty())
      plan.job.denoiser.weights = job_weights(plan.job, plan.image.channels);
    comm.together([&] {
      plan.network = open_network(plan.job.denoiser, plan.image.channels);
      const std::string note = assumed(*plan.network, plan.job.denoiser.weights);
      if (!note.empty()) plan.notices.push_back(note);
      Planes& planes = plan.job.execution.planes;
      refuse_axes(*plan.network, plan.image, planes);
      if (!by_planes(*plan.network, plan.image))
        plan.job.execution.turns = default_turns(with_spacing(plan));
      else if (planes.empty())
        planes = default_planes(with_spacing(plan));
    });
  }
  ask_for_potential(plan);
  if (const Execution& e = plan.job.execution; plan.network)
    refuse_windows(*plan.network, e.mode, e.patch.value_or(0), e.batch.value_or(0));
  const ChosenDevice chosen =
      choose_device(comm, job.device, job.domain.share_gpu ? GpuSharing::allowed : GpuSharing::refused);
  plan.device = chosen.device;
  if (plan.device.is_cuda()) track_device_memory();
  plan.sharers = chosen.sharers;
}

// The grid of blocks, and what is to be said of it.
void cut_image(RunPlan& plan, int ranks) {
  const JobConfig job = plan.job;
  const Index3 alignment = alignment_of(plan);
  if (job.domain.grid.empty()) {
    plan.decomposition = Decomposition::choose(plan.image.box, alignment, ranks, cost_of(plan));
  } else {
    std::vector<std::int64_t> blocks = job.domain.grid;
    TESSERA_VALIDATE(blocks.size() == 2 || plan.image.volume(),
                     "domain.grid has three numbers (the image is a picture of ", sides(plan.image.box),
                     ") write rows and columns of blocks");
    if (blocks.size() == 2) blocks.insert(blocks.begin(), 1);
    const std::int64_t all = blocks[0] * blocks[1] * blocks[2];
    TESSERA_VALIDATE(all == ranks, "domain.grid is [", fmt::format("{}", fmt::join(job.domain.grid, ", ")),
                     "] (", all, " blocks for ", ranks, " ranks) start as many ranks, or write 'grid: auto'");
    plan.decomposition = Decomposition(
        plan.image.box, alignment,
        {static_cast<int>(blocks[0]), static_cast<int>(blocks[1]), static_cast<int>(blocks[2])});
  }
  plan.job.domain.grid = grid_text(plan.decomposition.grid(), plan.image.box);
  int idle = 0;
  for (int r = 0; r < ranks; ++r) idle += plan.decomposition.block(r).empty();
  if (idle > 0)
    plan.notices.push_back(
        concat(idle, " of ", ranks, " ranks hold no pixels (the image has fewer blocks of ",
               plan.image.volume() ? concat(alignment[0], " x ") : std::string(), alignment[1], " x ",
               alignment[2], " pixels than ranks) fewer ranks do the same work"));
}

// What files say of the options of operators stands in plan.parts from now on; what the job has of it too, but for what
// its scan says again.
void complete_operators(RunPlan& plan, const Communicator& comm) {
  std::size_t next = 0;
  const auto visit = [&](auto& self, OperatorConfig& said) -> void {
    if (!said.parts.empty()) {
      for (OperatorConfig& part : said.parts) self(self, part);
      return;
    }
    OperatorConfig& part = plan.parts[next++];
    if (const auto& complete = find_operator(part.type).complete)
      complete(part, said, plan.scan ? &*plan.scan : nullptr, plan.notices, comm);
  };
  visit(visit, plan.job.problem.op);
}

// The image and the units of a scan.
void take_scan(RunPlan& plan) {
  ProblemConfig& p = plan.job.problem;
  if (p.image.unit.empty()) p.image.unit = plan.scan->unit;
  if (!plan.truth) plan.image = ImageSpace(p.image.size.empty() ? plan.scan->image() : box_of(p.image.size));
  plan.data = SourceInfo{ImageSpace(plan.scan->samples())};
  plan.data.type = "float32";
  for (const std::string& warning : plan.scan->warnings) plan.files->warn(warning);
  if (!plan.truth && p.image.size.empty() && plan.scan->side > plan.scan->file.views.columns)
    plan.notices.push_back(plan.scan->wide_reason);
  if (const std::int64_t wide = plan.scan->wide; plan.image.box.extent(2) < wide) {
    const std::string depth = plan.image.volume() ? concat(plan.image.box.extent(0), ", ") : "";
    plan.files->warn(concat(plan.scan->wide_reason,
                            ": what lies outside of the image would be put on its rim; write "
                            "'image: {size: [",
                            depth, wide, ", ", wide, "]}' in problem"));
  }
}

// Pixel sizes that the job says; those of a file hold where it says none.
void take_pixel_size(RunPlan& plan) {
  const ImageConfig& said = plan.job.problem.image;
  const std::size_t axes = said.pixel.size();
  for (std::size_t d = 0; d < axes; ++d)
    plan.image.grid[3 - axes + d] = {plan.image.grid[3 - axes + d].name, said.pixel[d], said.unit};
}

// A scan's voxels, in the unit of its lengths.
void take_voxel_size(RunPlan& plan) {
  ImageConfig& said = plan.job.problem.image;
  const auto geometry = geometry_of(*plan.op);
  if (!said.pixel.empty() || said.unit.empty() || !geometry) return;
  const Vector3& side = geometry->volume.voxel;
  said.pixel = {side[1], side[0]};
  if (plan.image.volume()) said.pixel.insert(said.pixel.begin(), side[2]);
  take_pixel_size(plan);
}

// What a solver of data alone wants of the operator.
void fit_solver(const RunPlan& plan) {
  const SolverRow& row = find_solver(plan.job.solver.name);
  const OperatorTraits traits = plan.op->traits(plan.domain());
  if (row.once)
    TESSERA_VALIDATE(traits.not_direct.empty(), "solver.name is ", row.name, ", and the operator ",
                     traits.not_direct);
}

}  // namespace

RunPlan plan_run(const JobConfig& job, const Communicator& comm, int ranks,
                 std::shared_ptr<OperatorFiles> files) {
  RunPlan plan;
  plan.asked = plan.job = job;
  plan.notices = job.notices;
  plan.parts = flatten(job.problem.op);
  plan.files = files ? std::move(files) : std::make_shared<OperatorFiles>();
  plan.grid_given = !job.domain.grid.empty();
  const ProblemConfig& p = job.problem;
  std::vector<std::string> sources;  // of the image's units

  if (!p.truth.empty()) {
    plan.truth = plan.files->headers().image(p.truth, comm);
    say_note(plan, p.truth, *plan.truth);
    plan.image = *plan.truth;
    plan.data = *plan.truth;
    sources = {p.truth};
  } else if (!p.scene.size.empty()) {
    plan.truth = SourceInfo{ImageSpace(Box::image2d(p.scene.size[0], p.scene.size[1]), p.scene.channels)};
    plan.truth->type = "float32";
    plan.truth->says_scale = true;
    plan.image = *plan.truth;
    plan.data = *plan.truth;
  }
  if (const std::int64_t n = p.simulate.finer; n > 1) {
    TESSERA_VALIDATE(!plan.image.volume(), "problem.simulate.finer is ", n, " (the truth is a volume of ",
                     sides(plan.image.box), "; pictures alone are made finer) write 1");
    TESSERA_VALIDATE(plan.image.box.extent(1) % n == 0 && plan.image.box.extent(2) % n == 0,
                     "problem.simulate.finer is ", n, " (the truth has ", plan.image.box.extent(1), " x ",
                     plan.image.box.extent(2), " pixels, no multiple of it) cut the truth to one");
    plan.image = plan.image.on(Box::image2d(plan.image.box.extent(1) / n, plan.image.box.extent(2) / n));
    for (std::size_t d : {std::size_t{1}, std::size_t{2}})
      plan.image.grid[d].spacing *= static_cast<double>(n);
  }
  std::size_t measured = 0;  // parts
  if (takes_scan(p.op)) plan.scan = job_scan(job, comm);
  complete_operators(plan, comm);
  if (plan.scan) {
    measured = 1;
    take_scan(plan);
  } else if (!p.measurements.empty()) {
    const std::vector<MeasurementPartInfo>& parts = plan.files->headers().parts(p.measurements, comm);
    measured = parts.size();
    plan.data = parts[0].source;
    if (!plan.truth) {
      plan.image = ImageSpace(parts[0].source.box, parts[0].source.channels);
      take_pixel_size(plan);  // kernels are put on these pixels
      if (p.image.size.empty())
        plan.image = image_of_measurement(plan, comm);
      else
        plan.image = ImageSpace(box_of(p.image.size), plan.image.channels);
    }
    say_note(plan, p.measurements, plan.data);
    say_flags(plan, comm);
    sources.clear();
    for (const MeasurementPartInfo& part : parts) sources.push_back(part.path);
  }
  for (const std::string& path : {p.weights, p.dark, p.flat, p.bad.flags}) {
    const ImageFormat* const format = find_format(path);
    if (!format || plan.scan || (format->measurements && path.find(":/") == std::string::npos)) continue;
    const SourceInfo& info = plan.files->headers().image(path, comm);
    say_note(plan, path, info);
    hold_against_measurement(plan, path, info);
    if (path == p.weights) refuse_codes(path, info);
  }
  if (plan.truth && !p.measurements.empty()) hold_against_measurement(plan, p.truth, *plan.truth);
  for (const OperatorConfig& part : plan.parts)
    if (const auto& marks = find_operator(part.type).marks; marks && !p.measurements.empty())
      if (const std::string path = part.options.get<std::string>(*marks); !path.empty())
        say_turn(plan, path, plan.files->headers().image(path, comm));
  if (!plan.scan) take_gray(plan, sources, comm);
  if (plan.truth && !p.image.size.empty())
    TESSERA_VALIDATE(plan.image.box == box_of(p.image.size), "problem.image.size is ",
                     sides(box_of(p.image.size)), " (the truth has ", sides(plan.image.box),
                     ") leave it out");
  if (p.image.channels > 0)
    TESSERA_VALIDATE(p.image.channels == plan.image.channels, "problem.image.channels is ", p.image.channels,
                     " (the data have ", plan.image.channels, ") leave it out");
  set_scale(plan, sources, comm);
  plan.job.problem.scale = {.offset = plan.offset, .factor = plan.factor, .curve = p.scale.curve};
  set_curve(plan);
  NoiseConfig& noise = plan.job.problem.noise;
  if (noise.unit == "file" && plan.curve.none() && !plan.curve_open) {
    noise.gaussian /= plan.factor;
    noise.poisson /= plan.factor;
    noise.unit = "internal";
  }

  take_pixel_size(plan);
  take_settings(plan, decide(plan.asked, facts_of(plan)));
  take_network(plan, comm);
  plan.op = describe(plan, plan.parts, 0, plan.device, comm);
  take_voxel_size(plan);
  cut_image(plan, ranks);
  if (plan.scan)
    TESSERA_VALIDATE(plan.op->range(plan.domain()).part(0).box() == plan.scan->samples(),
                     plan.truth ? "the truth" : "problem.image.size", " is ", sides(plan.image.box),
                     " (the scan has ", plan.scan->rows, plan.scan->rows == 1 ? " row" : " rows",
                     ") one row is of a picture, several are of a volume");
  if (const std::size_t wanted = plan.op->range(plan.domain()).parts(); measured > 0)
    TESSERA_VALIDATE(measured == wanted, p.measurements, " holds ", measured,
                     " measurements (the operator has ", wanted, " parts) give one for each");
  fit_solver(plan);
  return plan;
}

RunPlan plan_operator(const JobConfig& job, const ImageSpace& image, const Communicator& comm) {
  RunPlan plan;
  plan.asked = plan.job = job;
  plan.parts = flatten(job.problem.op);
  plan.files = std::make_shared<OperatorFiles>();
  plan.image = image;
  static_cast<ImageSpace&>(plan.data) = image;
  complete_operators(plan, comm);
  plan.op = describe(plan, plan.parts, 0, {}, comm);
  return plan;
}

RunPlan plan_arrays(const JobConfig& job, const ImageSpace& image, std::shared_ptr<OperatorPlan> op,
                    const Communicator& comm) {
  RunPlan plan;
  plan.asked = plan.job = job;
  plan.notices = job.notices;
  plan.files = std::make_shared<OperatorFiles>();
  plan.grid_given = !job.domain.grid.empty();
  plan.image = image;
  static_cast<ImageSpace&>(plan.data) = image;
  plan.job.problem.scale = {.offset = 0, .factor = 1, .curve = ToneCurve()};
  plan.op = std::move(op);
  plan.decomposition = Decomposition::choose(  // until there is a network
      image.box, {1, 1, 1}, comm.size(), [](const Box& b) { return static_cast<double>(b.pixels()); });
  take_settings(plan, decide(plan.asked, facts_of(plan)));
  take_network(plan, comm);
  cut_image(plan, comm.size());
  fit_solver(plan);
  return plan;
}

RunPlan with_settings(const RunPlan& plan, const Settings& settings, const Communicator& comm) {
  RunPlan other = plan;
  other.network.reset();
  other.notices.resize(plan.of_files);
  other.job.execution = plan.asked.execution;
  other.job.domain = plan.asked.domain;
  take_settings(other, settings);
  take_network(other, comm);
  cut_image(other, comm.size());
  fit_solver(other);
  return other;
}

RunPlan with_image(const RunPlan& plan, const Box& image, int ranks) {
  RunPlan other = plan;
  other.image = plan.image.on(image);
  if (image != plan.image.box) other.op = describe(other, plan.parts, 0, plan.device, Communicator());
  other.decomposition = Decomposition::choose(image, alignment_of(plan), ranks, cost_of(other));
  other.job.domain.grid = grid_text(other.decomposition.grid(), image);
  return other;
}

}  // namespace tessera
