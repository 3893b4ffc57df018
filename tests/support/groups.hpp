// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <gtest/gtest.h>

#include <exception>
#include <initializer_list>

#include "tessera/comm/communicator.hpp"

namespace tessera::test {

/// The end of a part of a test: waits for all ranks. A rank that has failed waits 20 s; if the others do not
/// come, they wait for it inside the part, so it says which one it is and ends the launch (code 3).
void meet(const Communicator& world);

/// For a test that needs one rank: `if (other_rank()) return;`, for seven of the same would share few cores.
inline bool other_rank() { return Communicator::world().rank() != 0; }

/// Runs `body(comm)` on sub-communicators of so many ranks of the launch (the one-process communicator only,
/// without a launcher). Ranks outside a group wait at its end. A failure, also an exception, carries the number
/// of ranks and the rank.
template <class Body>
void on_groups(std::initializer_list<int> sizes, Body body) {
  const Communicator world = Communicator::world();
  for (const int ranks : sizes) {
    if (ranks > world.size()) break;
    const bool inside = world.rank() < ranks;
    const Communicator group = world.split(inside ? 0 : -1, world.rank());
    if (inside) {
      SCOPED_TRACE(::testing::Message() << "on " << ranks << " ranks, rank " << group.rank());
      try {
        body(group);
      } catch (const std::exception& e) {
        ADD_FAILURE() << "threw: " << e.what();
      }
    }
    meet(world);
  }
}

/// On 1, 2, 3, 4, 5 and 7 ranks. Where one body takes seconds, fewer of them are named.
template <class Body>
void on_groups(Body body) {
  on_groups({1, 2, 3, 4, 5, 7}, body);
}

}  // namespace tessera::test
