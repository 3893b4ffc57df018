// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <vector>

#include "tessera/comm/array.hpp"
#include "tessera/comm/communicator.hpp"

namespace tessera {

/// What a rank sees before GPUs are given out: its host, and each visible device in the order of the CUDA
/// runtime, named so that ranks of a host mean the same by it (bus id and UUID).
struct GpuSight {
  std::string host;
  std::vector<std::string> gpus;
};

/// Who takes which device.
struct GpuAssignment {
  std::vector<int> device;           // by rank, an index among those it sees; -1: it sees none
  int shared_a = -1, shared_b = -1;  // the first two ranks on one GPU; -1: none are
  int without = -1;                  // the first rank without a GPU; -1: none is
  int with = -1;                     // the first rank with one
};

/// On each host the ranks that see fewest devices choose first, then in rank order; each takes its first
/// device that nobody has, else the one that fewest have. Pure: equal on all ranks.
///
/// That is right for all that Slurm does: one device per task (--gpus-per-task, --gpu-bind), all devices for
/// every task (--gpus-per-node, --gpu-bind=none, no Slurm), and sets that overlap or differ.
GpuAssignment assign_gpus(const std::vector<GpuSight>& ranks);

/// Whether ranks may compute on one GPU together.
enum class GpuSharing { refused, allowed };

/// The InputError of an assignment that a run must not start with, or an empty text. `need`: the job says
/// device: cuda.
std::string complaint(const GpuAssignment& assignment, const std::vector<GpuSight>& ranks, bool need,
                      GpuSharing sharing);

/// This rank's device; the host where no rank sees a GPU and none is needed. Collective; InputError, equal on
/// all ranks.
Device choose_gpu(const Communicator& comm, bool need, GpuSharing sharing);

}  // namespace tessera
