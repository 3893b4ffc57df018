// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/perf/machine.hpp"

#include <cuda_runtime_api.h>
#include <torch/version.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "tessera/core/error.hpp"
#include "tessera/core/units.hpp"
#include "tessera/core/version.hpp"

namespace tessera {

namespace fs = std::filesystem;

double Curve::at(double size) const {
  if (points.empty() || size <= 0) return 0;
  auto above = points.lower_bound(size);
  if (above == points.end() || points.size() == 1) {
    const auto& [at, seconds] = *points.rbegin();
    return seconds * size / at;
  }
  if (above == points.begin()) ++above;
  const auto below = std::prev(above);
  double slope = std::log(above->second / below->second) / std::log(above->first / below->first);
  if (size < below->first) slope = std::max(0.0, slope);  // less never takes longer
  return below->second * std::exp(slope * std::log(size / below->first));
}

namespace {

std::string cpu_model() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);)
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  return "unknown";
}

std::vector<fs::path> machine_folders() {
  std::vector<fs::path> folders;
  if (const char* given = std::getenv("TESSERA_MACHINES")) folders.emplace_back(given);
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  if (!error) folders.push_back(self.parent_path().parent_path() / "share/tessera/machines");
  folders.emplace_back(TESSERA_SOURCE_MACHINES);
  return folders;
}

}  // namespace

std::string find_machine(const std::string& name) {
  std::error_code error;
  if (name.find('/') != std::string::npos || name.ends_with(".yaml")) {
    TESSERA_VALIDATE(fs::is_regular_file(name, error), "there is no machine file ", name,
                     " (it was given as a path) check the path, or write one with tessera tune --machine");
    return name;
  }
  std::vector<std::string> known;
  std::string list;
  for (const fs::path& folder : machine_folders()) {
    if (fs::is_regular_file(folder / (name + ".yaml"), error)) return (folder / (name + ".yaml")).string();
    for (const auto& entry : fs::directory_iterator(folder, error))
      if (entry.path().extension() == ".yaml") known.push_back(entry.path().stem().string());
  }
  std::sort(known.begin(), known.end());
  known.erase(std::unique(known.begin(), known.end()), known.end());
  for (const std::string& k : known) list += (list.empty() ? "" : ", ") + k;
  const std::string guess = nearest(name, known);
  throw InputError(concat("there is no machine '", name, "' (supplied ones: ", list.empty() ? "none" : list,
                          ") ",
                          guess.empty() ? "name one of them, or a file from tessera tune --machine FILE"
                                        : "did you mean " + guess + "?"));
}

Machine guessed_machine(bool gpu) {
  Machine m;
  m.name = gpu ? "a typical GPU" : "a typical CPU";
  constexpr double cores = 4;
  if (gpu) {
    m.processors = 100;
    m.call = 5e-6;
    m.precisions = {{Precision::float32, {{}, 40e12, 0.6}},
                    {Precision::tf32, {{}, 300e12, 0.4}},
                    {Precision::bfloat16, {{}, 600e12, 0.4}},
                    {Precision::float16, {{}, 600e12, 0.4}}};
    m.copy = m.pack = {{{1e9, 5e-4}}};
    m.transform = {{{1e6, 2e-5}}};
    m.direct = 1e12;
    m.state = {{{1e9, 0.2}}};
    m.links = {{TransportKind::nccl, {{1.2e-5, 2e-6, 3e-6, 4e-12}, {2e-5, 3e-6, 4e-6, 3e-11}}},
               {TransportKind::mpi, {{2.5e-5, 5e-6, 6e-6, 1e-10}, {3e-5, 6e-6, 8e-6, 1.2e-10}}}};
    m.links[TransportKind::cuda_mpi] = m.links[TransportKind::nccl];
  } else {
    m.call = 2e-5;
    m.precisions = {{Precision::float32, {{}, 100e9 * cores, 0.7}},
                    {Precision::bfloat16, {{}, 100e9 * cores, 0.65}},
                    {Precision::float16, {{}, 100e9 * cores, 0.65}}};
    m.copy = m.pack = {{{1e8, 1e-2}}};
    m.transform = {{{1e6, 1e-2 / cores}}};
    m.direct = 25e9 * cores;
    m.state = {{{1e6, 2e-2 / cores}}};
    m.links = {{TransportKind::mpi, {{1e-6, 1e-6, 1e-6, 3e-10, false}, {3e-6, 1e-6, 1e-6, 1e-10}}}};
  }
  m.reduction = {{{2, 5e-6}, {1024, 5e-5}}};
  return m;
}

TransportKind transport_on(const Machine& machine, TransportKind wanted) {
  if (wanted != TransportKind::automatic) return wanted;
  return machine.links.empty() ? TransportKind::mpi : machine.links.rbegin()->first;
}

int Machine::threads() const {
  const auto said = fingerprint.find("threads");
  return said == fingerprint.end() ? 0 : std::atoi(said->second.c_str());
}

std::map<std::string, std::string> machine_fingerprint(int ranks_per_node, int threads,
                                                       const std::string& device) {
  return {{"cpu", cpu_model()},
          {"cores", std::to_string(std::thread::hardware_concurrency())},
          {"ranks_per_host", std::to_string(ranks_per_node)},
          {"threads", std::to_string(threads)},
          {"device", device},
          {"torch", TORCH_VERSION},
          {"tessera", version()}};
}

std::string difference(const std::map<std::string, std::string>& was,
                       const std::map<std::string, std::string>& is) {
  for (const auto& [key, value] : is) {
    const auto old = was.find(key);
    if (old == was.end()) return concat(key, " was not recorded and is ", value);
    if (old->second != value) return concat(key, " was ", old->second, " and is ", value);
  }
  return {};
}

}  // namespace tessera
