// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tessera/comm/array.hpp"
#include "tessera/comm/communicator.hpp"
#include "tessera/core/phase.hpp"

namespace tessera {

/// What a rank sees before GPUs are given out: its host, and each visible device in the order of the CUDA
/// runtime, named so that ranks of a host mean the same by it (bus id and UUID).
struct GpuSight {
  std::string host;
  std::vector<std::string> gpus;
  std::string trouble =
      {};  // why CUDA does not work though there is a driver; empty: it does, or there is none
};

/// How many devices the CUDA runtime names, and why it names none though there may be some: an old driver, a
/// broken one, the stub library of a build machine. No driver and no device are no trouble.
struct GpuCount {
  int devices = 0;
  std::string trouble = {};
};
GpuCount count_gpus();
/// The same from what the runtime returned: a cudaError_t, the count, and the driver's version (0: none).
GpuCount gpu_count(int error, int devices, int driver);

/// Who takes which device.
struct GpuAssignment {
  std::vector<int> device;           // by rank, an index among those it sees; -1: it sees none
  std::vector<int> sharers;          // by rank, how many ranks its GPU has, itself included; 0: no GPU
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

/// A rank's device, and how many ranks compute on it (1 on the host).
struct ChosenDevice {
  Device device;
  int sharers = 1;
};
/// This rank's device; the host where no rank sees a GPU and none is needed. It becomes the current device of
/// the CUDA runtime, so that what asks for no device in particular does not wake another one. Collective;
/// InputError, equal on all ranks.
ChosenDevice choose_gpu(const Communicator& comm, bool need, GpuSharing sharing);
/// The same by the word that jobs and options use: auto, cpu or cuda.
ChosenDevice choose_device(const Communicator& comm, const std::string& wanted, GpuSharing sharing);

/// Times what is given to the cudaStream_t that `stream` names whenever it is asked.
std::unique_ptr<DeviceClock> make_device_clock(Device device, std::function<void*()> stream);

}  // namespace tessera
