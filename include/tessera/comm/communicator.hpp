// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <mpi.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tessera {

enum class Reduce { sum, max, min };

/// Owns MPI_Init/MPI_Finalize for main(). Without a launcher around the program nothing is started and
/// `Communicator::world()` is the one-process communicator.
class MpiSession {
 public:
  MpiSession(int* argc, char*** argv);
  ~MpiSession();
  /// Ends MPI and the process, with everything printed. Static objects are not destroyed: those of torch's
  /// operators would take 0.1 s. Collective.
  [[noreturn]] void end(int code);
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;
};

/// A group of processes. A copy is the same group (shared handle, freed with the last copy).
///
/// A default-constructed one holds this process alone and takes the same path everywhere: reductions return
/// their input, exchanges copy. Collective calls are marked; all ranks must make them in the same order.
/// Errors: a failing MPI call throws RunError with its name, file and line.
class Communicator {
 public:
  Communicator() = default;
  /// All ranks of the launch; the one-process communicator without MPI.
  static Communicator world();
  /// Ranks that somebody else started and grouped; `handle` stays theirs, and lives longer than this. MPI was
  /// started with MPI_THREAD_FUNNELED or more. Sets the handle's errors to be returned.
  static Communicator adopt(MPI_Comm handle);

  int rank() const;
  int size() const;
  /// Rank among those that share this host's memory. Collective at first call.
  int local_rank() const;
  int local_size() const;

  /// Collective. Ranks with equal color form a group, ordered by key; color < 0: a one-process communicator.
  Communicator split(int color, int key) const;
  /// Collective. The same ranks with a message space of their own.
  Communicator duplicate() const;

  void barrier() const;                                                      ///< collective
  void all_reduce(std::span<double> values, Reduce op) const;                ///< collective, in place
  void all_reduce(std::span<std::int64_t> values, Reduce op) const;          ///< collective, in place
  void broadcast(void* bytes, std::int64_t count, int root) const;           ///< collective
  std::string broadcast(const std::string& text, int root) const;            ///< collective
  std::vector<std::string> gather(const std::string& text, int root) const;  ///< collective; empty off root
  std::vector<double> all_gather(double value) const;                        ///< collective

  /// A reduction (sum) in flight. `values` must stay in place until wait() returns.
  class Pending {
   public:
    Pending() = default;
    Pending(Pending&&) noexcept;
    Pending& operator=(Pending&&) noexcept;
    ~Pending();  // waits
    bool progress();
    void wait();

   private:
    friend class Communicator;
    MPI_Request request_ = MPI_REQUEST_NULL;
  };
  [[nodiscard]] Pending all_reduce_begin(std::span<double> values) const;  ///< collective, in place

  /// Collective. Runs `work` on every rank; if it throws anywhere, every rank throws the message of the
  /// lowest such rank, as InputError (or DamageError) or, for any other exception, as RunError, with
  /// Error::everywhere. What makes all ranks fail together: put validation inside, collectives outside. A
  /// rank that failed waits for the others to come here too, a minute at most; then it says why, and ends the
  /// job.
  void together(const std::function<void()>& work) const;

  /// Ends the whole job at once with this exit code, after flushing what was said. For a rank that cannot go
  /// on.
  [[noreturn]] void abort(int code) const;

  /// The MPI handle, for transports and parallel files; MPI_COMM_NULL for the one-process communicator.
  MPI_Comm handle() const;

 private:
  struct Shared;
  std::shared_ptr<const Shared> shared_;  // null: one process
};

/// Seconds that a rank which failed waits for the others, at most `usual`; less where TESSERA_PATIENCE says
/// so.
double patience(double usual);

/// Waits, two seconds at most, until somebody has read what was said on standard error: a launcher drops the
/// rest when it ends a job, and a rank that exits with an error makes it do so.
void wait_until_read();

/// True between MpiSession's start and end with a launcher around us, or while an adopted MPI runs.
bool mpi_running();

/// Every MPI return goes through here.
void check_mpi(int code, const char* call, const char* file, int line);
#define TESSERA_MPI(call) ::tessera::check_mpi((call), #call, __FILE__, __LINE__)

}  // namespace tessera
