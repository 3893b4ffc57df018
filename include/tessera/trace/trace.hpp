// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tessera/core/phase.hpp"
#include "tessera/solve/observer.hpp"

namespace tessera {

/// What stands in the attributes of a trace file.
struct TraceHeader {
  std::map<std::string, std::string> text;  // keys of keys.hpp
  std::map<std::string, std::int64_t> numbers;
  Box own;
};

/// One rank's performance trace: serial HDF5, earliest format, flushed every few rows, readable after kill
/// -9. Time spent here is recorded in the attribute of keys::trace_seconds.
class TraceWriter final : public Observer {
 public:
  TraceWriter(const std::string& path, const TraceHeader& header, int every = 1);
  ~TraceWriter() override;
  void on_result(const IterationResult& result) override;
  void at_end(StopReason reason) override;
  /// Phases outside of iterations (load, write): iteration -1. Takes what core/phase.hpp has gathered.
  void flush();

  /// Sums over the run, for the final table.
  struct PhaseTotal {
    double seconds = 0, own_seconds = 0, wait_seconds = 0;
    std::int64_t bytes_sent = 0, bytes_received = 0, messages = 0, peak_bytes = 0, calls = 0;
  };
  const std::map<Phase, PhaseTotal>& totals() const;
  double seconds_inside() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// trace.h5: one group per rank, external links to trace/rank-N.h5. By rank 0.
void write_trace_index(const std::string& path, int ranks);

}  // namespace tessera
