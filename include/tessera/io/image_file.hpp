// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/core/box.hpp"

namespace tessera {

/// What a picture file holds, read from its header alone.
struct ImageInfo {
  std::int64_t height = 0, width = 0;  // after the EXIF orientation
  std::int64_t stored_rows = 0;        // rows as they stand in the file, before it
  std::int64_t channels = 1;           // 1 or 3, without alpha
  std::string type = "uint8";  // of a sample: uint8, int8, uint16, int16, uint32, int32, float32, float64
  bool had_alpha = false;      // dropped, the caller says so
  int orientation = 1;         // EXIF, applied
  bool has_profile = false;
  bool random_access = false;  // regions can be decoded alone (tiled TIFF, FITS); else only from the top
  double full_scale = 255;     // the largest value of the type: 255, 65535, or 1 for all others
};

/// Pixels that the stored rows [first, first + count) are after the orientation: full rows, or full columns
/// of a picture that lies on its side.
Box stored_rows_box(const ImageInfo& info, std::int64_t first, std::int64_t count);

/// Reads regions of PNG, JPEG, TIFF/BigTIFF and FITS (real numbers; gray or RGB) through libvips.
///
/// Palettes and samples of 1, 2, 4 bits are expanded to 8 bits. CMYK and Lab are refused, and so is a TIFF of
/// several pages unless `page` says which, from 0. Rows of FITS come as they are stored.
/// Memory: a band of at most 8 MiB beyond `out`; interlaced PNG and progressive JPEG are held whole by their
/// decoders. Not collective. Errors: InputError with the file's name, also where a file is cut short.
class ImageReader {
 public:
  explicit ImageReader(const std::string& path, std::optional<int> page = {});
  /// How many pages a file has.
  static int pages(const std::string& path);
  ~ImageReader();
  ImageReader(ImageReader&&) noexcept;
  const ImageInfo& info() const;
  /// File values as float32 (unscaled), planar (channels, h, w) into `out`, which has room for all. Where
  /// !random_access, read stored_rows_box() from row 0 on: anything above the last read makes the decoder
  /// start again from the top.
  void read(const Box& region, float* out);
  std::vector<std::uint8_t> profile() const;  // ICC, empty where there is none

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Writes a picture from bands of rows given from the top; whole or absent.
///
/// Rows wait in a raw file beside the picture until finish() encodes them, so that memory holds one band.
/// Errors: InputError for a size or depth that the format does not have, RunError where the disk fails.
class ImageWriter {
 public:
  /// Format by suffix: .png (8, 16 bits), .jpg (8), .tif (8, 16, 32: floats; tiled, deflate, BigTIFF where it
  /// must be). channels 1 or 3. `profile` (ICC) may be empty.
  ImageWriter(const std::string& path, std::int64_t height, std::int64_t width, std::int64_t channels,
              int bits, std::vector<std::uint8_t> profile = {});
  ~ImageWriter();
  /// Rows [row, row + rows) planar (channels, rows, width). 8 and 16 bits: of [0, 1], clamped and rounded,
  /// NaN is 0; 32: as they are.
  void write_rows(std::int64_t row, std::int64_t rows, const float* planar);
  void finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

std::string image_library();  // its name, version and whether it reads FITS

}  // namespace tessera
