// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tessera/app/output.hpp"
#include "tessera/app/problem.hpp"
#include "tessera/app/run_plan.hpp"
#include "tessera/solve/checkpoint.hpp"

namespace tessera {

enum class ResumeMode { never, always, automatic };

/// The checkpoint that a run goes on from; nothing where it starts. `notices`: damaged ones that were passed
/// over. Collective; InputError where a checkpoint is wanted and none is good.
std::optional<Checkpoint> find_checkpoint(const OutputFolder& folder, ResumeMode mode,
                                          const Communicator& comm, std::vector<std::string>& notices);

/// SHA-256 and path of every file that the job reads, one a line. Rank 0.
std::string input_sums(const RunPlan& plan);

/// InputError, equal on all ranks, where the job differs in more than iterations, stopping, output and
/// placement (blocks, device, memory, windows), or where an input has changed. Collective.
void check_same_run(const Checkpoint& checkpoint, const RunPlan& plan, const Communicator& comm);

/// What the run chose where the job leaves it open: a resumed one does not choose anew. Collective.
Settings settings_of(const Checkpoint& checkpoint, const JobConfig& asked, const Communicator& comm);

/// Whether the folder holds the results of a run that has nothing left to do, pictures included. Collective.
bool nothing_left(const OutputFolder& folder, const Checkpoint& checkpoint, const JobConfig& job,
                  const Communicator& comm);

/// Choices that were made automatically, into the job: the last bits of the result depend on them. On another
/// number of ranks they are made anew.
void keep_choices(const Checkpoint& checkpoint, RunPlan& plan, const Communicator& comm);

/// How often the run was resumed, also by programs that were lost before their first checkpoint. Collective.
int restarts_so_far(const OutputFolder& folder, const Checkpoint& checkpoint, const Communicator& comm);

/// What to say of a run that failed: the checkpoint that it can go on from. Rank 0.
std::string way_on(const OutputFolder& folder);

/// Writes checkpoints: by rank 0's clock, by count, at the end and on a signal.
class Checkpointer final : public Observer {
 public:
  /// `fixed`: what every checkpoint says; `clock`: seconds of earlier programs of this run.
  Checkpointer(const OutputFolder& folder, const CheckpointConfig& config, Checkpoint fixed,
               std::vector<StateField> fields, const CheckpointPlace& place, double clock, Log& log,
               const Communicator& comm);
  bool wants_rest(int k) override;
  void at_rest(const LoopState& state) override;

  /// Whether the last one is on disk.
  bool written() const { return written_; }
  double seconds() const { return seconds_; }  // that the last one took
  std::int64_t bytes() const { return bytes_; }

 private:
  const OutputFolder& folder_;
  CheckpointFolder checkpoints_;
  CheckpointConfig config_;
  Checkpoint fixed_;
  std::vector<StateField> fields_;
  CheckpointPlace place_;
  double clock_;
  Log& log_;
  Communicator comm_;
  bool asked_ = false, written_ = false;
  double last_ = now(), seconds_ = 0;
  std::int64_t bytes_ = 0;
};

}  // namespace tessera
