// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

#include "tessera/io/hdf5.hpp"
#include "tessera/io/image_format.hpp"

namespace tessera::io {

/// What a path in a job names: a picture, a part of one (`FILE.tif:/2`, `FILE.fits:/SCI`), an array, or a dataset
/// `FILE.h5:/name` (where none is said /image, or what NeXus says).
struct Source {
  ImageFormat::Kind kind = ImageFormat::Kind::picture;
  std::string file;
  std::string dataset = {};  // of an HDF5 file
  bool named = false;        // the path says the dataset
  std::string part = {};     // of a TIFF or FITS file, what stands behind ":/"
};
/// By suffix; InputError for an unknown one.
Source source_of(const std::string& path);

/// The dataset of an opened HDF5 file that `source` means.
std::string dataset_of(const Source& source, const Hdf5File& file);

/// The largest value of a type that has one for images: of uint8 255, of uint16 65535; else 1.
double full_scale(const std::string& type);

}  // namespace tessera::io
