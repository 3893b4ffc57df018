// SPDX-License-Identifier: BSD-3-Clause
#include "support/groups.hpp"

#include <unistd.h>

#include <cstdio>

#include "tessera/core/phase.hpp"

namespace tessera::test {

void meet(const Communicator& world) {
  if (world.handle() == MPI_COMM_NULL) return;
  constexpr double kPatience = 20;  // seconds that a rank which failed waits for the others
  const bool failed = ::testing::Test::HasFailure();
  MPI_Request request = MPI_REQUEST_NULL;
  TESSERA_MPI(MPI_Ibarrier(world.handle(), &request));
  const double start = now();
  for (int done = 0; !done;) {
    TESSERA_MPI(MPI_Test(&request, &done, MPI_STATUS_IGNORE));
    if (!done && failed && now() - start > kPatience) {
      std::fprintf(stderr, "rank %d failed in the middle of %s and the others wait for it: the launch ends\n",
                   world.rank(), ::testing::UnitTest::GetInstance()->current_test_info()->name());
      world.abort(3);
    }
    ::usleep(200);  // a rank that yields is run in turn with those that work, and many wait here
  }
}

}  // namespace tessera::test
