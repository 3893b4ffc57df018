// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>
#include <span>

#include "tessera/comm/array.hpp"
#include "tessera/comm/communicator.hpp"
#include "tessera/comm/exchange_plan.hpp"
#include "tessera/core/execution.hpp"

namespace tessera {

/// Moves contiguous buffers between ranks; made once per run and shared by all exchanges. See transport.hpp.
class Transport;
/// Collective. `kind` automatic chooses; the choice is the same on all ranks.
std::shared_ptr<Transport> make_transport(const Communicator& comm, Device device, TransportKind kind);
TransportKind kind(const Transport& transport);
const Communicator& communicator(const Transport& transport);
/// Whether exchanges may become part of a RecordedWork: the host takes no part in them.
bool recordable(const Transport& transport);

/// Order of the elements in a message: channel after channel, or pixel after pixel with its channels side by
/// side, which is what channels-last arrays copy without strides. Sender and receiver use the same.
enum class Packing { planes, pixels };

/// A plan with persistent packed buffers for one element type and up to `channels` channels on one device.
///
/// Packing and unpacking are one kernel each on a device, rows on a host. Messages above 2^31 - 1 elements
/// are split. All ranks of the transport's communicator run the same exchanges in the same order, also those
/// with empty boxes. Arrays lie on the transport's device; their kernels run on own's stream.
class Exchange {
  struct Impl;

 public:
  Exchange(ExchangePlan plan, std::shared_ptr<Transport> transport, std::int64_t channels, ElementType type,
           Packing packing = Packing::planes);
  Exchange(Exchange&&) noexcept;
  Exchange& operator=(Exchange&&) noexcept;
  ~Exchange();

  const ExchangePlan& plan() const;

  /// An exchange in flight. Between begin and wait the arrays must stay in place; of a forward exchange the
  /// source may be read, and the destination may be read and written where the plan does not write. Pixels
  /// that a rank has itself are in place when begin() returns.
  class [[nodiscard]] Pending {
   public:
    Pending(Pending&&) noexcept;
    Pending& operator=(Pending&&) noexcept;  // waits for what it held
    ~Pending();                              // waits; an error is then lost
    bool progress();  // lets MPI move data; true when everything has arrived. Never blocks.
    void wait();      // ends the exchange; time spent blocked is counted as exposed wait
   private:
    friend class Exchange;
    explicit Pending(Impl& exchange) : exchange_(&exchange) {}
    Impl* exchange_;  // null: ended
  };

  /// need <- own: after wait(), `need` holds at each of its pixels the image's value (border rule applied).
  /// `own` may be the part of need's memory that holds the same pixels (a block inside its halo).
  /// One run at a time per Exchange. Bytes are counted into the open phase.
  Pending begin(const ArrayView& own, const ArrayView& need);
  /// For a plan with several needed boxes: one array for each, all in one piece of memory, apart from own's.
  Pending begin(const ArrayView& own, std::span<const ArrayView> needs);
  /// own += need^T: adds every value of `need` onto the pixel it came from, in a fixed order that does not
  /// depend on arrival: this rank's, then by peer. The transpose of begin(). Pixels that both share in memory
  /// count once. 16-bit types are summed in float.
  Pending begin_transposed(const ArrayView& need, const ArrayView& own);

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace tessera
