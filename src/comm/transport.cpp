// SPDX-License-Identifier: BSD-3-Clause
#include "transport.hpp"

#include <mpi.h>
#if defined(OPEN_MPI) && OPEN_MPI
#include <mpi-ext.h>
#endif
#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "tessera/core/error.hpp"

namespace tessera {
namespace {

bool mpi_takes_device_memory() {
#if defined(MPIX_CUDA_AWARE_SUPPORT)
  return mpi_running() && MPIX_Query_cuda_support() == 1;
#else
  return false;
#endif
}

Endpoint this_endpoint(Device device) {
  Endpoint e;
  std::array<char, 256> text{};
  gethostname(text.data(), text.size() - 1);
  e.host = text.data();
  if (device.is_cuda()) {
    TESSERA_CUDA(cudaDeviceGetPCIBusId(text.data(), static_cast<int>(text.size()), device.index));
    e.gpu = text.data();
  }
  e.cuda_aware_mpi = mpi_takes_device_memory();
  return e;
}

}  // namespace

std::vector<Endpoint> gather_endpoints(const Communicator& comm, Device device) {
  Endpoint mine;
  comm.together([&] { mine = this_endpoint(device); });
  const std::string line = concat(mine.host, '\n', mine.gpu, '\n', mine.cuda_aware_mpi ? '1' : '0', '\n');
  std::string all;
  for (const std::string& text : comm.gather(line, 0)) all += text;
  std::istringstream in(comm.broadcast(all, 0));
  std::vector<Endpoint> ranks;
  std::string aware;
  for (Endpoint e; std::getline(in, e.host) && std::getline(in, e.gpu) && std::getline(in, aware);) {
    e.cuda_aware_mpi = aware == "1";
    ranks.push_back(e);
  }
  return ranks;
}

std::vector<Part> split_parts(const std::vector<Part>& parts, std::int64_t limit) {
  std::vector<Part> out;
  for (const Part& p : parts)
    for (std::int64_t done = 0; done < p.bytes; done += limit)
      out.push_back({p.peer, p.offset + done, std::min(limit, p.bytes - done)});
  return out;
}

Transport::Transport(const Communicator& communicator, Device where, TransportKind how)
    : comm(communicator.duplicate()), device(where), kind(how) {
  if (comm.handle() == MPI_COMM_NULL) return;
  MPI_Group group = MPI_GROUP_NULL, world = MPI_GROUP_NULL;
  TESSERA_MPI(MPI_Comm_group(comm.handle(), &group));
  TESSERA_MPI(MPI_Comm_group(MPI_COMM_WORLD, &world));
  std::vector<int> ranks(static_cast<std::size_t>(comm.size()));
  for (int r = 0; r < comm.size(); ++r) ranks[static_cast<std::size_t>(r)] = r;
  world_.resize(ranks.size());
  TESSERA_MPI(MPI_Group_translate_ranks(group, comm.size(), ranks.data(), world, world_.data()));
  TESSERA_MPI(MPI_Group_free(&group));
  TESSERA_MPI(MPI_Group_free(&world));
}

int Transport::next_tag() {
  // Exchanges in flight together are told apart by the order in which all ranks began them.
  constexpr int kTags = 1 << 15;  // MPI promises 32767
  tag_ = (tag_ + 1) % kTags;
  return tag_;
}

TransportKind kind(const Transport& transport) { return transport.kind; }
const Communicator& communicator(const Transport& transport) { return transport.comm; }
bool recordable(const Transport& transport) { return transport.recordable(); }

TransportKind choose_transport(TransportKind wanted, const std::vector<Endpoint>& ranks) {
  std::map<std::pair<std::string, std::string>, int> first_on;  // rank that holds a GPU
  int on_cpu = -1, shared_a = -1, shared_b = -1, unaware = -1;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const int r = static_cast<int>(i);
    if (ranks[i].gpu.empty()) {
      if (on_cpu < 0) on_cpu = r;
    } else if (const auto [it, fresh] = first_on.try_emplace({ranks[i].host, ranks[i].gpu}, r);
               !fresh && shared_a < 0) {
      shared_a = it->second;
      shared_b = r;
    }
    if (!ranks[i].cuda_aware_mpi && unaware < 0) unaware = r;
  }
  switch (wanted) {
    case TransportKind::mpi:
      return wanted;
    case TransportKind::cuda_mpi:
      TESSERA_VALIDATE(unaware < 0, "domain.transport is cuda-mpi (the MPI library of rank ", unaware,
                       " cannot read device memory) use auto, or mpi, which goes through host buffers");
      return wanted;
    case TransportKind::nccl:
      TESSERA_VALIDATE(on_cpu < 0, "domain.transport is nccl (rank ", on_cpu,
                       " has no GPU) use auto, or set device: cuda where every rank has one");
      TESSERA_VALIDATE(shared_a < 0, "domain.transport is nccl (ranks ", shared_a, " and ", shared_b,
                       " share a GPU, which NCCL refuses) use mpi, or start one rank per GPU");
      return wanted;
    case TransportKind::automatic:
      break;
  }
  if (on_cpu >= 0 || ranks.size() == 1) return TransportKind::mpi;  // one rank sends nothing
  if (shared_a < 0) return TransportKind::nccl;
  return unaware < 0 ? TransportKind::cuda_mpi : TransportKind::mpi;
}

std::shared_ptr<Transport> make_transport(const Communicator& comm, Device device, TransportKind wanted) {
  const TransportKind chosen = choose_transport(wanted, gather_endpoints(comm, device));
  if (chosen == TransportKind::nccl) return make_nccl_transport(comm, device);
  return make_mpi_transport(comm, device, chosen);
}

}  // namespace tessera
