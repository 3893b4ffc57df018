// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tessera/perf/model.hpp"

namespace tessera {

/// A measured decision: for this job shape on this machine, run so.
struct TunedEntry {
  std::map<std::string, std::string> fingerprint;
  std::string shape;  // network, sizes, ranks, precision, memory
  Execution choice;
  double seconds = 0;  // of an iteration on the slowest rank
  bool operator==(const TunedEntry&) const = default;
};

/// $TESSERA_TUNED, else tuned.yaml in $XDG_CACHE_HOME/tessera or ~/.cache/tessera.
std::string tuned_path();
/// The machine measured here with so many ranks per host, of so many threads, beside the tuned file.
std::string measured_machine_path(int ranks_per_node, int threads);

/// Entries of a tuned file; none where there is no file. InputError where it cannot be understood.
std::vector<TunedEntry> read_tuned(const std::string& path);
/// Adds an entry, in place of one of the same shape and machine; the file is whole or as it was.
void store_tuned(const std::string& path, const TunedEntry& entry);

/// The entry of this shape whose machine is this one; else none, and why in `stale` where there is one of
/// this shape from another machine.
const TunedEntry* find_tuned(const std::vector<TunedEntry>& entries, const std::string& shape,
                             const std::map<std::string, std::string>& fingerprint, std::string& stale);

}  // namespace tessera
