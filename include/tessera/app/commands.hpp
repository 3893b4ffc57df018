// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "tessera/comm/communicator.hpp"

namespace tessera {

/// The command line of `tessera`; what main() calls. Collective. The exit code: errors are said, not thrown.
int tessera_main(int argc, char** argv, const Communicator& comm);

}  // namespace tessera
