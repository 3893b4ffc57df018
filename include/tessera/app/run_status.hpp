// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tessera/app/output.hpp"

namespace tessera {

/// What names a process of this host for good, also when its number is given to another one: boot, space of
/// process numbers, start. Empty where the system does not tell.
std::string process_identity(std::int64_t pid);

/// Of the process that once had this identity and number: unknown on another host or in another container.
enum class ProcessState { alive, gone, unknown };
ProcessState process_state(const std::string& identity, std::int64_t pid);

/// status.json of a run, for `tessera status`: rank 0's thread writes it anew (whole, by a rename) every few
/// seconds while the program lives, so that a stale one means that the run was lost, and names its process.
class RunStatus final : public Observer {
 public:
  static constexpr double kInterval = 5;  // seconds between two

  /// `writes`: rank 0. `iterations`: the limit; `done`: of them, by earlier programs of this run.
  RunStatus(bool writes, const std::string& path, const Progress& progress, int iterations, int done,
            int restarts, int ranks);
  ~RunStatus() override;
  void on_result(const IterationResult& result) override;
  /// running, then writing, then one of finished, waiting (to be started again), stopped, failed. `message`
  /// says more.
  void set(const std::string& state, const std::string& message = "");

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;  // null on ranks that do not write
};

}  // namespace tessera
