// SPDX-License-Identifier: BSD-3-Clause
#include "restart.hpp"
#include "tessera/app/commands.hpp"

int main(int argc, char** argv) {
  tessera::restart_with_sleeping_threads(argc, argv);
  const tessera::MpiSession session(&argc, &argv);
  return tessera::tessera_main(argc, argv, tessera::Communicator::world());
}
