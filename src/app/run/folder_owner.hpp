// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace tessera {

/// Who writes into an output folder: one program at a time, which says so in FOLDER/owner.json; or who writes a
/// file and what lies beside it, in FILE.owner.json. Rank 0's.
///
/// The file is made by O_EXCL, and touched every few seconds. Another program that finds it asks the system
/// whether that process lives; where it cannot (another host, another container) it watches whether the file
/// is still touched, by its own clock, and takes the folder over after kSilence seconds of silence. A program
/// that stood still for longer finds out at its next checkpoint (require()) and ends. File locks are used
/// where there are some, and not relied on.
class FolderOwner {
 public:
  static constexpr const char* kFile = "owner.json";
  static constexpr double kSilence = 30;

  /// Takes the folder, which is there, or the file, whose folder is. `key`: of the job, which names it. InputError
  /// where another program has it, or it cannot be written.
  FolderOwner(std::string taken, std::string key);
  /// Gives it back.
  ~FolderOwner();
  FolderOwner(const FolderOwner&) = delete;
  FolderOwner& operator=(const FolderOwner&) = delete;

  /// RunError where another program has taken the folder over, or the file is gone.
  void require() const;

 private:
  void take();
  bool make();
  void touch();

  std::string taken_, key_, folder_, path_, id_;
  int fd_ = -1;  // of our own file, whatever stands at its path by now
  std::mutex mutex_;
  std::condition_variable wake_;
  bool over_ = false;
  std::thread thread_;
};

}  // namespace tessera
