// SPDX-License-Identifier: BSD-3-Clause
// MPI messages of packed buffers: host memory as it is; device memory through pinned host buffers, or handed
// to a CUDA-aware MPI.
#include <mpi.h>

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "tessera/core/error.hpp"
#include "transport.hpp"
#include "waiting.hpp"

namespace tessera {
namespace {

class MpiLane final : public Lane {
 public:
  MpiLane(Transport& transport, std::int64_t send_bytes, std::int64_t receive_bytes) : transport_(transport) {
    const Device device = transport.device;
    const bool cuda = device.is_cuda();
    staged_ = cuda && transport.kind == TransportKind::mpi;
    direct_ = cuda && !staged_;
    const std::int64_t bytes[2] = {send_bytes, receive_bytes};
    for (int s = 0; s < 2; ++s) {
      packed_[s] = Buffer(cuda ? Buffer::Kind::device : Buffer::Kind::host, device, bytes[s]);
      if (staged_) pinned_[s] = Buffer(Buffer::Kind::pinned, device, bytes[s]);
    }
    if (cuda) {
      ready_.emplace(device);
      delivered_.emplace(device);
      stream_.emplace(device);
    }
  }

  // Requests hold pointers into the buffers.
  ~MpiLane() override {
    if (transport_.abandoned())
      drop();
    else if (mpi_running())
      MPI_Waitall(static_cast<int>(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE);
  }

  char* buffer(Side side) const override { return packed_[side].data(); }

  void start(Side from, const std::vector<Part>& out, const std::vector<Part>& in,
             cudaStream_t stream) override {
    from_ = from;
    tag_ = transport_.next_tag();
    in_ = split_parts(in, transport_.message_limit);
    out_ = split_parts(out, transport_.message_limit);
    requests_.assign(in_.size() + out_.size(), MPI_REQUEST_NULL);
    if (used_) delivered_->wait();  // the pinned buffer's last copy; long done in practice
    // Into device memory only once `ready_` has passed: the last run's unpack kernel stands before it, and
    // reads until then what a fast peer would overwrite.
    if (!direct_) receive();
    sent_ = out_.empty() && (in_.empty() || !direct_);
    if (requests_.empty()) return;
    if (transport_.device.is_cuda()) {
      // Copies go on a stream of their own, behind the pack kernel and behind the last reader of the bytes
      // that arrive, but beside whatever is computed meanwhile.
      ready_->record(stream);
      if (staged_) ready_->hold(stream_->get());
    }
    if (sent_) return;
    if (!transport_.device.is_cuda()) return send();
    if (staged_) {
      const DeviceGuard guard(transport_.device);
      const Part& last = out_.back();
      TESSERA_CUDA(cudaMemcpyAsync(pinned_[from_].data(), packed_[from_].data(),
                                   static_cast<std::size_t>(last.offset + last.bytes), cudaMemcpyDeviceToHost,
                                   stream_->get()));
      ready_->record(stream_->get());
    }
  }

  bool progress() override {
    if (transport_.abandoned()) return true;
    if (!sent_) {
      if (!ready_->done()) return false;
      send();
    }
    if (requests_.empty()) return true;
    int done = 0;
    TESSERA_MPI(
        MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &done, MPI_STATUSES_IGNORE));
    return done != 0;
  }

  void wait() override {
    if (transport_.abandoned()) return;
    if (!sent_) {
      ready_->wait();
      send();
    }
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      const int peer = i < in_.size() ? in_[i].peer : out_[i - in_.size()].peer;
      const Waiting waiting(transport_.world_rank(peer));
      TESSERA_MPI(MPI_Wait(&requests_[i], MPI_STATUS_IGNORE));
    }
  }

  void deliver(cudaStream_t stream) override {
    if (!staged_ || in_.empty()) return;
    const DeviceGuard guard(transport_.device);
    const Side to = other(from_);
    const Part& last = in_.back();
    TESSERA_CUDA(cudaMemcpyAsync(packed_[to].data(), pinned_[to].data(),
                                 static_cast<std::size_t>(last.offset + last.bytes), cudaMemcpyHostToDevice,
                                 stream_->get()));
    delivered_->record(stream_->get());
    delivered_->hold(stream);
    used_ = true;
  }

 private:
  static Side other(Side side) { return side == sends ? receives : sends; }
  /// The memory that MPI sees.
  char* wire(Side side) const { return staged_ ? pinned_[side].data() : packed_[side].data(); }

  /// Requests of a run that never ends. Messages on their way may still read and write the buffers, which
  /// are left to them.
  void drop() {
    for (MPI_Request& request : requests_)
      if (request != MPI_REQUEST_NULL) {
        if (&request - requests_.data() < static_cast<std::ptrdiff_t>(in_.size())) MPI_Cancel(&request);
        MPI_Request_free(&request);
      }
    for (Buffer* buffer : {&packed_[0], &packed_[1], &pinned_[0], &pinned_[1]})
      static_cast<void>(new Buffer(std::move(*buffer)));
  }

  void receive() {
    char* to = wire(other(from_));
    for (std::size_t i = 0; i < in_.size(); ++i)
      TESSERA_MPI(MPI_Irecv(to + in_[i].offset, static_cast<int>(in_[i].bytes), MPI_BYTE, in_[i].peer, tag_,
                            transport_.comm.handle(), &requests_[i]));
  }

  void send() {
    if (direct_) receive();
    for (std::size_t i = 0; i < out_.size(); ++i)
      TESSERA_MPI(MPI_Isend(wire(from_) + out_[i].offset, static_cast<int>(out_[i].bytes), MPI_BYTE,
                            out_[i].peer, tag_, transport_.comm.handle(), &requests_[in_.size() + i]));
    sent_ = true;
  }

  Transport& transport_;            // outlives the lane: the exchange holds both
  bool staged_ = false;             // device arrays through pinned memory
  bool direct_ = false;             // MPI reads and writes device memory
  Buffer packed_[2];                // by Side, where the arrays are
  Buffer pinned_[2];                // by Side, on the host; only when staged
  std::optional<Event> ready_;      // packed bytes are where MPI reads them
  std::optional<Event> delivered_;  // received bytes have left the pinned buffer
  std::optional<Stream> stream_;    // copies to and from the host
  bool used_ = false;               // delivered_ has been recorded

  Side from_ = sends;
  int tag_ = 0;
  bool sent_ = true;  // nothing waits for ready_ any more
  std::vector<Part> in_, out_;
  std::vector<MPI_Request> requests_;  // of in_, then of out_
};

class MpiTransport final : public Transport {
 public:
  using Transport::Transport;
  std::unique_ptr<Lane> make_lane(std::int64_t send_bytes, std::int64_t receive_bytes) override {
    return std::make_unique<MpiLane>(*this, send_bytes, receive_bytes);
  }
};

}  // namespace

std::shared_ptr<Transport> make_mpi_transport(const Communicator& comm, Device device, TransportKind kind) {
  return std::make_shared<MpiTransport>(comm, device, kind);
}

}  // namespace tessera
