// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "device.hpp"
#include "tessera/comm/exchange.hpp"

namespace tessera {

/// The bytes of a packed buffer that go to, or come from, one peer.
struct Part {
  int peer = 0;
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
};

/// Cuts parts so that none exceeds `limit` bytes; pieces of one part keep their order.
std::vector<Part> split_parts(const std::vector<Part>& parts, std::int64_t limit);

/// One exchange's way through a transport: two persistent packed buffers and what is in flight between them.
///
/// The buffers lie on the transport's device. One run at a time.
class Lane {
 public:
  enum Side { sends = 0, receives = 1 };  // the plan's two message lists, each with its packed buffer

  virtual ~Lane() = default;
  virtual char* buffer(Side side) const = 0;
  /// Sends `out` from buffer(from) and receives `in` into the other one. The packed bytes are ready on
  /// `stream` (ignored on a host). Does not wait for a peer.
  virtual void start(Side from, const std::vector<Part>& out, const std::vector<Part>& in,
                     cudaStream_t stream) = 0;
  /// Never blocks; true when everything has left and arrived.
  virtual bool progress() = 0;
  /// Blocks until progress() is true, or, where the device's own order is enough, until nothing is left to do
  /// for the host; says for whom in `waiting` (waiting.hpp).
  virtual void wait() = 0;
  /// After wait(): later work on `stream` sees the received bytes.
  virtual void deliver(cudaStream_t stream) = 0;
};

class Transport {
 public:
  Transport(const Communicator& communicator, Device where, TransportKind how);
  virtual ~Transport() = default;

  /// Room for `send_bytes` and `receive_bytes`. Not collective.
  virtual std::unique_ptr<Lane> make_lane(std::int64_t send_bytes, std::int64_t receive_bytes) = 0;

  const Communicator comm;  // a message space of its own
  const Device device;
  const TransportKind kind;
  /// Messages that a rank has for itself travel too: tries a transport out on one rank.
  bool self_messages = false;
  /// Largest single message, bytes; MPI counts are 32 bit.
  std::int64_t message_limit = std::int64_t{1} << 30;

  /// Gives up what is in flight: nothing waits for it any more, and the transport is of no use then.
  virtual void abandon() { abandoned_ = true; }
  bool abandoned() const { return abandoned_; }
  /// After its test at the start, once: no deadline but the run's watchdog holds from now on. Collective;
  /// without exchanges in flight.
  virtual void trust() {}
  /// See exchange.hpp. One rank sends nothing.
  virtual bool recordable() const { return comm.size() == 1; }

  int next_tag();
  /// The rank in the launch, for messages.
  int world_rank(int peer) const { return world_.empty() ? peer : world_[static_cast<std::size_t>(peer)]; }

 private:
  bool abandoned_ = false;
  int tag_ = 0;
  std::vector<int> world_;
};

std::shared_ptr<Transport> make_mpi_transport(const Communicator& comm, Device device, TransportKind kind);
/// Collective; blocks until all ranks have joined or the deadline has passed (RunError). Until trust() the
/// deadline holds for every exchange too.
std::shared_ptr<Transport> make_nccl_transport(const Communicator& comm, Device device,
                                               double deadline_seconds = 120);

/// What a rank tells the others before a transport is chosen.
struct Endpoint {
  std::string host;
  std::string gpu;  // bus id; empty on a CPU
  bool cuda_aware_mpi = false;
};
/// Every rank's endpoint, on all ranks. Collective.
std::vector<Endpoint> gather_endpoints(const Communicator& comm, Device device);
/// The kind for these ranks; InputError where the wanted one cannot work. Pure: equal on all ranks.
TransportKind choose_transport(TransportKind wanted, const std::vector<Endpoint>& ranks);

}  // namespace tessera
