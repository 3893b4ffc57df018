// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>

#include "tessera/comm/array.hpp"

namespace tessera {

/// A CUDA stream of high priority beside torch's current one, for small calls that shall not wait in line:
/// their blocks are taken as soon as a multiprocessor has room.
class SideStream {
 public:
  explicit SideStream(Device device);
  ~SideStream();
  SideStream(const SideStream&) = delete;
  SideStream& operator=(const SideStream&) = delete;

  /// What comes on the side waits for all that the current stream has been given until now.
  void fork();
  /// What the current stream is given from now on waits for the side.
  void join();

  /// While it lives, the side is torch's current stream. Tensors made meanwhile may be read on the other
  /// stream after join(), and are free to be used again once the next fork() has been made.
  class Scope {
   public:
    explicit Scope(SideStream& side);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
  };
  /// Its cudaStream_t.
  void* handle() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tessera
