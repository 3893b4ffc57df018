// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/comm/exchange.hpp"

#include <optional>
#include <utility>
#include <vector>

#include "exchange_programs.hpp"
#include "pack.hpp"
#include "tessera/comm/recorded_work.hpp"
#include "tessera/core/error.hpp"
#include "tessera/core/phase.hpp"
#include "transport.hpp"

namespace tessera {
namespace {

/// Programs for arrays of certain strides, with their copies in device memory.
struct Prepared {
  pack::Shape own;
  std::vector<pack::Shape> needs;
  std::int64_t channels;
  bool aliased;
  pack::Steps steps;
  std::unique_ptr<pack::DeviceProgram> pack, local, unpack;  // only on a device
  bool recorded = false;                                     // a RecordedWork reads these

  void upload(ElementType type, Device device) {
    pack = std::make_unique<pack::DeviceProgram>(steps.pack, type, device);
    local = std::make_unique<pack::DeviceProgram>(steps.local, type, device);
    unpack = std::make_unique<pack::DeviceProgram>(steps.unpack, type, device);
  }
};

/// The view whose data pointer stands for all of them: the first that has pixels.
const ArrayView& anchor(std::span<const ArrayView> views) {
  for (const ArrayView& view : views)
    if (!view.box.empty()) return view;
  return views.front();
}

/// Whether these are the views that the shapes were made of.
bool same_shapes(const std::vector<pack::Shape>& shapes, std::span<const ArrayView> views,
                 std::int64_t bytes) {
  if (shapes.size() != views.size()) return false;
  for (std::size_t i = 0; i < views.size(); ++i)
    if (!(shapes[i] == pack::Shape(views[i], anchor(views), bytes))) return false;
  return true;
}

/// Where own's first pixel lies in need's memory, if it is the same memory with the same strides.
bool shares_memory(const ArrayView& own, const ArrayView& need, std::int64_t bytes) {
  if (own.box.empty() || own.data == nullptr || need.data == nullptr || !need.box.contains(own.box))
    return false;
  const std::int64_t at = pack::Shape(need).offset(own.box.lo());
  return static_cast<const char*>(need.data) + at * bytes == own.data && own.stride == need.stride &&
         (own.channel_stride == need.channel_stride || own.channels == 1);
}

}  // namespace

std::int64_t element_bytes(ElementType type) {
  switch (type) {
    case ElementType::bfloat16:
    case ElementType::float16:
      return 2;
    case ElementType::float32:
      return 4;
    case ElementType::float64:
    case ElementType::complex64:
      return 8;
    case ElementType::complex128:
      break;
  }
  return 16;
}

struct Exchange::Impl {
  ExchangePlan plan;
  ExchangePlan route;  // the plan, with this rank's own pieces as a message where the transport wants that
  std::shared_ptr<Transport> transport;
  std::int64_t channels;
  ElementType type;
  Packing packing;
  std::unique_ptr<Lane> lane;
  std::optional<Event> used;                    // the last kernel on the packed buffers; on a device
  bool was_used = false;                        // `used` has been recorded
  std::optional<Prepared> forward, transposed;  // of the last run's strides
  std::vector<Prepared> kept;                   // of earlier ones, which recordings read

  // The run in flight.
  bool running = false;
  const Prepared* run = nullptr;
  Lane::Side from = Lane::sends;
  void* target = nullptr;  // need (forward) or own (transposed)
  cudaStream_t stream = nullptr;
  std::int64_t arriving = 0;      // bytes
  double begun = 0, arrived = 0;  // when; arrived 0: not seen yet

  Impl(ExchangePlan p, std::shared_ptr<Transport> t, std::int64_t c, ElementType e, Packing order)
      : plan(std::move(p)), transport(std::move(t)), channels(c), type(e), packing(order) {
    route = transport->self_messages ? plan.through_self(transport->comm.rank()) : plan;
    const std::int64_t bytes = channels * element_bytes(type);
    lane = transport->make_lane(route.pixels_sent() * bytes, route.pixels_received() * bytes);
    if (transport->device.is_cuda()) used.emplace(transport->device);
  }

  void check(const ArrayView& view, const Box& box) const {
    TESSERA_EXPECT(view.box == box, "exchange with an array over ", view.box, " (the plan was made for ", box,
                   ") pass the plan's boxes");
    TESSERA_EXPECT(view.type == type && view.channels <= channels, "exchange with ", view.channels,
                   " channels of another type or number than the ", channels,
                   " it was made for (buffers are fixed) make another one");
    TESSERA_EXPECT(box.empty() || view.device == transport->device, "exchange with an array on device ",
                   view.device.index, " (its transport is on ", transport->device.index, ") move the array");
  }

  std::vector<Part> parts(const std::vector<Message>& messages, std::int64_t bytes_per_pixel) const {
    std::vector<Part> out;
    std::int64_t at = 0;
    for (const Message& m : messages) {
      out.push_back({m.peer, at, m.pixels * bytes_per_pixel});
      at += out.back().bytes;
    }
    return out;
  }

