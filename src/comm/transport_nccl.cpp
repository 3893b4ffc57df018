// SPDX-License-Identifier: BSD-3-Clause
// NCCL: one group of sends and receives per exchange, on a stream of its own.
#include <mpi.h>
#include <nccl.h>
#include <sched.h>

#include <algorithm>
#include <exception>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "tessera/comm/recorded_work.hpp"
#include "tessera/core/error.hpp"
#include "tessera/core/phase.hpp"
#include "transport.hpp"
#include "waiting.hpp"

namespace tessera {
namespace {

class NcclTransport final : public Transport {
 public:
  NcclTransport(const Communicator& communicator, Device where, double deadline_seconds)
      : Transport(communicator, where, TransportKind::nccl), deadline_(deadline_seconds) {
    join(Calls::return_at_once);
  }
  // Where an error is on its way, the others may never come to the end that they would all come to.
  ~NcclTransport() override {
    if (std::uncaught_exceptions() > 0)
      NcclTransport::abandon();
    else
      leave();
  }

  void abandon() override {
    Transport::abandon();
    if (handle_) ncclCommAbort(handle_);
    handle_ = nullptr;
  }
  // NCCL launches the groups of a communicator whose calls return at once from a thread that it starts for
  // each of them (ncclGroupEndInternal in its group.cc), behind what this thread has launched by then. Only
  // such a communicator can be given up while a peer does not answer, which the test at the start needs; the
  // run does not: who hangs there is ended by the watchdog, whose thread is not NCCL's.
  void trust() override {
    deadline_ = std::numeric_limits<double>::infinity();
    leave();
    join(Calls::block);
    blocks_ = true;
  }
  // A group that another thread launches is not this thread's to record.
  bool recordable() const override { return blocks_; }

  std::unique_ptr<Lane> make_lane(std::int64_t send_bytes, std::int64_t receive_bytes) override;

  /// True when the last call has been enqueued; throws, with the communicator aborted, when it failed.
  bool enqueued(const char* what) {
    ncclResult_t state = ncclSuccess;
    check(ncclCommGetAsyncError(handle_, &state), what);
    check(state, what);
    return state != ncclInProgress;
  }

  /// Waits for enqueued() within the deadline.
  void settle(const char* what) {
    const double start = now();
    while (!enqueued(what)) yield_until(start, what);
  }

  /// Between two looks at something that began at `start`.
  void yield_until(double start, const char* what) {
    if (now() - start > deadline_)
      fail(concat(what, " took longer than ", deadline_, " s (a rank or its GPU does not answer)",
                  " look at the last lines of the other ranks"));
    sched_yield();
  }

  /// ncclInProgress is no error: settle() follows.
  void check(ncclResult_t code, const char* what) {
    if (code == ncclSuccess || code == ncclInProgress) return;
    fail(concat(what, " failed (NCCL: ", ncclGetErrorString(code),
                ") try domain.transport: mpi, or set NCCL_DEBUG=WARN for the reason"));
  }

  ncclComm_t handle() const {
    if (!handle_) throw RunError("the NCCL communicator was aborted after an error (see the first message)");
    return handle_;
  }

  cudaStream_t stream() const { return stream_->get(); }

 private:
  enum class Calls { return_at_once, block };

  void join(Calls calls) {
    ncclUniqueId id{};
    comm.together([&] {
      if (!stream_) stream_.emplace(device);
      if (comm.rank() == 0) check(ncclGetUniqueId(&id), "ncclGetUniqueId");
    });
    comm.broadcast(&id, sizeof id, 0);
    const DeviceGuard guard(device);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = calls == Calls::block;
    const Waiting waiting(kEverybody);
    check(ncclCommInitRankConfig(&handle_, comm.size(), id, comm.rank(), &config), "ncclCommInitRankConfig");
    settle("joining the NCCL communicator");
  }

  // Every lane has waited, no recording holds an exchange any more. A peer that died never finalizes: then
  // the communicator is taken down as it is (one that blocks waits for it; the watchdog or the launcher ends
  // that).
  void leave() {
    const ncclComm_t left = std::exchange(handle_, nullptr);
    if (!left) return;
    ncclResult_t state = ncclCommFinalize(left);
    for (const double start = now(); state == ncclInProgress && now() - start < kFarewell; sched_yield())
      if (ncclCommGetAsyncError(left, &state) != ncclSuccess) break;
    if (state == ncclSuccess)
      ncclCommDestroy(left);
    else
      ncclCommAbort(left);
  }

  [[noreturn]] void fail(const std::string& message) {
    abandon();  // frees the peers' kernels too, once they do the same
    throw RunError(message);
  }

