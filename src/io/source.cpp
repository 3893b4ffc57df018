// SPDX-License-Identifier: BSD-3-Clause
#include "source.hpp"

#include "hdf5_read.hpp"
#include "tessera/core/error.hpp"

namespace tessera::io {
using Kind = ImageFormat::Kind;

Source source_of(const std::string& path) {
  const std::size_t colon = path.rfind(":/");
  const std::string file = path.substr(0, colon), part = colon < path.size() ? path.substr(colon + 1) : "";
  const ImageFormat* const whole = part.empty() ? nullptr : find_format(file);
  if (whole && whole->kind == Kind::hdf5) return {Kind::hdf5, file, part, true};
  if (whole && whole->pages) return {.kind = Kind::picture, .file = file, .part = part.substr(1)};
  const ImageFormat* const format = find_format(path);
  TESSERA_VALIDATE(
      format, "cannot read ", path,
      " (the suffix says the format) use .png, .jpg, .tif, .fits, .npy, .h5 or FILE.h5:/dataset");
  return {format->kind, path, format->kind == Kind::hdf5 ? "/image" : ""};
}

std::string dataset_of(const Source& source, const Hdf5File& file) {
  return source.named ? source.dataset : default_dataset(file);
}

double full_scale(const std::string& type) { return type == "uint8" ? 255 : type == "uint16" ? 65535 : 1; }

}  // namespace tessera::io
