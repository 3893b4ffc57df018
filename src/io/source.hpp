// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

namespace tessera::io {

/// What a path in a job names: a picture, an array, or a dataset `FILE.h5:/name` (/image where none is said).
struct Source {
  enum class Kind { picture, npy, hdf5 };
  Kind kind = Kind::picture;
  std::string file;
  std::string dataset;  // of an HDF5 file
  bool named = false;   // the path says the dataset
};
/// By suffix; InputError for an unknown one.
Source source_of(const std::string& path);

/// The stored value that is 1.0 inside: of uint8 255, of uint16 65535, else 1.
double full_scale(const std::string& type);

}  // namespace tessera::io
