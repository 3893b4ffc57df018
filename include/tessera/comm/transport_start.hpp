// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "tessera/comm/exchange.hpp"

namespace tessera {

/// A transport that has shown that it moves data.
struct StartedTransport {
  std::shared_ptr<Transport> transport;
  double bytes_per_second = 0;  // sent by the slowest rank in exchanges of some 0.5 MB; 0: nothing travels
  double seconds = 0;           // of an exchange of a few kB
  std::vector<std::string> warnings;  // of transports that were passed over, one line each
};

/// Makes the transport that the ranks can have (as make_transport) and tries it out before it is trusted:
/// known values go to all neighbors of the grid of blocks, corners and the far side included, and are
/// compared. One that brings wrong data or fails on any rank is replaced on every rank by the next of nccl,
/// cuda_mpi, mpi.
///
/// Takes some milliseconds beside what making takes. A probe that hangs is ended by a watchdog after
/// `limit_seconds` (0: never; else no other Watchdog may exist). Collective; RunError, equal on all ranks,
/// where none works.
StartedTransport start_transport(const Communicator& comm, Device device, TransportKind wanted,
                                 const std::array<int, 3>& grid, double limit_seconds);

/// "mpi, tested: 2.1 GB/s, 14 us" for the log.
std::string description(const StartedTransport& started);

}  // namespace tessera
