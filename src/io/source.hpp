// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <optional>
#include <string>

#include "tessera/io/image_format.hpp"

namespace tessera::io {

/// What a path in a job names: a picture, a page `FILE.tif:/2`, all pages as a volume `FILE.tif:/all`, an
/// array, or a dataset `FILE.h5:/name` (/image where none is said).
struct Source {
  ImageFormat::Kind kind = ImageFormat::Kind::picture;
  std::string file;
  std::string dataset = {};      // of an HDF5 file
  bool named = false;            // the path says the dataset
  std::optional<int> page = {};  // of a TIFF file, from 0
  bool all_pages = false;        // of a TIFF file: slices of a volume
};
/// By suffix; InputError for an unknown one.
Source source_of(const std::string& path);

/// The largest value of a type that has one for images: of uint8 255, of uint16 65535; else 1.
double full_scale(const std::string& type);

}  // namespace tessera::io
