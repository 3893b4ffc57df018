// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <tiffio.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tiff/tiff_palette.hpp"

namespace tessera::io {

/// What one directory of a TIFF file says of its samples.
/// Source: TIFF 6.0; BigTIFF, https://www.awaresystems.be/imaging/tiff/bigtiff.html
struct TiffPage {
  std::uint64_t at = 0;         // of the directory in the file
  std::int64_t first_byte = 0;  // of samples
  std::uint32_t width = 0, height = 0, rows_per_strip = 0, tile_width = 0, tile_height = 0;
  std::uint16_t samples = 1, bits = 1, format = SAMPLEFORMAT_UINT, photometric = PHOTOMETRIC_MINISBLACK;
  std::uint16_t planes = PLANARCONFIG_CONTIG, compression = COMPRESSION_NONE, orientation = 1;
  std::uint32_t depth = 1;           // slices in the page, of SGI's ImageDepth
  bool plain = false;                // samples lie in the file as they are, row by row: no decoder is needed
  std::vector<std::uint16_t> alpha;  // samples that ExtraSamples calls alpha
  std::uint32_t kind = 0;            // NewSubfileType: FILETYPE_REDUCEDIMAGE, FILETYPE_MASK
  std::int64_t stacked = 1;          // planes behind each other, as MetaMorph's tags say
  std::int64_t empty = 0;            // strips or tiles that are not stored, as GDAL leaves out empty ones
  std::shared_ptr<const TiffPage> mask;        // of its samples; null: it has none
  std::shared_ptr<const TiffPalette> palette;  // null: it has none that its samples could be indices of

  bool tiled() const { return tile_width > 0; }
  bool separate() const { return planes == PLANARCONFIG_SEPARATE && samples > 1; }
  std::int64_t samples_per_row() const { return std::int64_t{width} * (separate() ? 1 : samples); }
  std::int64_t row_bytes() const { return (samples_per_row() * bits + 7) / 8; }
  std::int64_t striles() const {  // strips or tiles
    const auto cut = [](std::int64_t n, std::int64_t by) { return by > 0 ? (n + by - 1) / by : 1; };
    const std::int64_t planes = separate() ? samples : 1;
    return planes *
           (tiled() ? cut(width, tile_width) * cut(height, tile_height) : cut(height, rows_per_strip));
  }
  /// All samples, as they lie behind each other where `plain`.
  std::int64_t bytes() const { return row_bytes() * height * (separate() ? samples : 1); }
  /// uint8, int16, float32, ... as ImageInfo::type has it; samples of 9 to 15 bits are uint16.
  std::string type() const;
  bool like(const TiffPage& other) const;
};

/// A TIFF opened by libtiff, whose messages become InputErrors with the file's name. Stands at one directory.
class TiffFile {
 public:
  explicit TiffFile(const std::string& path);
  ~TiffFile();
  TIFF* get() const { return tiff_.get(); }
  const std::string& path() const { return path_; }
  /// The images of the chain of directories, in order; smaller copies of them (overviews, thumbnails) and masks
  /// stand in it too and are left out, unless there is nothing else. The file then stands at the last.
  std::vector<TiffPage> pages();
  /// Directories that pages() left out as smaller copies.
  std::int64_t copies() const { return copies_; }
  /// InputError where samples of the page cannot be read: pages that nobody asks for may be of any kind.
  void require_readable(const TiffPage& page) const;
  void go_to(const TiffPage& page);
  /// Text of a tag of ours or of libtiff's, empty where it is absent.
  std::string text(std::uint32_t tag) const;
  [[noreturn]] void fail() const;

 private:
  struct Close {
    void operator()(TIFF* tiff) const { TIFFClose(tiff); }
  };
  struct Bytes;
  TiffPage here() const;

  std::int64_t copies_ = 0;
  std::string path_;
  std::unique_ptr<Bytes> bytes_;
  std::unique_ptr<std::string> problem_ = std::make_unique<std::string>();  // the first since go_to()
  std::unique_ptr<TIFF, Close> tiff_;
};

/// "deflate, tiles of 256 x 256".
std::string packed_text(const TiffPage& page);
/// The pages of a file, as ImageFormat::list has them; nothing where there is one.
std::vector<std::pair<std::string, std::string>> tiff_pages(const std::string& path);

}  // namespace tessera::io
