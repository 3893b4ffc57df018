// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace tessera {

/// What a rank is doing; the rows of the performance trace and the watchdog's heartbeat.
enum class Phase { load, halo, op, adjoint, prox, denoise, reduce, metrics, checkpoint, write, other };
const char* name(Phase phase);

/// One finished phase on this rank.
struct PhaseRecord {
  Phase phase = Phase::other;
  Phase parent = Phase::other;  // other: top level
  std::int64_t iteration = -1;  // in which it began; -1: outside of the loop
  double start = 0;             // seconds since the program began
  double seconds = 0;
  double own_seconds = 0;     // without children
  double wait_seconds = 0;    // blocked on communication that nothing hid
  double flight_seconds = 0;  // exchanges under way, from begun to seen complete; waits included
  double device_seconds = 0;  // of the device without children, see DeviceClock; 0 without one
  std::int64_t bytes_sent = 0, bytes_received = 0, messages = 0;
  std::int64_t allocated_bytes = 0, peak_bytes = 0, resident_bytes = 0;
};

/// Times a phase of this rank from construction to destruction; scopes nest. One thread (the rank's main
/// one).
///
/// Cheap: two clock reads and one row in a vector. Without a reader, records are bounded (the oldest are
/// dropped).
class PhaseScope {
 public:
  explicit PhaseScope(Phase phase);
  ~PhaseScope();
  PhaseScope(const PhaseScope&) = delete;
  PhaseScope& operator=(const PhaseScope&) = delete;
};

/// Adds to the innermost open scope.
void count_sent(std::int64_t bytes, std::int64_t messages);
void count_received(std::int64_t bytes);
void count_wait(double seconds);
void count_flight(double seconds);

/// The time on a device, which runs behind the host: every scope marks where in the device's work it begins
/// and where it ends. The times are read when the device has passed there, and nobody waits for that.
class DeviceClock {
 public:
  virtual ~DeviceClock() = default;
  /// Here, in what the device has been given; -1: nothing is given to it now (it is recorded).
  virtual std::int64_t mark() = 0;
  virtual bool passed(std::int64_t mark) = 0;
  /// Seconds from one to the other, both passed.
  virtual double between(std::int64_t begin, std::int64_t end) = 0;
  /// Of no use any more: its number may be given again.
  virtual void forget(std::int64_t mark) = 0;
};
/// From now on; null: none. Records of before keep their times as far as they are known.
void set_device_clock(std::unique_ptr<DeviceClock> clock);
bool has_device_clock();

/// Takes the records that finished since the last call; with a device's clock those that the device has
/// passed, in the order in which they ended.
std::vector<PhaseRecord> take_phases();

/// Where this rank is, for messages and for the watchdog; safe to read from another thread.
struct Heartbeat {
  Phase phase = Phase::other;
  std::int64_t iteration = -1;  // -1: before the first
  std::uint64_t beats = 0;      // grows with every phase begun or ended and every beat()
  double since = 0;             // seconds in the current phase
  double slowest = 0;           // longest finished phase of this kind on this rank
};
Heartbeat heartbeat();
void beat();                                 // progress inside a long phase
void set_iteration(std::int64_t iteration);  // said by the loop

/// Seconds since the program began (monotonic).
double now();

}  // namespace tessera
