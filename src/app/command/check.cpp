// SPDX-License-Identifier: BSD-3-Clause
// tessera check: what a job would do, by arithmetic; runs nothing.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "command/command.hpp"
#include "job/pixel_sizes.hpp"
#include "job/scan_picture.hpp"
#include "job/tomography.hpp"
#include "tessera/app/memory_plan.hpp"
#include "tessera/app/output.hpp"
#include "tessera/app/tuning.hpp"
#include "tessera/core/memory.hpp"
#include "tessera/core/units.hpp"
#include "tessera/denoise/denoiser_table.hpp"
#include "tessera/denoise/layer_traffic.hpp"
#include "tessera/denoise/network_work.hpp"
#include "tessera/denoise/planes.hpp"
#include "tessera/denoise/windows.hpp"
#include "tessera/domain/projection.hpp"
#include "tessera/io/files.hpp"
#include "tessera/io/image_format.hpp"
#include "tessera/io/keep_open.hpp"
#include "tessera/perf/disk.hpp"
#include "tessera/solve/solver.hpp"

namespace tessera {
namespace {

struct CheckArguments {
  std::string job;
  std::vector<std::string> overrides;
  int ranks = 0;        // pretended; 0: those of the launch
  std::string picture;  // of a scan's geometry
};

constexpr std::int64_t kBytes = 4;  // float32 state

/// What the denoiser sends per call: of a volume by planes, by one kind of them after the other.
class DenoiserTraffic {
 public:
  explicit DenoiserTraffic(const RunPlan& plan) : plan_(plan) {
    if (!plan.network) return;
    halo_ = window_halo(*plan.network);
    cuts_ = plane_cuts(plan.decomposition, plan.job.execution.planes);
    if (plan.job.execution.mode != ExecutionMode::layer) return;
    ExecutionOptions options = execution_options(plan, 1);
    options.halo_depth = layer_halo_depth(plan.network->graph, plan.decomposition, options);
    depth_ = options.halo_depth;
    for (const Decomposition& cut : cuts_)
      layers_.emplace_back(plan.network->graph, cut, options, plan.image.channels);
  }
  bool by_layers() const { return !layers_.empty(); }
  /// Around a block, all at once.
  Index3 halo() const { return by_layers() ? Index3{} : halo_; }

  std::int64_t bytes_sent(int rank) const {
    std::int64_t bytes = 0;
    for (const LayerTraffic& layers : layers_) bytes += layers.bytes_sent(rank);
    if (!by_layers())
      for (const Decomposition& cut : cuts_)
        bytes += network_bytes_sent(cut, halo_, plan_.image.channels, rank);
    return bytes;
  }
  std::string text(const std::map<int, int>& looked_at) const {
    const Planes& planes = plan_.job.execution.planes;
    const std::string where = planes.empty() ? "" : " in planes (" + tessera::text(planes) + ")";
    if (!by_layers())
      return (plan_.network && plan_.network->graph.global() ? "none, the whole image at once"
                                                             : std::to_string(longest(halo_))) +
             where;
    std::int64_t exchanges = 0, most = 0;
    for (const LayerTraffic& layers : layers_) exchanges += layers.exchanges();
    for (const auto& [rank, count] : looked_at) {
      std::int64_t messages = 0;
      for (const LayerTraffic& layers : layers_) messages += layers.messages(rank);
      most = std::max(most, messages);
    }
    return fmt::format("layer by layer, depth {}, {} exchanges, at most {} messages per rank{}", depth_,
                       exchanges, most, where);
  }

