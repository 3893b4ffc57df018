// SPDX-License-Identifier: BSD-3-Clause
#pragma once

namespace tessera {

/// Version of the library, major.minor.patch.
const char* version();

/// Git commit the library was built from, 12 digits, with "-dirty" after local changes; "unknown" outside
/// git.
const char* commit();

}  // namespace tessera
