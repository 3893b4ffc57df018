// SPDX-License-Identifier: BSD-3-Clause
// LogGP parameters by ping-pong.
#include <ATen/ops/zeros.h>
#include <mpi.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "tessera/core/phase.hpp"
#include "tessera/domain/tensor.hpp"
#include "tessera/perf/measure.hpp"

namespace tessera {
namespace {

// This rank's partner at a distance; every pair talks at once. None for a rank left over.
std::optional<int> partner(const Communicator& comm, int distance) {
  const bool low = comm.rank() / distance % 2 == 0;
  const int peer = low ? comm.rank() + distance : comm.rank() - distance;
  if (peer >= comm.size()) return std::nullopt;
  return peer;
}

// Median half round trip of messages of this size between host buffers.
double half_round_trip(const Communicator& comm, std::optional<int> peer, int bytes) {
  const int calls = bytes > (1 << 20) ? 6 : 30;
  std::vector<char> out(static_cast<std::size_t>(bytes)), in(out.size());
  std::vector<double> list;
  comm.barrier();
  if (peer) {
    const bool first = comm.rank() < *peer;
    for (int i = 0; i < calls; ++i) {
      const double start = now();
      for (const bool send : {first, !first}) {
        if (send)
          TESSERA_MPI(MPI_Send(out.data(), bytes, MPI_BYTE, *peer, 1, comm.handle()));
        else
          TESSERA_MPI(MPI_Recv(in.data(), bytes, MPI_BYTE, *peer, 1, comm.handle(), MPI_STATUS_IGNORE));
      }
      list.push_back((now() - start) / 2);
    }
    std::sort(list.begin(), list.end());
  }
  double median = list.empty() ? 0 : list[list.size() / 2];
  comm.all_reduce({&median, 1}, Reduce::max);
  return median;
}

// Time per message of a burst of small ones.
double burst(const Communicator& comm, std::optional<int> peer) {
  constexpr int kMessages = 64;
  double seconds = 0;
  comm.barrier();
  if (peer) {
    std::vector<char> out(kMessages * 8), in(kMessages * 8);
    std::vector<MPI_Request> requests(2 * kMessages);
    for (int round = 0; round < 2; ++round) {  // the second one counts
      const double start = now();
      for (int i = 0; i < kMessages; ++i) {
        TESSERA_MPI(MPI_Irecv(&in[static_cast<std::size_t>(8 * i)], 8, MPI_BYTE, *peer, 2, comm.handle(),
                              &requests[static_cast<std::size_t>(i)]));
        TESSERA_MPI(MPI_Isend(&out[static_cast<std::size_t>(8 * i)], 8, MPI_BYTE, *peer, 2, comm.handle(),
                              &requests[static_cast<std::size_t>(kMessages + i)]));
      }
      TESSERA_MPI(MPI_Waitall(2 * kMessages, requests.data(), MPI_STATUSES_IGNORE));
      seconds = (now() - start) / kMessages;
    }
  }
  comm.all_reduce({&seconds, 1}, Reduce::max);
  return seconds;
}

// An Exchange of `pixels` float32 numbers each way between partners.
double exchange_seconds(const Communicator& comm, const std::shared_ptr<Transport>& transport, Device device,
                        std::optional<int> peer, int distance, std::int64_t pixels) {
  std::vector<Box> own, need;
  for (int r = 0; r < comm.size(); ++r) {
    const bool low = r / distance % 2 == 0;
    const int other = low ? r + distance : r - distance;
    own.push_back(Box({0, r, 0}, {1, r + 1, pixels}));
    need.push_back(other < comm.size() ? Box({0, other, 0}, {1, other + 1, pixels}) : Box());
  }
  const Box image = Box::image2d(comm.size(), pixels);
  const auto rank = static_cast<std::size_t>(comm.rank());
  const Box mine = own[rank], wanted = need[rank];
  const at::TensorOptions options = tensor_options(device);
  const at::Tensor from = at::zeros({1, 1, pixels}, options), to = empty_block(1, wanted, options);
  Exchange exchange(ExchangePlan(Layout(own), Layout(need), image, Border::none, comm.rank()), transport, 1,
                    ElementType::float32);
  return time_median(comm, device, 0.02, [&] { exchange.begin(view(from, mine), view(to, wanted)).wait(); });
}

Link measure_link(const Machine& m, const Communicator& comm, const std::shared_ptr<Transport>& transport,
                  Device device, int distance, bool overlaps) {
  const std::optional<int> peer = partner(comm, distance);
  Link link;
  const double small = exchange_seconds(comm, transport, device, peer, distance, 2);
  if (device.is_cuda()) {
    constexpr std::int64_t kLong = 1 << 22;
    const double slope =
        (exchange_seconds(comm, transport, device, peer, distance, kLong) - small) / (4.0 * kLong);
    const double packing = 2 * m.pack.at(4.0 * kLong) / (4.0 * kLong);
    link = {small / 2, small / 4, small / 4, std::max(0.1 * slope, slope - packing), overlaps};
    return link;
  }
  const double one = half_round_trip(comm, peer, 1);
  constexpr int kShort = 1 << 16, kLong = 1 << 22;
  link.g = burst(comm, peer);
  link.G = std::max(
      1e-12, (half_round_trip(comm, peer, kLong) - half_round_trip(comm, peer, kShort)) / (kLong - kShort));
  link.L = one / 2;
  link.o = std::max(one / 4, (small - link.L) / 2);  // of an Exchange: with the program's own work
  link.overlaps = overlaps;
  return link;
}

}  // namespace

void measure_links(Machine& m, const Communicator& comm, const std::shared_ptr<Transport>& transport,
                   Device device) {
  if (comm.size() < 2) return;
  double value = 0;
  const double reduction = time_median(comm, {}, 0.02, [&] { comm.all_reduce({&value, 1}, Reduce::sum); });
  const double steps = std::log2(static_cast<double>(comm.size()));
  m.reduction.points = {{comm.size(), reduction}};
  if (comm.size() < 1024) m.reduction.points[1024] = reduction * 10 / steps;  // a tree of as fast links
  const int here = comm.local_size();
  Links& links = m.links[kind(*transport)];
  if (here > 1) {
    links.node = measure_link(m, comm, transport, device, 1, device.is_cuda());
    links.network = links.node;
    links.network.overlaps = true;
  }
  if (comm.size() > here) links.network = measure_link(m, comm, transport, device, here, true);
}

}  // namespace tessera
