// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// Of these headers, to be compared when a program is compiled. The build takes its version from here.
#define TESSERA_VERSION_MAJOR 0
#define TESSERA_VERSION_MINOR 3
#define TESSERA_VERSION_PATCH 0

namespace tessera {

/// Version of the library that a program is linked with, major.minor.patch.
const char* version();

/// Git commit the library was built from, 12 digits, with "-dirty" after local changes; "unknown" outside
/// git.
const char* commit();

}  // namespace tessera
