// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace tessera {

/// A name beside `path` that no other program uses: PATH.XXXXXXXX.tmp, X being the same in all calls of this
/// program. What a killed program leaves behind has this form.
std::string temporary_name(const std::string& path);
bool is_temporary(const std::string& name);

/// Writes temporary_name(path) through `write`, syncs it to disk and renames it: whole or absent. RunError
/// where the disk refuses. Not collective, as everything here.
void write_whole(const std::string& path, const std::function<void(const std::string& temporary)>& write);
void write_text(const std::string& path, const std::string& text);
std::string read_text(const std::string& path);  // InputError where it cannot be read
std::string sha256(const std::string& path);     // lower-case hex

/// A .npy array in C order as float64. Files: format 1 to 3; C and Fortran order; either byte order; bool,
/// integers, float32, float64. Header, shape and size are checked against each other: InputError.
struct NpyArray {
  std::vector<std::int64_t> shape;  // empty: one number
  std::vector<double> values;
};
NpyArray read_npy(const std::string& path);

}  // namespace tessera