 private:
  const RunPlan& plan_;
  Index3 halo_{};
  std::vector<Decomposition> cuts_;
  std::vector<LayerTraffic> layers_;
  int depth_ = 0;
};

std::string block_text(const Box& block, bool volume) {
  std::string text;
  for (std::size_t d = volume ? 0 : 1; d < 3; ++d)
    text += fmt::format("{}[{}, {})", text.empty() ? "" : " x ", block.lo()[d], block.hi()[d]);
  return text;
}

// Where the state lies in a file: what is resident is what the job allows, and the disk has to have the rest.
void print_scratch(const RunPlan& plan, const Modelled& model, const Prediction& p, const MemoryPlan& where,
                   const Place& place, double available) {
  const double most = static_cast<double>(where.most);
  std::printf(
      "memory       %s resident on the fullest rank (%s; %s program and libraries, %s for the network)\n",
      format_bytes(most).c_str(), where.budget ? "as the job says" : "what is free",
      format_bytes(static_cast<double>(where.program)).c_str(),
      format_bytes(static_cast<double>(where.features + where.weights)).c_str());
  const std::string folder = scratch_folder(plan.job);
  const ScratchDisk disk = scratch_disk(folder);
  const double all = static_cast<double>(where.file) * place.per_host;
  std::printf("scratch      up to %s on the fullest rank, in %s (%s%s free%s)\n",
              format_bytes(static_cast<double>(where.file)).c_str(), folder.c_str(),
              disk.type.empty() ? "" : (disk.type + ", ").c_str(),
              format_bytes(static_cast<double>(disk.free)).c_str(),
              static_cast<double>(disk.free) < all ? ": too little, the run will be refused"
              : disk.remote                        ? ", over a network, whose rate may limit"
                                                   : "");
  // Denoisers but networks go over their images as often as they converge.
  if (!model.network && !find_solver(plan.job.solver.name).bare) return;
  // What nobody has use for the kernel keeps as a cache.
  const double cache = std::max(0.0, available - static_cast<double>(where.features + where.weights));
  const DiskBytes moved = most_disk_bytes(model.data, plan.decomposition, p.execution,
                                          model.network ? model.network->halo : Index3{}, cache);
  const double rate = disk_rate(folder), bytes = moved.both();
  if (bytes == 0 || rate == 0) return;
  const double seconds = bytes * place.per_host / rate;
  std::printf(
      "disk         %s read and %s written per rank in an iteration (estimated), %s at %s/s (measured "
      "now)%s\n",
      format_bytes(moved.read).c_str(), format_bytes(moved.written).c_str(), format_seconds(seconds).c_str(),
      format_bytes(rate).c_str(),
      seconds > p.seconds() ? ": it limits, the rest of an iteration takes less" : "");
}

// What the fullest rank's process will take, `data` bytes of it state, measurements and halos; read by
// jobs/submit.sh. On a GPU: of the GPU's memory.
void print_memory(const RunPlan& plan, const Modelled& model, double features, const Place& place,
                  double data) {
  Prediction p;
  p.memory = data;
  const Machine machine = planning_machine(plan, place);
  if (model.network) {
    const std::vector<Prediction> ways = rank_ways(plan, model, machine, features);
    if (!ways.empty()) p = ways.front();
  } else {
    p = predict(machine, nullptr, model.data, plan.decomposition, {});
  }
  const auto program = static_cast<double>(plan.device.is_cuda() ? 0 : process_bytes());
  // More ranks than cores are of other hosts, each as this one.
  const bool elsewhere = place.per_host > static_cast<int>(std::thread::hardware_concurrency());
  const std::int64_t available = available_bytes(plan, elsewhere ? 1 : place.per_host);
  const MemoryPlan where = plan_memory(plan, available);
  if (where.scratch) {
    print_scratch(plan, model, p, where, place, static_cast<double>(available));
    return;
  }
  std::string parts = fmt::format("{} state, data and halos", format_bytes(data));
  if (program > 0) parts = fmt::format("{} program and libraries, ", format_bytes(program)) + parts;
  if (p.memory > data)
    parts += fmt::format(", {} network and what a step takes for a moment", format_bytes(p.memory - data));
  std::printf("memory       %s resident on the fullest rank (estimated: %s)\n",
              format_bytes(program + p.memory).c_str(), parts.c_str());
}

// What a checkpoint takes, and how long before the end a signal must come: two iterations (one reduction is
// under way) and the write. Iterations as in the last run of this folder; `lead time` is read by
// jobs/submit.sh.
void print_checkpoint(const RunPlan& plan) {
  constexpr double kDisk = 200e6;  // bytes per second, assumed until a run has measured it
  const CheckpointConfig& c = plan.job.output.checkpoint;
  if (c.keep == 0) {
    std::printf("checkpoint   none (output.checkpoint.keep is 0)\n");
    return;
  }
  const int images = find_solver(plan.job.solver.name).state_images;
  const double bytes = static_cast<double>(kBytes * images * plan.image.channels * plan.image.box.pixels());
  std::printf("checkpoint   %s, the last %lld are kept\n", format_bytes(bytes).c_str(),
              static_cast<long long>(c.keep));
  double write = bytes / kDisk;
  try {
    const auto s = nlohmann::json::parse(read_text(plan.job.output.folder + "/summary.json"));
    const double each = s.at("seconds_per_iteration"), measured = s.at("checkpoint_seconds");
    const int ranks = s.at("ranks");
    if (measured > 0) write = measured;
    if (each > 0) {
      std::printf(
          "lead time    %.0f s for a signal (two iterations and the checkpoint, as the last run here "
          "took on %d rank%s)\n",
          std::ceil(2 * each + write), ranks, ranks == 1 ? "" : "s");
      return;
    }
  } catch (const std::exception&) {
    // No run yet.
  }
  std::printf("lead time    two iterations and %s for the checkpoint (at %s/s, assumed; known after a run)\n",
              format_seconds(write).c_str(), format_bytes(kDisk).c_str());
}

// Sizes that the job or its data say.
void say_pixels(const ImageSpace& image) {
  std::array<double, 3> known{};
  for (std::size_t d = image.volume() ? 0 : 1; d < 3; ++d) known[d] = image.grid[d].spacing > 0 ? 1 : 0;
  if (known != std::array<double, 3>{})
    std::printf("pixels       %s\n", pixel_text(image.grid, known).c_str());
}

// On every rank; the first one draws.
void draw_geometry(const std::string& path, const RunPlan& plan, const Communicator& comm) {
  const auto geometry = geometry_of(*plan.op);
  TESSERA_VALIDATE(geometry, "--picture is given (", plan.job.problem.op.type,
                   " has no geometry to draw: that is of tomography) leave it out");
  require_writable(output_format(path), path, {.space = ImageSpace(Box::image2d(1, 1), 3), .bits = 8});
  comm.together([&] {
    if (comm.rank() == 0) draw_scan(path, *geometry);
  });
}

int execute(const CheckArguments& arguments, const Communicator& comm) {
  const KeepOpen reading;
  const JobConfig job = load_job(arguments.job, arguments.overrides, comm);
  const int ranks = arguments.ranks > 0 ? arguments.ranks : comm.size();
  RunPlan plan = plan_run(job, comm, ranks);
  const Place place = ranks == comm.size() ? this_launch(comm) : pretended_launch(ranks);
  choose_execution(plan, comm, place);
  const double features = plan.network ? feature_budget(plan, comm, place) : 0;
  const Modelled model = model_job(plan, plan.device.is_cuda());
  const ImageSpace space = result_record(plan, comm).space;
  if (!arguments.picture.empty()) draw_geometry(arguments.picture, plan, comm);
  if (comm.rank() != 0) return 0;

  const Decomposition& d = plan.decomposition;
  const ProductSpace layout = plan.op->range(plan.domain());
  const Reach reach = plan.op->traits(plan.domain()).reach;
  const DenoiserTraffic traffic(plan);
  const bool every = ranks <= kEveryRank;
  const std::map<int, int> looked_at =
      representatives(d, std::max<std::int64_t>(plan.network ? longest(window_halo(*plan.network)) : 0, 64));
  std::printf("image        %lld x %s\n", static_cast<long long>(plan.image.channels),
              sides(plan.image.box).c_str());
  say_pixels(space);
  std::printf("ranks        %d, %s blocks, alignment %lld\n", ranks,
              fmt::format("{}", fmt::join(plan.job.domain.grid, " x ")).c_str(),
              static_cast<long long>(d.alignment()[1]));
  const bool volume = plan.image.volume();
  std::printf("halos        operator %s%lld, %lld, %lld, %lld (%sup, down, left, right); denoiser %s\n",
              volume ? fmt::format("{}, {}, ", reach.lo[0], reach.hi[0]).c_str() : "",
              static_cast<long long>(reach.lo[1]), static_cast<long long>(reach.hi[1]),
              static_cast<long long>(reach.lo[2]), static_cast<long long>(reach.hi[2]),
              volume ? "before, behind, " : "", traffic.text(looked_at).c_str());
  std::printf("measurement  %zu part%s, %lld samples\n", layout.parts(), layout.parts() == 1 ? "" : "s",
              static_cast<long long>(layout.values()));
  if (const auto geometry = geometry_of(*plan.op))
    for (const std::string& line : in_words(*geometry)) std::printf("scan         %s\n", line.c_str());
  std::printf("solver       %s, %lld iteration%s; denoiser %s\n", plan.job.solver.name.c_str(),
              static_cast<long long>(plan.job.solver.iterations), plan.job.solver.iterations == 1 ? "" : "s",
              plan.job.denoiser.network.c_str());
  for (const std::string& notice : plan.notices) std::printf("note: %s\n", notice.c_str());
  for (const std::string& notice : plan.files->notices()) std::printf("note: %s\n", notice.c_str());
  for (const std::string& warning : plan.files->warnings()) std::printf("warning: %s\n", warning.c_str());

  std::int64_t total = 0, most_memory = 0;
  bool per_iteration = false;
  if (every)
    std::printf("%-6s %-34s %12s %12s\n", "rank",
                volume ? "block (depth x rows x columns)" : "block (rows x columns)", "memory", "bytes/it");
  for (const auto& [r, count] : looked_at) {
    const Box block = d.block(r);
    const DataTraffic data = data_traffic(d, model.data, r);
    const std::int64_t bytes = data.bytes_sent() + traffic.bytes_sent(r);
    per_iteration = data.iterative();
    const std::int64_t memory = data_memory(d, model.data, traffic.halo(), plan.job.execution.planes, r);
    total += bytes * count;
    most_memory = std::max(most_memory, memory);
    if (every)
      std::printf("%-6d %-34s %12s %12lld\n", r, block_text(block, volume).c_str(),
                  format_bytes(static_cast<double>(memory)).c_str(), static_cast<long long>(bytes));
  }
  print_memory(plan, model, features, place, static_cast<double>(most_memory));
  std::printf("bytes per iteration: %lld (sent by all ranks together%s%s)\n", static_cast<long long>(total),
              per_iteration ? "; of the data step, per iteration of conjugate gradients" : "",
              every ? "" : fmt::format("; about: {} kinds of ranks looked at", looked_at.size()).c_str());
  if (!find_denoiser(plan.job.denoiser.network).steady)
    std::printf("(the denoiser's inner iterations come on top)\n");
  print_checkpoint(plan);
  return 0;
}

}  // namespace

Command check_command(CLI::App& app) {
  const auto a = std::make_shared<CheckArguments>();
  CLI::App* options = app.add_subcommand(
      "check", "validate a job; print blocks, halos, memory and bytes per iteration; runs nothing");
  options->add_option("JOB", a->job, "job file")->required();
  options->add_option("--set", a->overrides, "key.path=value");
  options->add_option("--ranks", a->ranks, "as if on so many ranks")->check(above_zero());
  options->add_option("--picture", a->picture,
                      "of a scan: draws its geometry into this file, for example scan.png");
  options->footer("Example: tessera check photo.yaml --ranks 16");
  return {options, [a](const Launch& launch) { return execute(*a, launch.comm); }, Watched::never};
}

}  // namespace tessera
