// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/comm/gpu.hpp"

#include <cuda_runtime_api.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <sstream>
#include <utility>

#include "device.hpp"
#include "tessera/core/error.hpp"

namespace tessera {
namespace {

// Bus id and UUID: slices of one GPU (MIG) have the first in common.
std::string gpu_name(int index) {
  std::array<char, 64> bus{};
  cudaDeviceProp properties{};
  if (cudaDeviceGetPCIBusId(bus.data(), static_cast<int>(bus.size()), index) != cudaSuccess ||
      cudaGetDeviceProperties(&properties, index) != cudaSuccess)
    throw RunError(concat("CUDA device ", index, " does not answer (it is visible) look at nvidia-smi"));
  std::string name = std::string(bus.data()) + ' ';
  for (const char byte : properties.uuid.bytes) {
    constexpr char kDigits[] = "0123456789abcdef";
    name += kDigits[(byte >> 4) & 15];
    name += kDigits[byte & 15];
  }
  return name;
}

GpuSight look() {
  GpuSight mine;
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  mine.host = host.data();
  GpuCount count = count_gpus();
  mine.trouble = std::move(count.trouble);
  for (int d = 0; d < count.devices; ++d) mine.gpus.push_back(gpu_name(d));
  return mine;
}

// One line per rank: host, trouble, then its GPUs.
std::vector<GpuSight> tell_all(const Communicator& comm, const GpuSight& mine) {
  std::string line = mine.host + '\t' + mine.trouble;
  for (const std::string& gpu : mine.gpus) line += '\t' + gpu;
  std::string all;
  for (const std::string& text : comm.gather(line, 0)) all += text + '\n';
  std::istringstream lines(comm.broadcast(all, 0));
  std::vector<GpuSight> ranks;
  for (std::string text; std::getline(lines, text);) {
    std::istringstream fields(text);
    GpuSight sight;
    std::getline(fields, sight.host, '\t');
    std::getline(fields, sight.trouble, '\t');
    for (std::string gpu; std::getline(fields, gpu, '\t');) sight.gpus.push_back(gpu);
    ranks.push_back(std::move(sight));
  }
  return ranks;
}

std::string visible_devices() {
  const char* value = std::getenv("CUDA_VISIBLE_DEVICES");
  return value ? concat("CUDA_VISIBLE_DEVICES is '", value, "'") : "CUDA_VISIBLE_DEVICES is not set";
}

}  // namespace

GpuCount gpu_count(int error, int devices, int driver) {
  if (error == cudaSuccess) return {devices};
  // Without any driver the runtime calls it too old.
  if (error == cudaErrorNoDevice || (error == cudaErrorInsufficientDriver && driver == 0)) return {};
  const auto version = [](int v) { return concat(v / 1000, '.', v % 1000 / 10); };
  if (error == cudaErrorInsufficientDriver)
    return {0, concat("the driver knows CUDA ", version(driver), ", this program needs ",
                      version(CUDART_VERSION))};
  return {0, concat("CUDA says: ", cudaGetErrorString(static_cast<cudaError_t>(error)))};
}

GpuCount count_gpus() {
  int devices = 0, driver = 0;
  const cudaError_t code = cudaGetDeviceCount(&devices);
  if (code != cudaSuccess) {
    cudaGetLastError();  // not the next caller's
    cudaDriverGetVersion(&driver);
  }
  return gpu_count(code, devices, driver);
}

GpuAssignment assign_gpus(const std::vector<GpuSight>& ranks) {
  GpuAssignment out;
  out.device.assign(ranks.size(), -1);
  out.sharers.assign(ranks.size(), 0);
  std::vector<std::size_t> order(ranks.size());
  for (std::size_t r = 0; r < order.size(); ++r) order[r] = r;
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return ranks[a].gpus.size() < ranks[b].gpus.size(); });
  std::map<std::pair<std::string, std::string>, int> users;  // of a GPU of a host
  for (const std::size_t r : order) {
    int best = -1, fewest = 0;
    for (std::size_t d = 0; d < ranks[r].gpus.size(); ++d) {
      const int n = users[{ranks[r].host, ranks[r].gpus[d]}];
      if (best >= 0 && n >= fewest) continue;
      best = static_cast<int>(d);
      fewest = n;
    }
    out.device[r] = best;
    if (best >= 0) ++users[{ranks[r].host, ranks[r].gpus[static_cast<std::size_t>(best)]}];
  }
  std::map<std::pair<std::string, std::string>, int> first;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const int r = static_cast<int>(i);
    int& any = out.device[i] < 0 ? out.without : out.with;
    if (any < 0) any = r;
    if (out.device[i] < 0) continue;
    const std::pair<std::string, std::string> gpu{ranks[i].host,
                                                  ranks[i].gpus[static_cast<std::size_t>(out.device[i])]};
    out.sharers[i] = users[gpu];
    const auto [it, fresh] = first.try_emplace(gpu, r);
    if (!fresh && out.shared_a < 0) {
      out.shared_a = it->second;
      out.shared_b = r;
    }
  }
  return out;
}

