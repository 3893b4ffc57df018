// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tessera {

/// Memory of this host, bytes: what there is, and what a process may still take. Limits of the control groups
/// (1 and 2) around this process count, as Slurm and containers set them; files that it cached and that the
/// kernel would give up do not.
struct HostMemory {
  std::int64_t total = 0, available = 0;
};
/// `root`: where /proc and /sys lie.
HostMemory host_memory(const std::string& root = "");

/// Cores that this process may run on, each by the first of its hardware threads, and the sockets of the
/// host.
struct HostCores {
  std::vector<int> cores;
  int sockets = 1;
};
HostCores host_cores();

/// {0, 1, 2, 5} as "0-2,5".
std::string ranges(const std::vector<int>& sorted);

}  // namespace tessera
