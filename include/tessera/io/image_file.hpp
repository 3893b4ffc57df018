// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tessera/core/box.hpp"

namespace tessera {

/// What a picture file holds, read from its header alone.
struct ImageInfo {
  std::int64_t height = 0, width = 0;  // after the EXIF orientation
  std::int64_t channels = 1;           // 1 or 3, without alpha
  int bits = 8;                        // 8, 16, 32 (float)
  bool is_float = false;
  bool had_alpha = false;  // dropped, the caller says so
  int orientation = 1;     // EXIF, applied
  bool has_profile = false;
  bool random_access = false;  // regions can be decoded alone (tiled TIFF); else only from the top
  double full_scale = 255;     // the file value that is 1.0: 255, 65535, or 1 for float
};

/// Reads regions of PNG, JPEG, TIFF/BigTIFF (8, 16 bit, float; gray or RGB) through libvips.
///
/// Not collective. One open file; regions should be asked for from top to bottom where !random_access.
class ImageReader {
 public:
  explicit ImageReader(const std::string& path);
  ~ImageReader();
  ImageReader(ImageReader&&) noexcept;
  const ImageInfo& info() const;
  /// File values as float32 (unscaled), planar (channels, h, w) into `out`, which has room for all.
  void read(const Box& region, float* out);
  std::vector<std::uint8_t> profile() const;

 private:
  struct Impl;
  Impl* impl_;
};

/// Writes a picture from bands of rows given from the top; temporary file, fsync, rename at finish().
class ImageWriter {
 public:
  /// Format by suffix: .png, .jpg, .tif. bits 8 or 16. `profile` may be empty.
  ImageWriter(const std::string& path, std::int64_t height, std::int64_t width, std::int64_t channels,
              int bits, std::vector<std::uint8_t> profile = {});
  ~ImageWriter();
  /// Rows [row, row + rows) planar (channels, rows, width) in [0, 1]; clamped and rounded.
  void write_rows(std::int64_t row, std::int64_t rows, const float* planar);
  void finish();

 private:
  struct Impl;
  Impl* impl_;
};

bool is_picture(const std::string& path);  // by suffix

}  // namespace tessera
