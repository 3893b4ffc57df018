// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace tessera {

/// What a rank is doing; the rows of the performance trace and the watchdog's heartbeat.
/// `scratch`: waiting for what lies in the scratch file.
enum class Phase {
  load,
  halo,
  op,
  adjoint,
  prox,
  denoise,
  reduce,
  metrics,
  checkpoint,
  write,
  scratch,
  other
};
const char* name(Phase phase);

/// One finished phase on this rank.
struct PhaseRecord {
  Phase phase = Phase::other;
  Phase parent = Phase::other;  // other: top level
  std::int64_t iteration = -1;  // in which it began; -1: outside of the loop
  double start = 0;             // seconds since the recorder's begin
  double seconds = 0;
  double own_seconds = 0;     // without children
  double wait_seconds = 0;    // blocked on communication that nothing hid
  double flight_seconds = 0;  // exchanges under way, from begun to seen complete; waits included
  double device_seconds = 0;  // of the device without children, see DeviceClock; 0 without one
  std::int64_t bytes_sent = 0, bytes_received = 0, messages = 0;
  std::int64_t bytes_read = 0,
               bytes_written = 0;  // from disks and to them, without children, while there is a scratch file
  std::int64_t allocated_bytes = 0, peak_bytes = 0, resident_bytes = 0;
};

/// What one run does: its phases, its iteration, its clock. A process may have several, one after the other or
/// on threads of their own; one thread records into one at a time.
///
/// Until a thread has entered one, it records into the process's. Times count from the program's begin in that
/// one and in the first that is entered, in later ones from where they were made.
class Recorder {
 public:
  Recorder();
  ~Recorder();  ///< not while it is entered
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  /// The one that this thread records into.
  static Recorder& current();

  /// This thread records into it while one lives; no scope of it is open before or after. Peaks of memory begin
  /// anew.
  class Entered {
   public:
    explicit Entered(Recorder& recorder);
    ~Entered();
    Entered(const Entered&) = delete;
    Entered& operator=(const Entered&) = delete;

   private:
    Recorder* before_;
  };

  struct Impl;
  Impl& impl() { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

/// Times a phase of this rank from construction to destruction, in the thread's recorder; scopes nest.
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

// All that follows is of the thread's recorder.

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

/// Where this process is, for messages and for the watchdog; safe to read from another thread.
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

/// Seconds since the thread's recorder began (monotonic).
double now();

}  // namespace tessera
