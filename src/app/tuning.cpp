// SPDX-License-Identifier: BSD-3-Clause
// What `auto` becomes.
#include "tessera/app/tuning.hpp"

#include <ATen/Parallel.h>
#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <functional>
#include <thread>
#include <type_traits>

#include "tessera/app/job_denoiser.hpp"
#include "tessera/config/parse.hpp"
#include "tessera/core/error.hpp"
#include "tessera/core/units.hpp"
#include "tessera/io/files.hpp"
#include "tessera/perf/measure.hpp"

namespace tessera {
namespace {

std::string device_name(Device device) {
  cudaDeviceProp p{};
  if (device.is_cuda() && cudaGetDeviceProperties(&p, device.index) == cudaSuccess) return p.name;
  return "cpu";
}

struct Decision {
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

Decision decide(const Geometry& g, const Modelled& m, const std::string& shape, double features,
                const Place& place) {
  const auto fingerprint = machine_fingerprint(place.per_host, place.threads, device_name(g.device));
  const Machine machine = planning_machine(g, place);
  Decision d;
  std::string remark;
  try {
    std::string stale;
    const std::vector<TunedEntry> entries = read_tuned(tuned_path());
    const TunedEntry* entry = find_tuned(entries, shape, fingerprint, stale);
    if (entry && obeys(entry->choice, g.job.execution)) {
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
    if (const auto ranked = rank_ways(g, m, machine, features); !ranked.empty()) {
      // Of those that take hardly longer than the fastest, the one that needs least memory times time: others
      // on this host have use for what is left. Nobody else computes on a GPU.
      const double kHardly = g.device.is_cuda() ? 1.0 : 1.03;
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
void share(Decision& d, const Communicator& comm) {
  static_assert(std::is_trivially_copyable_v<Execution>);
  std::array<bool, 2> flags{d.found, d.tuned};
  comm.broadcast(&d.choice, sizeof d.choice, 0);
  comm.broadcast(flags.data(), sizeof flags, 0);
  d.found = flags[0];
  d.tuned = flags[1];
  d.why = comm.broadcast(d.why, 0);
}

bool leaves_open(const Geometry& g) {
  const Execution& e = g.job.execution;
  if (!g.network || e.mode == ExecutionMode::whole) return false;
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

std::optional<Machine> measured_machine(const Geometry& g, const Place& place) {
  const std::string path = measured_machine_path(place.per_host, place.threads);
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return std::nullopt;
  try {
    Machine m = parse_machine(read_text(path), path);
    const auto here = machine_fingerprint(place.per_host, place.threads, device_name(g.device));
    if (difference(m.fingerprint, here).empty() && m.precisions.contains(g.job.execution.precision)) return m;
  } catch (const InputError&) {  // of another version: as if it were not there
  }
  return std::nullopt;
}

Machine planning_machine(const Geometry& g, const Place& place) {
  return measured_machine(g, place).value_or(guessed_machine(g.device.is_cuda()));
}

std::string shape_key(const Geometry& g, const Place& place) {
  const Execution& e = g.job.execution;
  const Grid3 grid = g.decomposition.grid();
  std::string widths;
  if (g.network)
    widths = fmt::format(
        " {}, stages {}{}{}", fmt::join(g.network->options.widths, " "),
        fmt::join(g.network->options.stages, " "), g.network->options.potential ? ", potential" : "",
        g.network->options.layers.empty()
            ? std::string()
            : fmt::format(", layers {:x}", std::hash<std::string>{}(g.network->options.layers)));
  return fmt::format(
      "{}{} blocks {} depth {}, {} averaging {}, image {} x {}{} x {}, {} ranks, grid {}, {} per host, "
      "memory {}, mode {} patch {} batch {} halo depth {}",
      g.job.denoiser.network, widths, g.network ? g.network->options.blocks : 0,
      g.network ? g.network->options.depth : 0, word(e.precision), word(e.averaging), g.image.channels,
      g.image.volume() ? fmt::format("{} x ", g.image.box.extent(0)) : "", g.image.box.extent(1),
      g.image.box.extent(2), place.ranks, g.grid_given ? fmt::format("{} x {}", grid[1], grid[2]) : "auto",
      place.per_host, g.job.memory, word(e.mode), e.patch.value_or(0), e.batch.value_or(0),
      e.halo_depth.value_or(0));
}

double feature_budget(const Geometry& g, const Communicator& comm, const Place& place) {
  const auto cores = static_cast<int>(std::thread::hardware_concurrency());
  if (place.ranks != comm.size() && place.per_host > cores) return 0;  // on other hosts, of unknown memory
  std::int64_t bytes = 0;
  comm.together([&] { bytes = execution_options(g, place.per_host).memory_bytes; });
  comm.all_reduce({&bytes, 1}, Reduce::min);
  return static_cast<double>(bytes);
}

void set_execution(Geometry& g, const Execution& e) {
  Execution& job = g.job.execution;
  const bool windows = e.mode == ExecutionMode::patch, layers = e.mode == ExecutionMode::layer;
  job.mode = e.mode;
  job.patch = windows ? e.patch : std::nullopt;
  job.batch = windows ? e.batch : std::nullopt;
  job.halo_depth = layers ? e.halo_depth : std::nullopt;
  if (!g.grid_given) g = with_image(g, g.image.box, g.decomposition.ranks());
}

std::vector<Prediction> rank_ways(const Geometry& g, const Modelled& m, const Machine& machine,
                                  double features) {
  std::vector<Prediction> all;
  Execution way = wanted_execution(g, machine);
  const ExecutionMode wanted = way.mode;
  for (const ExecutionMode mode : {ExecutionMode::whole, ExecutionMode::patch, ExecutionMode::layer}) {
    if (wanted != ExecutionMode::automatic && wanted != mode) continue;
    Geometry cut = g;
    cut.job.execution.mode = way.mode = mode;
    if (!g.grid_given) cut = with_image(cut, g.image.box, g.decomposition.ranks());
    for (Prediction& p : rank_executions(machine, *m.network, m.data, cut.decomposition, way, features))
      all.push_back(std::move(p));
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Prediction& x, const Prediction& y) { return x.seconds() < y.seconds(); });
  return all;
}

void choose_execution(Geometry& g, const Communicator& comm, const Place& place) {
  ExecutionMode& mode = g.job.execution.mode;
  if (mode == ExecutionMode::automatic && g.network && g.network->graph.global())  // no window serves it
    mode = g.decomposition.ranks() > 1 ? ExecutionMode::layer : ExecutionMode::whole;
  if (!leaves_open(g)) return;
  const double features = feature_budget(g, comm, place);
  const Modelled m = model_job(g, g.device.is_cuda());
  const std::string shape = shape_key(g, place);
  Decision d;
  comm.together([&] {
    if (comm.rank() == 0) d = decide(g, m, shape, features, place);
  });
  share(d, comm);
  if (!d.found) return;  // the denoiser says why nothing fits
  set_execution(g, d.choice);
  TransportKind& transport = g.job.execution.transport;
  if (d.tuned && transport == TransportKind::automatic) transport = d.choice.transport;
  g.notices.push_back(concat("mode ", word(d.choice.mode), d.why.empty() ? "" : " chosen ", d.why));
}

}  // namespace tessera
