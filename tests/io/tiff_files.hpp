// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <gtest/gtest.h>
#include <tiffio.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "tessera/core/error.hpp"
#include "tessera/io/image_format.hpp"

namespace tessera::test {

/// A TIFF as libtiff writes it; values are planar (page, sample, row, column).
struct TiffToWrite {
  std::uint32_t height = 13, width = 21, pages = 1;
  std::uint16_t samples = 1, bits = 16, format = SAMPLEFORMAT_UINT, photometric = PHOTOMETRIC_MINISBLACK;
  std::uint16_t planes = PLANARCONFIG_CONTIG, compression = COMPRESSION_NONE, predictor = 1;
  std::uint32_t rows_per_strip = 0, tile = 0;  // 0: one strip, no tiles
  std::uint32_t depth = 1;                     // what ImageDepth says
  std::vector<std::uint16_t> extra{};          // ExtraSamples
  std::string description{}, mode = "w";
  std::vector<std::uint16_t> palette{};  // red of all entries, green, blue; the next page's

  std::int64_t pixels() const { return std::int64_t{height} * width; }
  std::int64_t count() const { return pages * samples * pixels(); }
  /// Numbers that the type can hold; neighbors differ.
  std::vector<double> values() const {
    std::vector<double> out;
    for (std::int64_t k = 0; k < count(); ++k) {
      const auto v = static_cast<double>(k * 7919 % 1021);
      out.push_back(format == SAMPLEFORMAT_IEEEFP ? (v - 500) / 8
                    : format == SAMPLEFORMAT_INT  ? std::fmod(v, 251) - 125
                                                  : std::fmod(v, std::exp2(std::min<int>(bits, 30))));
    }
    return out;
  }
};

/// Red, green, blue and alpha of 8 bits.
inline TiffToWrite rgba() {
  TiffToWrite t;
  t.bits = 8;
  t.samples = 4;
  t.photometric = PHOTOMETRIC_RGB;
  t.extra = {EXTRASAMPLE_UNASSALPHA};
  return t;
}

template <class T>
void put_number(double v, unsigned char* to) {
  const T value = static_cast<T>(v);
  std::memcpy(to, &value, sizeof value);
}

inline void put_sample(const TiffToWrite& t, double v, std::int64_t at, unsigned char* row) {
  unsigned char* to = row + at * t.bits / 8;
  const bool real = t.format == SAMPLEFORMAT_IEEEFP, negative = t.format == SAMPLEFORMAT_INT;
  if (t.bits == 64)
    return real       ? put_number<double>(v, to)
           : negative ? put_number<std::int64_t>(v, to)
                      : put_number<std::uint64_t>(v, to);
  if (t.bits == 32)
    return real       ? put_number<float>(v, to)
           : negative ? put_number<std::int32_t>(v, to)
                      : put_number<std::uint32_t>(v, to);
  if (t.bits == 8) return negative ? put_number<std::int8_t>(v, to) : put_number<std::uint8_t>(v, to);
  if (t.bits == 16 && !real)
    return negative ? put_number<std::int16_t>(v, to) : put_number<std::uint16_t>(v, to);
  if (t.bits == 16) {  // v is a multiple of 1/8 below 128: no more than 10 bits
    int exponent = 0;
    const double mantissa = std::frexp(std::abs(v), &exponent);
    const int bits = v == 0 ? 0 : (exponent + 14) << 10 | static_cast<int>(mantissa * 2048 - 1024);
    return put_number<std::uint16_t>(bits | (v < 0) << 15, to);
  }
  for (int b = 0; b < t.bits; ++b) {  // packed, the highest bit first
    const std::int64_t place = at * t.bits + b;
    const int bit = static_cast<int>(v) >> (t.bits - 1 - b) & 1;
    row[place / 8] = static_cast<unsigned char>(row[place / 8] | bit << (7 - place % 8));
  }
}

inline void write_tiff(const std::string& path, const TiffToWrite& t, const std::vector<double>& values) {
  ASSERT_EQ(static_cast<std::int64_t>(values.size()), t.count());
  TIFF* const tiff = TIFFOpen(path.c_str(), t.mode.c_str());
  ASSERT_NE(tiff, nullptr);
  const bool separate = t.planes == PLANARCONFIG_SEPARATE;
  const std::int64_t together = separate ? 1 : t.samples;
  const auto value = [&](std::int64_t page, std::int64_t s, std::int64_t y, std::int64_t x) {
    return values[static_cast<std::size_t>(((page * t.samples + s) * t.height + y) * t.width + x)];
  };
  for (std::uint32_t page = 0; page < t.pages; ++page) {
    TIFFSetField(tiff, TIFFTAG_IMAGEWIDTH, t.width);
    TIFFSetField(tiff, TIFFTAG_IMAGELENGTH, t.height);
    TIFFSetField(tiff, TIFFTAG_SAMPLESPERPIXEL, t.samples);
    TIFFSetField(tiff, TIFFTAG_BITSPERSAMPLE, t.bits);
    TIFFSetField(tiff, TIFFTAG_SAMPLEFORMAT, t.format);
    TIFFSetField(tiff, TIFFTAG_PHOTOMETRIC, t.photometric);
    TIFFSetField(tiff, TIFFTAG_PLANARCONFIG, t.planes);
    TIFFSetField(tiff, TIFFTAG_COMPRESSION, t.compression);
    if (t.predictor > 1) TIFFSetField(tiff, TIFFTAG_PREDICTOR, t.predictor);
    if (!t.extra.empty())
      TIFFSetField(tiff, TIFFTAG_EXTRASAMPLES, static_cast<int>(t.extra.size()), t.extra.data());
    if (!t.description.empty() && page == 0)
      TIFFSetField(tiff, TIFFTAG_IMAGEDESCRIPTION, t.description.c_str());
    if (t.depth > 1) TIFFSetField(tiff, TIFFTAG_IMAGEDEPTH, t.depth);
    if (!t.palette.empty()) {
      const std::size_t n = std::size_t{1} << t.bits, maps = t.palette.size() / (3 * n);
      const std::uint16_t* map = t.palette.data() + page % maps * 3 * n;
      TIFFSetField(tiff, TIFFTAG_COLORMAP, map, map + n, map + 2 * n);
    }
    std::vector<unsigned char> bytes;
    if (t.tile) {
      TIFFSetField(tiff, TIFFTAG_TILEWIDTH, t.tile);
      TIFFSetField(tiff, TIFFTAG_TILELENGTH, t.tile);
      const tmsize_t row = TIFFTileRowSize(tiff);
      for (std::int64_t s = 0; s < (separate ? t.samples : 1); ++s)
        for (std::uint32_t y = 0; y < t.height; y += t.tile)
          for (std::uint32_t x = 0; x < t.width; x += t.tile) {
            bytes.assign(static_cast<std::size_t>(TIFFTileSize(tiff)), 0);
            for (std::uint32_t r = 0; r < t.tile && y + r < t.height; ++r)
              for (std::uint32_t c = 0; c < t.tile && x + c < t.width; ++c)
                for (std::int64_t k = 0; k < together; ++k)
                  put_sample(t, value(page, s + k, y + r, x + c), c * together + k, bytes.data() + r * row);
            ASSERT_GT(TIFFWriteTile(tiff, bytes.data(), x, y, 0, static_cast<std::uint16_t>(s)), 0);
          }
    } else {
      TIFFSetField(tiff, TIFFTAG_ROWSPERSTRIP, t.rows_per_strip ? t.rows_per_strip : t.height);
      for (std::int64_t s = 0; s < (separate ? t.samples : 1); ++s)
        for (std::uint32_t y = 0; y < t.height; ++y) {
          bytes.assign(static_cast<std::size_t>(TIFFScanlineSize(tiff)), 0);
          for (std::int64_t x = 0; x < t.width; ++x)
            for (std::int64_t k = 0; k < together; ++k)
              put_sample(t, value(page, s + k, y, x), x * together + k, bytes.data());
          ASSERT_EQ(TIFFWriteScanline(tiff, bytes.data(), y, static_cast<std::uint16_t>(s)), 1);
        }
    }
    ASSERT_EQ(TIFFWriteDirectory(tiff), 1);
  }
  TIFFClose(tiff);
}

/// Channels, depth, then every value, (C, D, H, W), read in boxes.
struct ReadPicture {
  std::int64_t channels = 0, depth = 0;
  std::vector<double> values;
  SourceInfo info;
  bool random_access = false;
};
inline ReadPicture read_part(const std::string& path, const std::string& part = "") {
  const auto source = open_image(part.empty() ? path : path + ":/" + part);
  const SourceInfo& info = source->info();
  const Box& all = info.box;
  ReadPicture out{info.channels, all.extent(0), {}, info, source->random_access()};
  out.values.resize(static_cast<std::size_t>(info.values()));
  for (const Box& box : source->pieces(all, 1500)) {
    std::vector<double> piece(static_cast<std::size_t>(info.values(box)));
    source->read(box, piece.data());
    std::size_t at = 0;
    for (std::int64_t c = 0; c < info.channels; ++c)
      for (std::int64_t z = box.lo()[0]; z < box.hi()[0]; ++z)
        for (std::int64_t y = box.lo()[1]; y < box.hi()[1]; ++y)
          for (std::int64_t x = box.lo()[2]; x < box.hi()[2]; ++x)
            out.values[static_cast<std::size_t>(
                ((c * all.extent(0) + z) * all.extent(1) + y) * all.extent(2) + x)] = piece[at++];
  }
  return out;
}

inline std::string refusal(const std::string& path, const std::string& part = "") {
  try {
    read_part(path, part);
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}

}  // namespace tessera::test
