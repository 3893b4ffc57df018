// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <tiffio.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tiff_palette.hpp"

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
  std::shared_ptr<const TiffPalette> palette;  // null: it has none that its samples could be indices of

  bool tiled() const { return tile_width > 0; }
  bool separate() const { return planes == PLANARCONFIG_SEPARATE && samples > 1; }
  std::int64_t samples_per_row() const { return std::int64_t{width} * (separate() ? 1 : samples); }
  std::int64_t row_bytes() const { return (samples_per_row() * bits + 7) / 8; }
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
  TIFF* get() const { return tiff_.get(); }
  const std::string& path() const { return path_; }
  /// Every directory of the chain, in order; the file then stands at the last.
  std::vector<TiffPage> pages();
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
  TiffPage here() const;

  std::string path_;
  std::unique_ptr<std::string> problem_ = std::make_unique<std::string>();  // the first since go_to()
  std::unique_ptr<TIFF, Close> tiff_;
};

}  // namespace tessera::io
