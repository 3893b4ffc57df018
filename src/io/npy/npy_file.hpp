// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/io/posix_file.hpp"

namespace tessera::io {

/// A .npy array on disk: its header checked against the file, its values read in runs.
///
/// Format 1.0, 2.0 or 3.0; C and Fortran order; both byte orders; bool, (u)int of 8 to 64 bits, float16,
/// float32, float64. Not collective. Errors: InputError with the file's name.
/// Source: numpy/lib/format.py, "Format Version 1.0" to "3.0".
class NpyFile {
 public:
  explicit NpyFile(const std::string& path);

  const std::vector<std::int64_t>& shape() const { return shape_; }
  /// Distance, in elements, of neighbors along each axis.
  const std::vector<std::int64_t>& strides() const { return strides_; }
  const std::string& type() const { return type_; }  // float32, uint8, bool, ...
  std::int64_t count() const { return count_; }
  /// Elements [first, first + n) in the order of the file.
  void read(std::int64_t first, std::int64_t n, double* to);

 private:
  void parse(const std::string& header);
  [[noreturn]] void refuse(const std::string& problem, const std::string& why) const;

  InputFile file_;
  std::vector<std::int64_t> shape_, strides_;
  std::string type_;
  char kind_ = 'f';
  std::int64_t element_ = 4, count_ = 0, start_ = 0;
  bool swapped_ = false;
  std::vector<unsigned char> raw_;
};

}  // namespace tessera::io
