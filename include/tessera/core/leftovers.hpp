// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

namespace tessera {

/// A file that is of no use once this process has ended: a temporary one. The last 16 paths are remembered. Any thread.
void remember_leftover(const std::string& path);

/// Removes those that are there. Async-signal-safe.
void remove_leftovers();

}  // namespace tessera
