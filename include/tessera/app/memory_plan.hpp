// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tessera/app/run_plan.hpp"
#include "tessera/domain/tensor_memory.hpp"

namespace tessera {

/// Where the bytes of a rank lie, by arithmetic: in memory, or the state in a scratch file and the rest in memory.
struct MemoryPlan {
  std::int64_t most = 0;     // what this rank may have resident: the job's memory, else what is free
  bool budget = false;       // the job says it
  std::int64_t program = 0;  // program and libraries; on a GPU 0
  std::int64_t state = 0;  // of the fullest rank: solver, samples, images, and what a step takes for a moment
  std::int64_t file = 0;   // of that in a scratch file, where elementwise steps go by bands
  std::int64_t weights = 0;   // of the network
  bool scratch = false;       // the state lies in a file
  std::int64_t margin = 0;    // that the thread which takes its pages away is late by
  std::int64_t features = 0;  // what a network's features may take
};

/// `available`: bytes of memory for each rank. InputError where nothing is left to compute in.
MemoryPlan plan_memory(const RunPlan& plan, std::int64_t available);

/// The folder of the job's scratch file: scratch_folder, else $SLURM_TMPDIR, $TMPDIR and the output folder, the first that
/// is on a disk. InputError where it is none.
std::string scratch_folder(const JobConfig& job);

/// The scratch of this rank, where its plan wants one; null: none. Large tensors lie there while it lives. `said`: one line
/// for the user. InputError where the disk has no room for what all ranks of this host will put there. Collective.
std::unique_ptr<ScratchScope> open_scratch(const RunPlan& plan, const Communicator& comm, std::string& said);

}  // namespace tessera