  Prepared& prepare(std::optional<Prepared>& slot, const ArrayView& own, std::span<const ArrayView> needs,
                    bool transpose) {
    const std::int64_t bytes = element_bytes(type);
    const pack::Shape o(own);
    const bool aliased = needs.size() == 1 && shares_memory(own, needs.front(), bytes);
    const auto suits = [&](const Prepared& p) {
      return p.own == o && same_shapes(p.needs, needs, bytes) && p.channels == own.channels &&
             p.aliased == aliased;
    };
    if (slot && suits(*slot)) return *slot;
    std::vector<pack::Shape> n;
    for (const ArrayView& need : needs) n.emplace_back(need, anchor(needs), bytes);
    pack::Steps steps = transpose ? pack::transposed_steps(route, n, o, own.channels, aliased, packing)
                                  : pack::forward_steps(route, o, n, own.channels, aliased, packing);
    Prepared made{o, std::move(n), own.channels, aliased, std::move(steps), nullptr, nullptr, nullptr, false};
    if (transport->device.is_cuda()) made.upload(type, transport->device);
    if (slot && slot->recorded) kept.push_back(std::move(*slot));
    return slot.emplace(std::move(made));
  }

  void execute(const pack::Program& program, const pack::DeviceProgram* on_device, void* to,
               const void* source) {
    if (program.empty()) return;
    if (on_device)
      on_device->run(to, source, stream);
    else
      pack::run_host(program, type, to, source);
  }

  Pending start(std::optional<Prepared>& slot, Lane::Side side, const ArrayView& own,
                std::span<const ArrayView> needs) {
    TESSERA_EXPECT(!running,
                   "an exchange was begun twice (it has one set of buffers) wait for the first run");
    TESSERA_EXPECT(needs.size() == plan.needs().size(), "exchange into ", needs.size(),
                   " arrays (the plan has ", plan.needs().size(), " needed boxes) pass one for each");
    check(own, plan.own());
    for (std::size_t i = 0; i < needs.size(); ++i) {
      TESSERA_EXPECT(own.channels == needs[i].channels, "exchange between ", own.channels, " and ",
                     needs[i].channels, " channels (they travel one to one) pass equal numbers");
      check(needs[i], plan.needs()[i]);
    }
    const bool forward_run = side == Lane::sends;
    const ArrayView& source = forward_run ? own : anchor(needs);
    const ArrayView& to = forward_run ? anchor(needs) : own;
    stream = static_cast<cudaStream_t>(own.stream);
    Prepared& prepared = prepare(slot, own, needs, !forward_run);
    if (used && recording_of(stream) != 0) prepared.recorded = true;
    run = &prepared;
    from = side;
    target = to.data;

    const std::int64_t bytes_per_pixel = own.channels * element_bytes(type);
    const auto out = parts(forward_run ? route.sends() : route.receives(), bytes_per_pixel);
    const auto in = parts(forward_run ? route.receives() : route.sends(), bytes_per_pixel);
    arriving = in.empty() ? 0 : in.back().offset + in.back().bytes;

    if (was_used) used->hold_within(stream);  // the last run may have been on another stream
    execute(run->steps.pack, run->pack.get(), lane->buffer(side), source.data);
    lane->start(side, out, in, stream);
    running = true;
    begun = now();
    arrived = out.empty() && in.empty() ? begun : 0;  // nothing travels
    count_sent(out.empty() ? 0 : out.back().offset + out.back().bytes, static_cast<std::int64_t>(out.size()));
    execute(run->steps.local, run->local.get(), target, source.data);
    return Pending(*this);
  }

  bool progress() {
    if (!lane->progress()) return false;
    if (arrived == 0) arrived = now();
    return true;
  }

  void wait() {
    if (!progress()) {
      const double start = now();
      lane->wait();
      arrived = now();
      count_wait(arrived - start);
    }
    count_flight(arrived - begun);
    running = false;
    if (transport->abandoned()) return;  // nothing has come
    count_received(arriving);
    lane->deliver(stream);
    execute(run->steps.unpack, run->unpack.get(), target,
            lane->buffer(from == Lane::sends ? Lane::receives : Lane::sends));
    if (used) {
      used->record(stream);
      was_used = true;
    }
  }
};

Exchange::Exchange(ExchangePlan plan, std::shared_ptr<Transport> transport, std::int64_t channels,
                   ElementType type, Packing packing)
    : impl_(std::make_unique<Impl>(std::move(plan), std::move(transport), channels, type, packing)) {}
Exchange::Exchange(Exchange&&) noexcept = default;
Exchange& Exchange::operator=(Exchange&&) noexcept = default;
Exchange::~Exchange() = default;

const ExchangePlan& Exchange::plan() const { return impl_->plan; }

Exchange::Pending Exchange::begin(const ArrayView& own, const ArrayView& need) {
  return impl_->start(impl_->forward, Lane::sends, own, {&need, 1});
}
Exchange::Pending Exchange::begin(const ArrayView& own, std::span<const ArrayView> needs) {
  return impl_->start(impl_->forward, Lane::sends, own, needs);
}
Exchange::Pending Exchange::begin_transposed(const ArrayView& need, const ArrayView& own) {
  return impl_->start(impl_->transposed, Lane::receives, own, {&need, 1});
}

Exchange::Pending::Pending(Pending&& other) noexcept : exchange_(std::exchange(other.exchange_, nullptr)) {}
Exchange::Pending& Exchange::Pending::operator=(Pending&& other) noexcept {
  Pending old(std::move(*this));  // waits at the end of this function
  exchange_ = std::exchange(other.exchange_, nullptr);
  return *this;
}
Exchange::Pending::~Pending() {
  try {
    wait();
  } catch (...) {  // a destructor must not throw; the run fails at its next communication
  }
}
bool Exchange::Pending::progress() { return exchange_ == nullptr || exchange_->progress(); }
void Exchange::Pending::wait() {
  if (Impl* exchange = std::exchange(exchange_, nullptr)) exchange->wait();
}

}  // namespace tessera