  static constexpr double kFarewell = 5;  // seconds
  std::optional<Stream> stream_;
  ncclComm_t handle_ = nullptr;
  bool blocks_ = false;
  double deadline_;
};

/// The host waits only until NCCL has taken a run; the stream that wants the bytes waits on the device. How
/// long it stood still there is read from timed events some runs later, when nobody has to wait for them.
/// Runs that are recorded are ordered in the same way, but nothing is read.
class NcclLane final : public Lane {
 public:
  NcclLane(NcclTransport& transport, std::int64_t send_bytes, std::int64_t receive_bytes)
      : transport_(transport), ready_(transport.device), recorded_mark_(transport.device) {
    for (int i = 0; i < kMarks; ++i) marks_.push_back(std::make_unique<Mark>(transport.device));
    packed_[sends] = Buffer(Buffer::Kind::device, transport.device, send_bytes);
    packed_[receives] = Buffer(Buffer::Kind::device, transport.device, receive_bytes);
  }

  // The device may still read and write the buffers.
  ~NcclLane() override {
    try {
      for (const auto& mark : marks_)
        if (mark->pending && !transport_.abandoned()) mark->done.wait();
    } catch (const std::exception&) {  // the run has failed already and says so
    }
  }

  char* buffer(Side side) const override { return packed_[side].data(); }

  void start(Side from, const std::vector<Part>& out, const std::vector<Part>& in,
             cudaStream_t stream) override {
    idle_ = out.empty() && in.empty();
    if (idle_) return;
    recording_ = recording_of(stream);
    mark_ = recording_ != 0 ? &recorded_mark_ : marks_[static_cast<std::size_t>(run_++ % kMarks)].get();
    count_stand(*mark_);
    peer_ = transport_.world_rank(in.empty() ? out.front().peer : in.front().peer);
    const Waiting waiting(peer_);  // NCCL may have to meet it first
    const DeviceGuard guard(transport_.device);
    char* to = packed_[from == sends ? receives : sends].data();
    // First what NCCL has not taken yet: it would be launched behind this exchange's packing.
    transport_.settle("the NCCL exchange before this one");
    ready_.record(stream);
    ready_.hold(transport_.stream());
    transport_.check(ncclGroupStart(), "ncclGroupStart");
    for (const Part& p : out)
      transport_.check(ncclSend(packed_[from].data() + p.offset, static_cast<std::size_t>(p.bytes), ncclChar,
                                p.peer, transport_.handle(), transport_.stream()),
                       "ncclSend");
    for (const Part& p : in)
      transport_.check(ncclRecv(to + p.offset, static_cast<std::size_t>(p.bytes), ncclChar, p.peer,
                                transport_.handle(), transport_.stream()),
                       "ncclRecv");
    transport_.check(ncclGroupEnd(), "ncclGroupEnd");
    recorded_ = false;
    taken();
  }

  bool progress() override {
    return idle_ || transport_.abandoned() || (taken() && (recording_ != 0 || mark_->done.done()));
  }

  void wait() override {
    if (idle_ || transport_.abandoned()) return;
    const Waiting waiting(peer_);
    const double start = now();
    while (!taken()) transport_.yield_until(start, "an NCCL exchange");
  }

  void deliver(cudaStream_t stream) override {
    if (idle_ || transport_.abandoned()) return;
    if (recording_ == 0) mark_->asked.record(stream);
    mark_->done.hold(stream);
    mark_->pending = recording_ == 0;
  }

 private:
  struct Mark {
    explicit Mark(Device device) : asked(device, Event::Timing::yes), done(device, Event::Timing::yes) {}
    Event asked;           // the stream came to where it wants the bytes
    Event done;            // everything has left and arrived
    bool pending = false;  // both have been recorded and not been counted
  };
  static constexpr int kMarks = 8;

  // Whether NCCL has enqueued the run; mark_->done stands behind it then.
  bool taken() {
    const bool enqueued = transport_.enqueued("an NCCL exchange");
    if (!recorded_ && enqueued) {
      mark_->done.record(transport_.stream());
      recorded_ = true;
    }
    return recorded_;
  }

  static void count_stand(Mark& mark) {
    if (!mark.pending) return;
    mark.pending = false;
    mark.asked.wait();  // of kMarks runs ago
    mark.done.wait();
    count_wait(std::max(0.0, mark.done.seconds_since(mark.asked)));
  }

  NcclTransport& transport_;                  // outlives the lane: the exchange holds both
  Buffer packed_[2];                          // by Side
  Event ready_;                               // packed bytes are there
  std::vector<std::unique_ptr<Mark>> marks_;  // of the last runs
  Mark recorded_mark_;                        // of runs in recordings
  Mark* mark_ = nullptr;                      // of this run
  std::uint64_t recording_ = 0;               // that this run is part of
  std::int64_t run_ = 0;
  bool idle_ = true;       // no message in this run
  bool recorded_ = false;  // mark_->done belongs to this run
  int peer_ = 0;           // one that this rank waits for
};

std::unique_ptr<Lane> NcclTransport::make_lane(std::int64_t send_bytes, std::int64_t receive_bytes) {
  return std::make_unique<NcclLane>(*this, send_bytes, receive_bytes);
}

}  // namespace

std::shared_ptr<Transport> make_nccl_transport(const Communicator& comm, Device device,
                                               double deadline_seconds) {
  return std::make_shared<NcclTransport>(comm, device, deadline_seconds);
}

}  // namespace tessera
