// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tessera {

/// A variable of a MATLAB file: text, numbers (column after column), or a struct of one element.
struct MatlabValue {
  std::vector<std::int64_t> size{};
  std::string text{};
  std::vector<double> numbers{};
  std::vector<std::pair<std::string, MatlabValue>> fields{};
  const MatlabValue* field(const std::string& name) const;
};

/// Whether bytes are the beginning of a file of versions 5 to 7.2; 7.3 is HDF5.
bool is_matlab(const std::string& bytes);

/// The variables, as fields of one value; those of other kinds (cells, objects, sparse, complex) are left out. `bytes`: the
/// whole file; `path`: for messages. InputError where it is torn, or says sizes that it does not have: nothing is
/// allocated by a stated size alone. Not collective. Source: MAT-File Format, The MathWorks, R2019b.
MatlabValue read_matlab(const std::string& bytes, const std::string& path);

}  // namespace tessera
