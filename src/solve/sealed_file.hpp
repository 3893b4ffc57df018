// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <vector>

namespace tessera {

/// Puts a finished HDF5 file `from` in place as `to`, whole or absent, with a seal behind its end: a checksum
/// of everything that is no pixel (HDF5 follows what it finds there, and a flipped bit can make it crash).
/// HDF5 reads sealed files as any other. `datasets`: chunked, unfiltered. One process. RunError.
void seal_file(const std::string& from, const std::string& to, const std::vector<std::string>& datasets);

/// InputError where the file has no seal, or another than it should. One process; HDF5 is not asked.
void check_seal(const std::string& path);

}  // namespace tessera
