// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "tessera/core/box.hpp"
#include "tessera/core/phase.hpp"
#include "tessera/solve/observer.hpp"

namespace tessera {

/// What stands in the attributes of a trace file, by the names of keys.hpp. The writer adds the schema,
/// `every`, the status and its own time.
struct TraceHeader {
  std::map<std::string, std::string> text;
  std::map<std::string, std::int64_t> numbers;
  Box own;
};

/// What a resumed run goes on from. Times count from `clock` on. Where the file is gone on with (see
/// continues()), it keeps the rows of these iterations and of what began before `clock`.
struct TraceBegin {
  int iterations = 0;
  double clock = 0;  // seconds
  int restarts = 0;
  bool same_file = false;
};

/// One rank's performance trace: serial HDF5, earliest format, readable after kill -9. docs/trace.md.
///
/// Rows are gathered and go to the file (with H5Fflush) at most a second after the previous ones, at the next
/// call; iterations of a second or more are each on disk when they end. Errors: RunError from the
/// constructor; later ones end the trace and not the run, problem() says why. Not collective: each rank has
/// its own file. Time spent here: seconds_inside(), and the attribute keys::trace_seconds.
class TraceWriter final : public Observer {
 public:
  /// Makes the file and its folder. Iterations that are not a multiple of `every` are left out of the tables
  /// (the last one never is), not out of the totals.
  TraceWriter(const std::string& path, const TraceHeader& header, int every = 1,
              const TraceBegin& begin = {});
  ~TraceWriter() override;  // as flush()
  void after_step(int k, const Solver& solver) override;
  void on_result(const IterationResult& result) override;
  void at_rest(const LoopState& state) override;  // rows up to a checkpoint are on disk before it is written
  void at_end(StopReason reason) override;
  /// Takes what core/phase.hpp has gathered, and puts every row on disk: after loading, after writing.
  void flush();

  /// Sums over the run, for the final table; peak_bytes is the highest.
  struct PhaseTotal {
    double seconds = 0, own_seconds = 0, wait_seconds = 0;
    std::int64_t bytes_sent = 0, bytes_received = 0, messages = 0, peak_bytes = 0, calls = 0;
  };
  const std::map<Phase, PhaseTotal>& totals() const;
  double seconds_inside() const;
  /// Why the trace ended before the run did; empty where it did not.
  const std::string& problem() const;

  /// Whether the file at `path` is a trace of the same block on as many ranks, and can be read.
  static bool continues(const std::string& path, const TraceHeader& header);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// "trace/rank-00012.h5": where a rank's trace stands in the output folder.
std::string trace_name(int rank);

/// Writes trace.h5 at `path`: a group rank-00000 ... per rank, as an external link to trace_name(rank) beside
/// it, relative, so that the folder can be moved. The files need not be there yet. By one process. RunError.
void write_trace_index(const std::string& path, int ranks);

}  // namespace tessera
