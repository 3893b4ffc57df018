// SPDX-License-Identifier: BSD-3-Clause
#include <utility>
#include <vector>

#include "device.hpp"
#include "tessera/comm/gpu.hpp"
#include "tessera/comm/recorded_work.hpp"

namespace tessera {
namespace {

/// Timed events, used again. Nothing here may end a run: what fails gives no time.
class EventClock final : public DeviceClock {
 public:
  EventClock(Device device, std::function<void*()> stream) : device_(device), stream_(std::move(stream)) {}

  std::int64_t mark() override try {
    const auto stream = static_cast<cudaStream_t>(stream_());
    if (recording_of(stream) != 0) return -1;
    if (free_.empty()) {
      free_.push_back(static_cast<std::int64_t>(events_.size()));
      events_.push_back(std::make_unique<Event>(device_, Event::Timing::yes));
    }
    event(free_.back()).record(stream);
    const std::int64_t taken = free_.back();
    free_.pop_back();
    return taken;
  } catch (const std::exception&) {
    return -1;
  }
  bool passed(std::int64_t mark) override try { return event(mark).done(); } catch (const std::exception&) {
    return true;
  }
  double between(std::int64_t begin, std::int64_t end) override try {
    return event(end).seconds_since(event(begin));
  } catch (const std::exception&) {
    return 0;
  }
  void forget(std::int64_t mark) override { free_.push_back(mark); }

 private:
  Event& event(std::int64_t mark) { return *events_[static_cast<std::size_t>(mark)]; }

  Device device_;
  std::function<void*()> stream_;
  std::vector<std::unique_ptr<Event>> events_;
  std::vector<std::int64_t> free_;
};

}  // namespace

std::unique_ptr<DeviceClock> make_device_clock(Device device, std::function<void*()> stream) {
  return std::make_unique<EventClock>(device, std::move(stream));
}

}  // namespace tessera
