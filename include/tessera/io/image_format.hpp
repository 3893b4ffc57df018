// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tessera {

/// A kind of file, told by the suffix of its name.
struct ImageFormat {
  enum class Kind { picture, npy, hdf5 };
  std::string name;
  Kind kind = Kind::picture;
  std::vector<std::string> suffixes{};  // lower case, with the dot
  std::vector<int> bits{};              // of a sample, as a picture is written; none: pictures are only read
  std::int64_t side = 0;                // most pixels a side, written
  bool pages = false;                   // FILE:/2 is a page or an extension, FILE:/all a volume of all

  bool writes(std::int64_t bits) const;
};

/// All of them: what reads, writes and checks names by suffix goes by this table.
const std::vector<ImageFormat>& image_formats();
/// By suffix; null for an unknown one.
const ImageFormat* find_format(const std::string& path);
/// Of a file that is to be written, a picture or HDF5; InputError for any other.
const ImageFormat& output_format(const std::string& path);

bool is_picture(const std::string& path);  // one that can be written
bool is_tiff(const std::string& path);

}  // namespace tessera
