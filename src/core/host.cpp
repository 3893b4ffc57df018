// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/core/host.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <set>
#include <sstream>

namespace tessera {
namespace {

constexpr std::int64_t kUnknown = std::int64_t{4} << 30;  // where there is no /proc

// The number behind `key` in a file of lines "key number ...".
std::optional<std::int64_t> field(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string word;
    std::int64_t value = 0;
    if (words >> word >> value && word == key) return value;
  }
  return std::nullopt;
}

// The only number of a file; nothing where it is "max", or not there.
std::optional<std::int64_t> single(const std::string& path) {
  std::ifstream file(path);
  std::int64_t value = 0;
  return file >> value ? std::optional(value) : std::nullopt;
}

// One control group: its limit, and what it holds without files that could be dropped.
void limit_by(const std::string& folder, const char* most, const char* current, const char* cached,
              HostMemory& m) {
  const auto limit = single(folder + "/" + most);
  if (!limit || *limit >= m.total) return;  // version 1 says "none" by a number near 2^63
  m.total = *limit;
  const std::int64_t held =
      single(folder + "/" + current).value_or(0) - field(folder + "/memory.stat", cached).value_or(0);
  m.available = std::min(m.available, std::max<std::int64_t>(0, *limit - std::max<std::int64_t>(0, held)));
}

}  // namespace

HostMemory host_memory(const std::string& root) {
  HostMemory m;
  m.total = field(root + "/proc/meminfo", "MemTotal:").value_or(kUnknown / 1024) * 1024;
  m.available = field(root + "/proc/meminfo", "MemAvailable:").value_or(m.total / 1024) * 1024;
  std::ifstream groups(root + "/proc/self/cgroup");  // "0::/path", or "9:memory:/path"
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string kinds = line.substr(first + 1, second - first - 1);
    const bool unified = kinds.empty();
    if (!unified && ("," + kinds + ",").find(",memory,") == std::string::npos) continue;
    // Every group around the innermost one limits too; in a container only the outermost may be visible.
    for (std::string path = line.substr(second + 1);;) {
      if (path == "/") path.clear();
      if (unified)
        limit_by(root + "/sys/fs/cgroup" + path, "memory.max", "memory.current", "inactive_file", m);
      else
        limit_by(root + "/sys/fs/cgroup/memory" + path, "memory.limit_in_bytes", "memory.usage_in_bytes",
                 "total_inactive_file", m);
      if (path.empty()) break;
      path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
    }
  }
  return m;
}

HostCores host_cores() {
  HostCores found;
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  const bool known = sched_getaffinity(0, sizeof allowed, &allowed) == 0;
  std::set<int> cores;
  std::set<std::int64_t> sockets;
  const int all = static_cast<int>(std::min<long>(sysconf(_SC_NPROCESSORS_CONF), CPU_SETSIZE));
  for (int cpu = 0; cpu < all; ++cpu) {
    const std::string topology = "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/";
    if (const auto socket = single(topology + "physical_package_id")) sockets.insert(*socket);
    // "0,64" or "0-1": its hardware threads.
    if (!known || CPU_ISSET(cpu, &allowed))
      cores.insert(static_cast<int>(single(topology + "thread_siblings_list").value_or(cpu)));
  }
  found.cores.assign(cores.begin(), cores.end());
  found.sockets = std::max<int>(1, static_cast<int>(sockets.size()));
  return found;
}

std::string ranges(const std::vector<int>& sorted) {
  std::string out;
  for (std::size_t i = 0; i < sorted.size();) {
    std::size_t end = i;
    while (end + 1 < sorted.size() && sorted[end + 1] == sorted[end] + 1) ++end;
    out += (out.empty() ? "" : ",") + std::to_string(sorted[i]);
    if (end > i) out += "-" + std::to_string(sorted[end]);
    i = end + 1;
  }
  return out;
}

}  // namespace tessera
