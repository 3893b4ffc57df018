// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <gtest/gtest.h>

#include "tessera/comm/communicator.hpp"

namespace tessera::test {

/// Runs `body(comm)` on sub-communicators of 1, 2, 3, 4, 5 and 7 ranks of the launch (the one-process
/// communicator only, without a launcher). Ranks outside a group wait at its end. A failure carries the
/// number of ranks.
template <class Body>
void on_groups(Body body) {
  const Communicator world = Communicator::world();
  for (const int ranks : {1, 2, 3, 4, 5, 7}) {
    if (ranks > world.size()) break;
    const bool inside = world.rank() < ranks;
    const Communicator group = world.split(inside ? 0 : -1, world.rank());
    if (inside) {
      SCOPED_TRACE(::testing::Message() << "on " << ranks << " ranks, rank " << group.rank());
      body(group);
    }
    world.barrier();
  }
}

}  // namespace tessera::test
