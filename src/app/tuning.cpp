// SPDX-License-Identifier: BSD-3-Clause
// What `auto` becomes.
#include "tessera/app/tuning.hpp"

#include <ATen/Parallel.h>
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <thread>

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

bool fits_freedom(const Execution& e, const Freedom& f) {
  return (f.mode == ExecutionMode::automatic || f.mode == e.mode) && (f.patch == 0 || f.patch == e.patch) &&
         (f.batch == 0 || f.batch == e.batch) && (f.depth == 0 || f.depth == e.depth) &&
         f.precision == e.precision;
}

Decision decide(const Geometry& g, const Modelled& m, const std::string& shape, double features,
                const Place& place) {
  const auto fingerprint = machine_fingerprint(place.per_host, place.threads, device_name(g.device));
  const Machine machine = planning_machine(g, place);
  const Freedom f = job_freedom(g, machine, features);
  Decision d;
  std::string remark;
  try {
    std::string stale;
    const std::vector<TunedEntry> entries = read_tuned(tuned_path());
    const TunedEntry* entry = find_tuned(entries, shape, fingerprint, stale);
    if (entry && fits_freedom(entry->choice, f)) {
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
      const double kHardly = g.device.is_cuda() ? 1.0 : 1.1;
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

std::string print(const Decision& d) {
  return fmt::format("{} {} {} {} {} {} {}\n{}", d.found ? 1 : 0, d.tuned ? 1 : 0,
                     static_cast<int>(d.choice.mode), d.choice.patch, d.choice.batch, d.choice.depth,
                     d.choice.transport, d.why);
}

Decision parse(const std::string& text) {
  std::istringstream in(text);
  Decision d;
  int found = 0, tuned = 0, mode = 0;
  in >> found >> tuned >> mode >> d.choice.patch >> d.choice.batch >> d.choice.depth >> d.choice.transport;
  in.ignore();
  std::getline(in, d.why, '\0');
  d.found = found != 0;
  d.tuned = tuned != 0;
  d.choice.mode = static_cast<ExecutionMode>(mode);
  return d;
}

bool leaves_open(const Geometry& g) {
  const DenoiserConfig& d = g.job.denoiser;
  if (!g.network || d.mode == "whole") return false;
  if (d.mode == "patch") return !d.patch || !d.batch;
  return d.mode == "auto" || !d.halo_depth;
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
    if (difference(m.fingerprint, here).empty() && m.precisions.contains(g.job.denoiser.precision)) return m;
  } catch (const InputError&) {  // of another version: as if it were not there
  }
  return std::nullopt;
}

Machine planning_machine(const Geometry& g, const Place& place) {
  return measured_machine(g, place).value_or(guessed_machine(g.device.is_cuda()));
}

std::string shape_key(const Geometry& g, const Place& place) {
  const DenoiserConfig& d = g.job.denoiser;
  const Grid3 grid = g.decomposition.grid();
  std::string widths;
  if (g.network)
    for (const std::int64_t w : g.network->options.widths) widths += fmt::format(" {}", w);
  return fmt::format(
      "{}{} blocks {} depth {}, {} averaging {}, image {} x {} x {}, {} ranks, grid {}, {} per host, "
      "memory {}, mode {} patch {} batch {} halo depth {}",
      d.network, widths, g.network ? g.network->options.blocks : 0, g.network ? g.network->options.depth : 0,
      d.precision, d.averaging, g.channels, g.image.extent(1), g.image.extent(2), place.ranks,
      g.grid_given ? fmt::format("{} x {}", grid[1], grid[2]) : "auto", place.per_host, g.job.memory, d.mode,
      d.patch.value_or(0), d.batch.value_or(0), d.halo_depth.value_or(0));
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
  DenoiserConfig& d = g.job.denoiser;
  d.mode = name(e.mode);
  d.patch.reset();
  d.batch.reset();
  d.halo_depth.reset();
  if (e.mode == ExecutionMode::patch) {
    if (e.patch > 0) d.patch = e.patch;
    d.batch = e.batch;
  }
  if (e.mode == ExecutionMode::layer) d.halo_depth = e.depth;
  if (!g.grid_given) g = with_image(g, g.image, g.decomposition.ranks());
}

std::vector<Prediction> rank_ways(const Geometry& g, const Modelled& m, const Machine& machine,
                                  double features) {
  std::vector<Prediction> all;
  Freedom f = job_freedom(g, machine, features);
  const ExecutionMode wanted = f.mode;
  for (const ExecutionMode mode : {ExecutionMode::whole, ExecutionMode::patch, ExecutionMode::layer}) {
    if (wanted != ExecutionMode::automatic && wanted != mode) continue;
    Geometry cut = g;
    f.mode = mode;
    cut.job.denoiser.mode = name(mode);
    if (!g.grid_given) cut = with_image(cut, g.image, g.decomposition.ranks());
    for (Prediction& p : rank_executions(machine, *m.network, m.data, cut.decomposition, g.channels, f))
      all.push_back(std::move(p));
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Prediction& x, const Prediction& y) { return x.seconds() < y.seconds(); });
  return all;
}

void choose_execution(Geometry& g, const Communicator& comm, const Place& place) {
  if (!leaves_open(g)) return;
  const double features = feature_budget(g, comm, place);
  const std::unique_ptr<Modelled> m = model_job(g, comm, g.device.is_cuda());
  const std::string shape = shape_key(g, place);
  std::string text;
  comm.together([&] {
    if (comm.rank() == 0) text = print(decide(g, *m, shape, features, place));
  });
  const Decision d = parse(comm.broadcast(text, 0));
  if (!d.found) return;  // the denoiser says why nothing fits
  set_execution(g, d.choice);
  if (d.tuned && g.job.domain.transport == "auto") g.job.domain.transport = d.choice.transport;
  g.notices.push_back(concat("mode ", g.job.denoiser.mode, d.why.empty() ? "" : " chosen ", d.why));
}

}  // namespace tessera
