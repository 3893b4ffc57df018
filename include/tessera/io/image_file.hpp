// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tessera/core/box.hpp"

namespace tessera {

/// What a picture file holds, read from its header alone.
struct ImageInfo {
  std::int64_t height = 0, width = 0;  // after the EXIF orientation
  std::int64_t depth = 1;              // slices
  std::int64_t stored_rows = 0;        // rows as they stand in the file, before it
  std::int64_t channels = 1;           // without alpha
  std::string type = "uint8";  // of a sample: uint8, int8, ... uint64, int64, float16, float32, float64
  std::string note = {};       // what was dropped, applied, expanded or picked; for the user
  int orientation = 1;         // EXIF, applied
  bool has_profile = false;
  bool random_access = false;              // regions can be decoded alone; else only from the top
  std::array<std::int64_t, 2> tile{1, 0};  // rows, columns that are decoded together; 0 columns: whole rows
  double full_scale = 255;                 // the largest value of the type: 255, 65535, or 1 for all others
};

/// Pixels that the stored rows [first, first + count) of a slice are after the orientation: full rows, or full
/// columns of a picture that lies on its side.
Box stored_rows_box(const ImageInfo& info, std::int64_t first, std::int64_t count, std::int64_t slice = 0);

/// A region with random_access cut into boxes of whole tiles, some `bytes` of float32 each: each tile is
/// decoded once.
std::vector<Box> reading_pieces(const Box& region, const ImageInfo& info, std::int64_t bytes);

/// Reads regions of PNG and JPEG (libvips), TIFF/BigTIFF (libtiff) and FITS (cfitsio).
///
/// `part` is what a path says behind FILE:/ (docs/your_data.md: pages, channels, extensions); where a file holds
/// more than one image and nothing is said, it is refused. Samples come as they stand in the file; what is
/// dropped, expanded or picked is in ImageInfo::note. Missing samples (FITS BLANK, GDAL_NODATA) are NaN. CMYK
/// and Lab are refused. Rows of FITS come as they are stored.
/// Memory: a row, a tile, or a band of at most 8 MiB beyond `out`, and a strip as it is compressed; interlaced
/// PNG and progressive JPEG are held whole by their decoders, and so is a FITS that gzip packed. Not collective.
/// Errors: InputError with the file's name, also where a file is cut short.
class ImageReader {
 public:
  explicit ImageReader(const std::string& path, const std::string& part = "");
  ~ImageReader();
  ImageReader(ImageReader&&) noexcept;
  const ImageInfo& info() const;
  /// File values (unscaled), planar (channels, d, h, w) into `out`, which has room for all. Where
  /// !random_access, read stored_rows_box() from row 0 on, slice by slice: anything above the last read makes the
  /// decoder start again from the top.
  void read(const Box& region, float* out);
  void read(const Box& region, double* out);
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

std::string image_library();  // names and versions of what reads pictures

}  // namespace tessera
