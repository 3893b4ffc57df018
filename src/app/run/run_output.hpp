// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "run/job_run.hpp"
#include "run/run_summary.hpp"
#include "tessera/app/output.hpp"
#include "tessera/app/resume.hpp"
#include "tessera/app/run_status.hpp"
#include "tessera/trace/trace.hpp"

namespace tessera {

/// What a run keeps of where it comes from.
struct RunFiles {
  std::string text{};    // of the job file, to be kept; empty: the folder has it
  std::string asked{};   // the job as it was asked for
  std::string inputs{};  // sums of what it reads; rank 0
  std::string command_line{};
  std::vector<std::string> damaged{};  // checkpoints that were passed over
};

/// In a run's folder: the job as it was asked for, before what depends on the ranks is chosen. --resume begins there.
inline constexpr const char* kKeptJob = "/checkpoint/job.yaml";

/// Makes the folder, with the job in it; nothing of the run has been written before. How often the run was
/// started again. Collective; InputError where the disk has no room.
int make_run_folder(OutputFolder& folder, const JobRun& run, const RunFiles& files);

/// The log's head, the picture of the measurement, the score of the start. Collective.
void say_start(Log& log, const OutputFolder& folder, JobRun& run, const RunFiles& files);

/// What a run writes from then on: trace, progress, checkpoints and status while it iterates, then the results
/// and what they are worth.
class RunOutput {
 public:
  /// Collective.
  RunOutput(OutputFolder& folder, JobRun& run, Log& log, const RunFiles& files, int restarts);
  RunOutput(const RunOutput&) = delete;
  RunOutput& operator=(const RunOutput&) = delete;

  /// For the iterations.
  std::vector<Observer*> observers() {
    return {trace_.get(), &progress_, snapshots_.get(), &status_, &checkpoints_};
  }
  /// The exit code; RunError where the run diverged, or was stopped and has no checkpoint. Collective.
  int finish(const LoopResult& result);
  /// Says that the run failed, and the way on from there. Not collective.
  void fail(const std::exception& error);

 private:
  RunSummary write_results(const LoopResult& result, bool stopped);
  /// How the answer was reached and whether to believe it, in a sentence; empty: not known.
  std::string believed(std::optional<double> chi2, const std::vector<std::string>& warnings) const;
  void say_results(const RunSummary& summary, const LoopResult& result, bool stopped,
                   const std::string& table, const std::vector<std::string>& untraced,
                   const std::vector<std::string>& warnings, std::optional<double> chi2);
  int end_stopped();

  OutputFolder& folder_;
  JobRun& run_;
  Log& log_;
  int restarts_;
  ImageRecord record_;  // of the result, as the file of the data says it
  double clock_;        // seconds of earlier programs of this run
  std::unique_ptr<TraceWriter> trace_;
  Progress progress_;
  std::unique_ptr<Observer> snapshots_;
  Checkpointer checkpoints_;
  RunStatus status_;
  Traffic before_;
  bool diverged_ = false;
};

}  // namespace tessera
