// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace tessera {

/// Writes path.tmp through `write`, syncs it to disk and renames it: whole or absent.
void write_whole(const std::string& path, const std::function<void(const std::string& temporary)>& write);
void write_text(const std::string& path, const std::string& text);
std::string read_text(const std::string& path);  // InputError where it cannot be read
std::string sha256(const std::string& path);     // lower-case hex

/// A .npy array (format 1.0, 2.0; C order; f4, f8, u1, u2, i4) as float64.
struct NpyArray {
  std::vector<std::int64_t> shape;
  std::vector<double> values;
};
NpyArray read_npy(const std::string& path);

}  // namespace tessera
