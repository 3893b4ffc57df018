// SPDX-License-Identifier: BSD-3-Clause
#include "source.hpp"

#include <charconv>

#include "tessera/core/error.hpp"
#include "tessera/io/image_file.hpp"
#include "tessera/io/posix_file.hpp"

namespace tessera::io {
namespace {

bool is_hdf5_name(const std::string& path) {
  const std::string s = suffix(path);
  return s == ".h5" || s == ".hdf5" || s == ".hdf" || s == ".nxs" || s == ".nx";
}

}  // namespace

Source source_of(const std::string& path) {
  const std::size_t colon = path.rfind(":/");
  const std::string file = path.substr(0, colon), part = colon < path.size() ? path.substr(colon + 1) : "";
  if (!part.empty() && is_hdf5_name(file)) return {Source::Kind::hdf5, file, part, true};
  if (!part.empty() && is_tiff(file)) {
    if (part == "/all") return {.kind = Source::Kind::picture, .file = file, .page = 0, .all_pages = true};
    int page = -1;
    const auto [end, error] = std::from_chars(part.data() + 1, part.data() + part.size(), page);
    TESSERA_VALIDATE(error == std::errc() && *end == '\0' && page >= 0, "cannot read ", path, " (", part,
                     " is no page, which are counted from 0) write for example ", file, ":/0, or ", file,
                     ":/all for all of them as a volume");
    return {.kind = Source::Kind::picture, .file = file, .page = page};
  }
  if (is_hdf5_name(path)) return {Source::Kind::hdf5, path, "/image", false};
  if (suffix(path) == ".npy") return {Source::Kind::npy, path};
  const std::string s = suffix(path);
  TESSERA_VALIDATE(
      is_picture(path) || s == ".fits" || s == ".fit" || s == ".fts", "cannot read ", path,
      " (the suffix says the format) use .png, .jpg, .tif, .fits, .npy, .h5 or FILE.h5:/dataset");
  return {Source::Kind::picture, path};
}

double full_scale(const std::string& type) { return type == "uint8" ? 255 : type == "uint16" ? 65535 : 1; }

}  // namespace tessera::io
