// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/app/commands.hpp"
#include "thread_settings.hpp"

int main(int argc, char** argv) {
  tessera::MpiSession session(&argc, &argv);
  session.end(tessera::tessera_main(argc, argv, tessera::Communicator::world()));
}
