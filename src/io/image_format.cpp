// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/io/image_format.hpp"

#include <algorithm>

#include "tessera/core/error.hpp"
#include "tessera/io/posix_file.hpp"

namespace tessera {
namespace {

using Kind = ImageFormat::Kind;

constexpr std::int64_t kLongest = 10'000'000;  // pixels a side, libvips

}  // namespace

bool ImageFormat::writes(std::int64_t n) const {
  return std::find(bits.begin(), bits.end(), n) != bits.end();
}

const std::vector<ImageFormat>& image_formats() {
  static const std::vector<ImageFormat> formats{
      {.name = "PNG", .suffixes = {".png"}, .bits = {8, 16}, .side = kLongest},
      {.name = "JPEG", .suffixes = {".jpg", ".jpeg"}, .bits = {8}, .side = 65500},  // libjpeg's limit
      {.name = "TIFF", .suffixes = {".tif", ".tiff"}, .bits = {8, 16, 32}, .side = kLongest, .pages = true},
      {.name = "FITS", .suffixes = {".fits", ".fit", ".fts"}, .pages = true},
      {.name = "npy", .kind = Kind::npy, .suffixes = {".npy"}},
      {.name = "HDF5", .kind = Kind::hdf5, .suffixes = {".h5", ".hdf5", ".hdf", ".nxs", ".nx"}},
  };
  return formats;
}

const ImageFormat* find_format(const std::string& path) {
  std::string suffix = io::suffix(path);
  if (suffix == ".fz" || suffix == ".gz") {  // fpack's and gzip's, of FITS alone
    suffix = io::suffix(path.substr(0, path.size() - suffix.size()));
    if (suffix.rfind(".f", 0) != 0) return nullptr;
  }
  for (const ImageFormat& f : image_formats())
    if (std::find(f.suffixes.begin(), f.suffixes.end(), suffix) != f.suffixes.end()) return &f;
  return nullptr;
}

const ImageFormat& output_format(const std::string& path) {
  const ImageFormat* const f = find_format(path);
  TESSERA_VALIDATE(f && (f->kind == Kind::hdf5 || !f->bits.empty()), path,
                   " is no known kind of file (by its suffix) use .png, .jpg, .tif or .h5");
  return *f;
}

bool is_picture(const std::string& path) {
  const ImageFormat* const f = find_format(path);
  return f && !f->bits.empty();
}

bool is_tiff(const std::string& path) {
  const ImageFormat* const f = find_format(path);
  return f && f->name == "TIFF";
}

}  // namespace tessera
