// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/core/leftovers.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <list>
#include <mutex>

namespace tessera {
namespace {

std::array<std::atomic<const char*>, 16> remembered;
static_assert(std::atomic<const char*>::is_always_lock_free);

}  // namespace

void remember_leftover(const std::string& path) {
  static std::mutex mutex;
  static std::list<std::string> all;  // kept until the program ends: a signal may read any of them
  static std::size_t next = 0;
  const std::lock_guard lock(mutex);
  if (std::any_of(remembered.begin(), remembered.end(), [&](const char* p) { return p && path == p; }))
    return;
  remembered[next++ % remembered.size()] = all.emplace_back(path).c_str();
}

void remove_leftovers() {
  for (const std::atomic<const char*>& path : remembered)
    if (const char* p = path) ::unlink(p);
}

}  // namespace tessera
