// SPDX-License-Identifier: BSD-3-Clause
// What `auto` becomes, by the cost model and the memory that is there.
#include "tessera/app/tuning.hpp"

#include <ATen/Parallel.h>
#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <thread>
#include <type_traits>

#include "tessera/app/memory_plan.hpp"
#include "tessera/core/error.hpp"
#include "tessera/core/host.hpp"
#include "tessera/core/units.hpp"
#include "tessera/denoise/denoiser_table.hpp"
#include "tessera/denoise/network_work.hpp"
#include "tessera/io/files.hpp"
#include "tessera/perf/tuned.hpp"

namespace tessera {

Modelled model_job(const RunPlan& plan, bool gpu) {
  Modelled m;
  m.op = plan.op;
  if (gpu != plan.device.is_cuda())
    m.op = describe(plan, plan.parts, 0, Device{gpu ? 0 : -1}, Communicator());
  m.data.op = m.op.get();
  m.data.image = plan.image;
  m.data.solver = plan.job.solver.name;
  m.data.inner = std::min(static_cast<double>(plan.job.solver.prox_iterations), kInnerIterations);
  const ProblemConfig& p = plan.job.problem;
  m.data.weighted = !p.weights.empty() || p.saturation > 0 || p.bad.any();
  m.data.truth = plan.truth.has_value();
  const DenoiserRow& row = find_denoiser(plan.job.denoiser.network);
  m.data.prior = plan.image.volume() ? row.images_of_volume : row.images;
  if (plan.network) m.network = network_work(*plan.network, scalar_type(plan.job.execution.precision), gpu);
  return m;
}

Execution wanted_execution(const RunPlan& plan, const Machine& machine) {
  Execution e = plan.job.execution;
  e.transport = transport_on(machine, e.transport);
  return e;
}

std::int64_t available_bytes(const RunPlan& plan, int ranks_on_host) {
  if (!plan.device.is_cuda()) return host_memory().available / std::max(1, ranks_on_host);
  std::size_t free = 0, total = 0;  // of the current device, which is this rank's
  if (cudaMemGetInfo(&free, &total) != cudaSuccess) free = static_cast<std::size_t>(host_memory().available);
  return static_cast<std::int64_t>(free) / plan.sharers;
}

std::optional<std::int64_t> memory_budget(const JobConfig& job, std::int64_t available) {
  if (job.memory == "auto") return std::nullopt;
  char* end = nullptr;
  const double share = std::strtod(job.memory.c_str(), &end);
  if (*end == '\0') return static_cast<std::int64_t>(share * static_cast<double>(available));
  return parse_bytes(job.memory);
}

ExecutionOptions execution_options(const RunPlan& plan, int ranks_on_host) {
  ExecutionOptions o = execution_options(plan.job.execution, plan.device);
  o.deterministic = plan.job.deterministic;
  const std::int64_t available = available_bytes(plan, ranks_on_host);
  o.memory_bytes = plan.network ? plan_memory(plan, available).features : available / 2;
  return o;
}

namespace {

std::string device_name(Device device) {
  cudaDeviceProp p{};
  if (device.is_cuda() && cudaGetDeviceProperties(&p, device.index) == cudaSuccess) return p.name;
  return "cpu";
}

struct ChosenWay {
  Execution choice;
  std::string why;
  bool found = false, tuned = false;
};

bool obeys(const Execution& e, const Execution& wanted) {
  const auto same = [](const auto& have, const auto& want) { return !want || have == want; };
  return (wanted.mode == ExecutionMode::automatic || wanted.mode == e.mode) && same(e.patch, wanted.patch) &&
         same(e.batch, wanted.batch) && same(e.halo_depth, wanted.halo_depth) &&
         e.precision == wanted.precision;
}

ChosenWay choose_way(const RunPlan& plan, const Modelled& m, const std::string& shape, double features,
                     const Place& place) {
  const auto fingerprint = machine_fingerprint(place.per_host, place.threads, device_name(plan.device));
  const Machine machine = planning_machine(plan, place);
  ChosenWay d;
  std::string remark;
  try {
    std::string stale;
    const std::vector<TunedEntry> entries = read_tuned(tuned_path());
    const TunedEntry* entry = find_tuned(entries, shape, fingerprint, stale);
    if (entry && obeys(entry->choice, plan.job.execution)) {
      d.choice = entry->choice;
      d.found = d.tuned = true;
      d.why = fmt::format("as tuned ({} per iteration when measured)", format_seconds(entry->seconds));
      return d;
    }
    if (!stale.empty()) remark = "; the tuned choice is stale: " + stale + " (tessera tune measures again)";
  } catch (const InputError& e) {
    remark = concat("; ", e.what());
  }
  try {
    if (const auto ranked = rank_ways(plan, m, machine, features); !ranked.empty()) {
      // Of those that take hardly longer than the fastest, the one that needs least memory times time: others
      // on this host have use for what is left. Nobody else computes on a GPU.
      const double kHardly = plan.device.is_cuda() ? 1.0 : 1.03;
      const auto end = std::find_if(ranked.begin(), ranked.end(), [&](const Prediction& p) {
        return p.seconds() > kHardly * ranked.front().seconds();
      });
      d.choice = std::min_element(ranked.begin(), end, [](const Prediction& a, const Prediction& b) {
                   return a.memory * a.seconds() < b.memory * b.seconds();
                 })->execution;
      d.found = true;
      d.why = "by the cost model from " + machine.name;
    }
  } catch (const InputError&) {  // a precision or transport that does not exist here: who needs it says so
  }
  d.why += remark;
  return d;
}

// Rank 0's decision, on all ranks.
void share(ChosenWay& d, const Communicator& comm) {
  static_assert(std::is_trivially_copyable_v<Execution>);
  std::array<bool, 2> flags{d.found, d.tuned};
  comm.broadcast(&d.choice, sizeof d.choice, 0);
  comm.broadcast(flags.data(), sizeof flags, 0);
  d.found = flags[0];
  d.tuned = flags[1];
  d.why = comm.broadcast(d.why, 0);
}

bool leaves_open(const RunPlan& plan) {
  const Execution& e = plan.job.execution;
  if (!plan.network || e.mode == ExecutionMode::whole) return false;
  if (e.mode == ExecutionMode::patch) return !e.patch || !e.batch;
  return e.mode == ExecutionMode::automatic || !e.halo_depth;
}

}  // namespace

Place this_launch(const Communicator& comm) {
  return {comm.size(), comm.local_size(), at::get_num_threads()};
}

Place pretended_launch(int ranks, int threads) {
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  return {ranks, ranks, threads > 0 ? threads : std::max(1, cores / ranks)};
}

std::optional<Machine> measured_machine(const RunPlan& plan, const Place& place) {
  const std::string path = measured_machine_path(place.per_host, place.threads);
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return std::nullopt;
  try {
    Machine m = parse_machine(read_text(path), path);
    const auto here = machine_fingerprint(place.per_host, place.threads, device_name(plan.device));
    if (difference(m.fingerprint, here).empty() && m.precisions.contains(plan.job.execution.precision))
      return m;
  } catch (const InputError&) {  // of another version: as if it were not there
  }
  return std::nullopt;
}

Machine planning_machine(const RunPlan& plan, const Place& place) {
  return measured_machine(plan, place).value_or(guessed_machine(plan.device.is_cuda()));
}

std::string shape_key(const RunPlan& plan, const Place& place) {
  const Execution& e = plan.job.execution;
  const Grid3 grid = plan.decomposition.grid();
  std::string widths;
  if (plan.network)
    widths = fmt::format(
        " {}, stages {}{}{}", fmt::join(plan.network->options.widths, " "),
        fmt::join(plan.network->options.stages, " "), plan.network->options.potential ? ", potential" : "",
        plan.network->options.layers.empty()
            ? std::string()
            : fmt::format(", layers {:x}", std::hash<std::string>{}(plan.network->options.layers)));
  return fmt::format(
      "{}{} blocks {} depth {}, {} averaging {}{}, image {} x {}{} x {}, {} ranks, grid {}, {} per host, "
      "memory {}, mode {} patch {} batch {} halo depth {}",
      plan.job.denoiser.network, widths, plan.network ? plan.network->options.blocks : 0,
      plan.network ? plan.network->options.depth : 0, word(e.precision), word(e.averaging),
      e.planes.empty() ? std::string() : ", planes " + text(e.planes), plan.image.channels,
      plan.image.volume() ? fmt::format("{} x ", plan.image.box.extent(0)) : "", plan.image.box.extent(1),
      plan.image.box.extent(2), place.ranks,
      plan.grid_given ? fmt::format("{} x {}", grid[1], grid[2]) : "auto", place.per_host, plan.job.memory,
      word(e.mode), e.patch.value_or(0), e.batch.value_or(0), e.halo_depth.value_or(0));
}

double feature_budget(const RunPlan& plan, const Communicator& comm, const Place& place) {
  const auto cores = static_cast<int>(std::thread::hardware_concurrency());
  if (place.ranks != comm.size() && place.per_host > cores) return 0;  // on other hosts, of unknown memory
  std::int64_t bytes = 0;
  comm.together([&] { bytes = execution_options(plan, place.per_host).memory_bytes; });
  comm.all_reduce({&bytes, 1}, Reduce::min);
  return static_cast<double>(bytes);
}

void set_execution(RunPlan& plan, const Execution& e) {
  Execution& job = plan.job.execution;
  const bool windows = e.mode == ExecutionMode::patch, layers = e.mode == ExecutionMode::layer;
  job.mode = e.mode;
  job.patch = windows ? e.patch : std::nullopt;
  job.batch = windows ? e.batch : std::nullopt;
  job.halo_depth = layers ? e.halo_depth : std::nullopt;
  if (!plan.grid_given) plan = with_image(plan, plan.image.box, plan.decomposition.ranks());
}

std::vector<Prediction> rank_ways(const RunPlan& plan, const Modelled& m, const Machine& machine,
                                  double features) {
  std::vector<Prediction> all;
  Execution way = wanted_execution(plan, machine);
  const ExecutionMode wanted = way.mode;
  for (const ExecutionMode mode : {ExecutionMode::whole, ExecutionMode::patch, ExecutionMode::layer}) {
    if (wanted != ExecutionMode::automatic && wanted != mode) continue;
    RunPlan cut = plan;
    cut.job.execution.mode = way.mode = mode;
    if (!plan.grid_given) cut = with_image(cut, plan.image.box, plan.decomposition.ranks());
    for (Prediction& p : rank_executions(machine, *m.network, m.data, cut.decomposition, way, features))
      all.push_back(std::move(p));
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Prediction& x, const Prediction& y) { return x.seconds() < y.seconds(); });
  return all;
}

void choose_execution(RunPlan& plan, const Communicator& comm, const Place& place) {
  ExecutionMode& mode = plan.job.execution.mode;
  if (mode == ExecutionMode::automatic && plan.network &&
      plan.network->graph.global())  // no window serves it
    mode = plan.decomposition.ranks() > 1 ? ExecutionMode::layer : ExecutionMode::whole;
  if (!leaves_open(plan)) return;
  const double features = feature_budget(plan, comm, place);
  const Modelled m = model_job(plan, plan.device.is_cuda());
  const std::string shape = shape_key(plan, place);
  ChosenWay d;
  comm.together([&] {
    if (comm.rank() == 0) d = choose_way(plan, m, shape, features, place);
  });
  share(d, comm);
  if (!d.found) return;  // the denoiser says why nothing fits
  set_execution(plan, d.choice);
  TransportKind& transport = plan.job.execution.transport;
  if (d.tuned && transport == TransportKind::automatic) transport = d.choice.transport;
  plan.notices.push_back(concat("mode ", word(d.choice.mode), d.why.empty() ? "" : " chosen ", d.why));
}

}  // namespace tessera
