// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <vector>

namespace tessera {

/// HDF5 itself may crash on a file with a flipped bit in its structure. A seal is a checksum of all bytes of
/// a closed file but the pixels of these datasets, appended behind its end, where HDF5 does not look.
/// RunError where the disk refuses. Not collective, as everything here.
void seal_file(const std::string& path, const std::vector<std::string>& datasets);

/// DamageError where the file has no seal, or another one; InputError where it cannot be read.
void check_seal(const std::string& path);

}  // namespace tessera