std::string complaint(const GpuAssignment& a, const std::vector<GpuSight>& ranks, bool need,
                      GpuSharing sharing) {
  for (std::size_t r = 0; r < ranks.size(); ++r)
    if (!ranks[r].trouble.empty())
      return concat("no GPU can be used on ", ranks[r].host, " (", ranks[r].trouble,
                    ") look at nvidia-smi and update the driver, or write 'device: cpu'");
  if (a.with < 0)
    return need ? concat("device is cuda (no CUDA device is visible; ", visible_devices(),
                         ") check nvidia-smi, ask Slurm for GPUs (--gpus-per-node), or write 'device: cpu'")
                : "";
  if (a.without >= 0)
    return concat("rank ", a.without, " on ", ranks[static_cast<std::size_t>(a.without)].host,
                  " sees no GPU (rank ", a.with, " on ", ranks[static_cast<std::size_t>(a.with)].host,
                  " does; all ranks compute on the same kind of device) give every task one, for example "
                  "srun --gpus-per-node=2 jobs/bind.sh, or write 'device: cpu'");
  if (a.shared_a < 0 || sharing == GpuSharing::allowed) return "";
  const GpuSight& sight = ranks[static_cast<std::size_t>(a.shared_b)];
  const std::string& gpu =
      sight.gpus[static_cast<std::size_t>(a.device[static_cast<std::size_t>(a.shared_b)])];
  return concat("ranks ", a.shared_a, " and ", a.shared_b, " would compute on one GPU (", sight.host, ", ",
                gpu.substr(0, gpu.find(' ')),
                ": each would slow the other down) start one rank per GPU, for example srun "
                "--gpus-per-node=2 jobs/bind.sh, or write 'domain: {share_gpu: true}' if it is meant");
}

ChosenDevice choose_gpu(const Communicator& comm, bool need, GpuSharing sharing) {
  GpuSight mine;
  comm.together([&] { mine = look(); });
  const std::vector<GpuSight> ranks = tell_all(comm, mine);
  const GpuAssignment assignment = assign_gpus(ranks);
  comm.together([&] {
    const std::string text = complaint(assignment, ranks, need, sharing);
    if (!text.empty()) throw InputError(text);
  });
  const auto rank = static_cast<std::size_t>(comm.rank());
  const Device device{assignment.device[rank]};
  if (!device.is_cuda()) return {};
  comm.together([&] { TESSERA_CUDA(cudaSetDevice(device.index)); });
  return {device, assignment.sharers[rank]};
}

ChosenDevice choose_device(const Communicator& comm, const std::string& wanted, GpuSharing sharing) {
  return wanted == "cpu" ? ChosenDevice{} : choose_gpu(comm, wanted == "cuda", sharing);
}

}  // namespace tessera
