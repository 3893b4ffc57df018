// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>

#include "tessera/io/hdf5.hpp"

namespace tessera::io {

/// What is said of the numbers of a dataset, and in words.
struct StatedValues {
  StoredValues values;
  std::string note = {};  // or empty
  std::string type;       // of a sample: floats where stored integers are scaled
};

/// Of netCDF and CF `_FillValue`, `missing_value` (a number or a list, of any type), `valid_min`, `valid_max`,
/// `valid_range`, `scale_factor`, `add_offset`, `_Unsigned`; of NeXus the fields NAME_scaling_factor and
/// NAME_offset beside it; netCDF's own fill values where HDF5 has them as the dataset's. `stored`: its type.
/// InputError for a scale that is 0 or no number.
StatedValues stated_values(const Hdf5File& file, const std::string& dataset, const std::string& stored,
                           const std::string& where);

/// The numbers of an attribute, few of them, of any type or as text; empty where there is none.
std::vector<double> numbers_in(const Hdf5File& file, const std::string& object, const std::string& key);

/// Stored numbers to samples, in place.
void make_samples(const StoredValues& values, double* first, std::int64_t count);

}  // namespace tessera::io
