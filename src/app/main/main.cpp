// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/app/commands.hpp"

int main(int argc, char** argv) {
  const tessera::MpiSession session(&argc, &argv);
  return tessera::tessera_main(argc, argv, tessera::Communicator::world());
}
