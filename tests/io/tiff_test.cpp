// SPDX-License-Identifier: BSD-3-Clause
// Samples of TIFF files, whatever their type, place and compression, against what was written.
#include <gtest/gtest.h>

#include <fstream>

#include "io/tiff_files.hpp"
#include "tessera/io/files.hpp"

namespace tessera::test {
namespace {

TEST(Tiff, EveryTypeLayoutAndCompressionComesBackExactly) {
  const std::vector<std::pair<std::uint16_t, std::uint16_t>> types{
      {SAMPLEFORMAT_UINT, 8},    {SAMPLEFORMAT_UINT, 16},   {SAMPLEFORMAT_UINT, 32},  {SAMPLEFORMAT_UINT, 64},
      {SAMPLEFORMAT_INT, 8},     {SAMPLEFORMAT_INT, 16},    {SAMPLEFORMAT_INT, 32},   {SAMPLEFORMAT_INT, 64},
      {SAMPLEFORMAT_IEEEFP, 16}, {SAMPLEFORMAT_IEEEFP, 32}, {SAMPLEFORMAT_IEEEFP, 64}};
  int files = 0;
  for (const auto& [format, bits] : types)
    for (const std::uint16_t samples : {1, 3})
      for (const std::uint16_t planes : {PLANARCONFIG_CONTIG, PLANARCONFIG_SEPARATE})
        for (const int storage : {0, 1, 2, 3, 4}) {
          TiffToWrite t;
          t.format = format;
          t.bits = bits;
          t.samples = samples;
          t.planes = planes;
          t.extra.assign(static_cast<std::size_t>(samples - 1), EXTRASAMPLE_UNSPECIFIED);
          t.rows_per_strip = storage % 2 ? 5 : 0;
          t.tile = storage > 2 ? 16 : 0;
          t.mode = files % 4 == 0 ? "wl" : files % 4 == 1 ? "wb" : files % 4 == 2 ? "wb8" : "wl8";
          if (storage == 2 || storage == 4) {
            t.compression = storage == 2 ? COMPRESSION_LZW : COMPRESSION_ADOBE_DEFLATE;
            if (bits == 8 || bits == 16)
              t.predictor = format == SAMPLEFORMAT_IEEEFP ? 1 : PREDICTOR_HORIZONTAL;
            // (libtiff writes that of floats wrong where the file is of the other byte order)
            if (bits == 32 && format == SAMPLEFORMAT_IEEEFP && t.mode[1] == 'l')
              t.predictor = PREDICTOR_FLOATINGPOINT;
          }
          SCOPED_TRACE(::testing::Message()
                       << "format " << format << ", " << bits << " bits, " << samples << " samples, planes "
                       << planes << ", storage " << storage << ", mode " << t.mode);
          write_tiff("type.tif", t, t.values());
          const ReadPicture got = read_part("type.tif");
          ++files;
          ASSERT_EQ(got.channels, samples);
          ASSERT_EQ(got.values, t.values());
          EXPECT_EQ(got.random_access, storage != 2);
          EXPECT_EQ(got.info.type, (format == SAMPLEFORMAT_IEEEFP ? "float"
                                    : format == SAMPLEFORMAT_INT  ? "int"
                                                                  : "uint") +
                                       std::to_string(bits));
        }
  EXPECT_EQ(files, 220);
}

TEST(Tiff, SamplesOfAPixelAreChannelsUnlessTheyAreAlpha) {
  for (const std::uint16_t n : {2, 4, 5}) {
    TiffToWrite t;
    t.samples = n;
    t.extra.assign(n - 1U, EXTRASAMPLE_UNSPECIFIED);
    write_tiff("dyes.tif", t, t.values());
    const ReadPicture got = read_part("dyes.tif");
    EXPECT_EQ(got.channels, n);
    EXPECT_EQ(got.values, t.values());
    EXPECT_NE(got.info.note.find(std::to_string(n) + " samples of a pixel are its channels"),
              std::string::npos);
    const ReadPicture one = read_part("dyes.tif", "c1");
    EXPECT_EQ(one.channels, 1);
    EXPECT_EQ(one.values[0], t.values()[static_cast<std::size_t>(t.pixels())]);
  }
  TiffToWrite t = rgba();
  for (const std::uint16_t planes : {PLANARCONFIG_CONTIG, PLANARCONFIG_SEPARATE}) {
    t.planes = planes;
    write_tiff("alpha.tif", t, t.values());
    const ReadPicture got = read_part("alpha.tif");
    EXPECT_EQ(got.channels, 3);
    EXPECT_EQ(got.info.note, "alpha channel dropped");
    std::vector<double> colors = t.values();
    colors.resize(static_cast<std::size_t>(3 * t.pixels()));
    EXPECT_EQ(got.values, colors);
  }
  t.extra = {EXTRASAMPLE_UNSPECIFIED};  // red, green, blue and infrared
  write_tiff("infrared.tif", t, t.values());
  EXPECT_EQ(read_part("infrared.tif").values, t.values());
}

TEST(Tiff, WhiteAsTheSmallestValueIsSaidAndNotInverted) {
  for (const std::uint16_t bits : {1, 8, 16}) {
    TiffToWrite t;
    t.bits = bits;
    t.photometric = PHOTOMETRIC_MINISWHITE;
    write_tiff("white.tif", t, t.values());
    const ReadPicture got = read_part("white.tif");
    std::vector<double> wanted = t.values();
    if (bits == 1)  // a numpy bool of tifffile: True is 255, not 0
      for (double& v : wanted) v *= 255;
    EXPECT_EQ(got.values, wanted) << bits;
    EXPECT_NE(got.info.note.find("samples are taken as stored, not inverted"), std::string::npos);
  }
}

TEST(Tiff, SamplesOfFewBitsAreExpandedAndOthersKept) {
  for (const std::uint16_t bits : {1, 2, 3, 4, 5, 6, 7, 10, 12, 14}) {
    for (const std::uint16_t compression : {COMPRESSION_NONE, COMPRESSION_LZW}) {
      TiffToWrite t;
      t.bits = bits;
      t.compression = compression;
      write_tiff("bits.tif", t, t.values());
      const ReadPicture got = read_part("bits.tif");
      std::vector<double> wanted = t.values();
      const double largest = std::exp2(bits) - 1;
      ASSERT_GE(*std::max_element(wanted.begin(), wanted.end()), std::min(largest, 1000.0));
      for (double& v : wanted)
        if (bits < 8) v = v * 255 / largest;
      EXPECT_EQ(got.values, wanted) << bits;
      EXPECT_EQ(got.info.type, bits < 8 ? "uint8" : "uint16");
      EXPECT_EQ(got.info.note.empty(), bits > 8) << got.info.note;
    }
  }
}

// Entries of 8 bits by color and index, as 16 bits.
template <class Color>
std::vector<std::uint16_t> palette(int bits, Color color) {
  std::vector<std::uint16_t> map;
  for (int c = 0; c < 3; ++c)
    for (int k = 0; k < 1 << bits; ++k) map.push_back(static_cast<std::uint16_t>(257 * color(c, k)));
  return map;
}
int scattered(int c, int k) { return (k * 73 + c * 101) % 256; }

TiffToWrite indices_of(std::uint16_t bits, const std::vector<std::uint16_t>& map) {
  TiffToWrite t;
  t.bits = bits;
  t.photometric = PHOTOMETRIC_PALETTE;
  t.palette = map;
  return t;
}

TEST(Tiff, APaletteOfMeasuredValuesGivesIndices) {
  const auto fire = palette(8, [](int c, int k) { return std::clamp(3 * k - 255 * c, 0, 255); });
  const auto random = palette(8, scattered);
  const auto gray = palette(8, [](int, int k) { return k / 2; });
  const auto falling = palette(8, [](int, int k) { return 255 - k; });
  const auto same = palette(8, [](int, int k) { return k; });
  const std::vector<double> indices = indices_of(8, same).values();
  const auto read = [&](const std::vector<std::uint16_t>& map, const std::string& description,
                        const std::string& part) {
    TiffToWrite t = indices_of(8, map);
    t.description = description;
    write_tiff("palette.tif", t, indices);
    return read_part("palette.tif", part);
  };
  for (const auto& [map, note] :
       {std::pair(fire, "the indices of its palette are taken, not the colors (palette.tif:/rgb has those)"),
        std::pair(gray, "the indices of its palette are taken, not the colors (palette.tif:/rgb has those)"),
        std::pair(falling,
                  "its palette falls from white to black: samples are taken as stored, not inverted "
                  "(palette.tif:/rgb has its grays)"),
        std::pair(same, "")}) {
    const ReadPicture got = read(map, "", "");
    EXPECT_EQ(got.values, indices);
    EXPECT_EQ(got.info.note, note);
  }
  EXPECT_EQ(read(random, "ImageJ=1.54f\nunit=um\n", "").values, indices);
  EXPECT_EQ(read(random, "", "index").values, indices);
  for (const auto& [map, part] : {std::pair(random, ""), std::pair(fire, "rgb"), std::pair(falling, "rgb")}) {
    const ReadPicture got = read(map, "", part);
    ASSERT_EQ(got.channels, 3);
    for (std::size_t k = 0; k < got.values.size(); ++k)
      ASSERT_EQ(got.values[k],
                map[k / indices.size() * 256 + static_cast<std::size_t>(indices[k % indices.size()])] / 257);
    EXPECT_NE(got.info.note.find("palette expanded to RGB"), std::string::npos);
  }
}

TEST(Tiff, AGrayPaletteOfFewBitsIsExpandedAsGrayIs) {
  int files = 0;
  for (const std::uint16_t bits : {1, 2, 3, 4, 6, 8, 10})
    for (const bool falls : {false, true})
      for (const int scale : {257, 256, 1}) {  // as programs make 16 bits of 8, or do not
        const int largest = (1 << bits) - 1;
        std::vector<std::uint16_t> map =
            palette(bits, [&](int, int k) { return 255 * (falls ? largest - k : k) / largest; });
        for (std::uint16_t& entry : map) entry = static_cast<std::uint16_t>(entry / 257 * scale);
        const TiffToWrite t = indices_of(bits, map);
        write_tiff("grays.tif", t, t.values());
        std::vector<double> wanted = t.values();
        for (double& v : wanted)
          if (bits < 8) v = v * 255 / largest;
        const ReadPicture got = read_part("grays.tif");
        EXPECT_EQ(got.values, wanted) << bits;
        EXPECT_EQ(got.info.note.find("expanded to 8") != std::string::npos, bits < 8) << got.info.note;
        EXPECT_EQ(got.info.note.find("falls from white to black") != std::string::npos, falls)
            << got.info.note;
        EXPECT_EQ(read_part("grays.tif", "index").values, t.values());
        ++files;
      }
  EXPECT_EQ(files, 42);
}

TEST(Tiff, EachPageHasItsPaletteAndIndicesCountFromZero) {
  std::vector<std::uint16_t> maps = palette(8, scattered);
  for (const std::uint16_t entry : palette(8, [](int c, int k) { return scattered(c, k) / 2; }))
    maps.push_back(entry);
  TiffToWrite t = indices_of(8, maps);
  t.pages = 3;
  const std::vector<double> indices = t.values();
  const auto color = [&](std::size_t page, std::size_t c, std::size_t pixel) {
    const auto index = static_cast<std::size_t>(indices[page * static_cast<std::size_t>(t.pixels()) + pixel]);
    return maps[(page % 2 * 3 + c) * 256 + index] / 257;
  };
  write_tiff("pages.tif", t, indices);
  const ReadPicture all = read_part("pages.tif", "all"), second = read_part("pages.tif", "1");
  ASSERT_EQ(all.channels, 3);
  ASSERT_EQ(all.depth, 3);
  const auto n = static_cast<std::size_t>(t.pixels());
  for (std::size_t c = 0; c < 3; ++c)
    for (std::size_t k = 0; k < n; ++k) {
      for (std::size_t page = 0; page < 3; ++page)
        ASSERT_EQ(all.values[(c * 3 + page) * n + k], color(page, c, k)) << page;
      ASSERT_EQ(second.values[c * n + k], color(1, c, k));
    }
  EXPECT_EQ(read_part("pages.tif", "all/index").values, indices);

  for (const auto& [format, bits] : {std::pair(SAMPLEFORMAT_INT, 8), std::pair(SAMPLEFORMAT_IEEEFP, 16)}) {
    TiffToWrite odd = indices_of(static_cast<std::uint16_t>(bits), palette(bits, scattered));
    odd.format = static_cast<std::uint16_t>(format);
    write_tiff("odd_index.tif", odd, odd.values());
    for (const char* part : {"", "rgb"})
      EXPECT_NE(refusal("odd_index.tif", part).find("(an index counts from 0) write odd_index.tif:/index"),
                std::string::npos)
          << refusal("odd_index.tif", part);
    EXPECT_EQ(read_part("odd_index.tif", "index").values, odd.values());
  }
}

TEST(Tiff, MissingSamplesOfGdalAreNotNumbers) {
  static const TIFFFieldInfo field[] = {
      {42113, -1, -1, TIFF_ASCII, FIELD_CUSTOM, 1, 0, const_cast<char*>("GDAL_NODATA")}};
  // What a file's type makes of the number that the tag says.
  struct Missing {
    std::uint16_t bits;
    const char* said;
    double stored;
  };
  for (const auto& [bits, said, stored] :
       {Missing{32, "-9999", -9999}, Missing{64, "-0.1", -0.1}, Missing{32, "-0.1", -0.1F},
        Missing{16, "-9999", -10000}, Missing{16, "0.1", 0.0999755859375}, Missing{16, "-2049", -2048}}) {
    TiffToWrite t;
    t.format = SAMPLEFORMAT_IEEEFP;
    t.bits = bits;
    std::vector<double> values = t.values();
    values[7] = values[100] = stored;
    write_tiff("gdal.tif", t, values);
    const TIFFExtendProc before = TIFFSetTagExtender([](TIFF* file) { TIFFMergeFieldInfo(file, field, 1); });
    TIFF* const tiff = TIFFOpen("gdal.tif", "r+");
    ASSERT_NE(tiff, nullptr);
    TIFFSetField(tiff, 42113, said);
    ASSERT_EQ(TIFFRewriteDirectory(tiff), 1);
    TIFFClose(tiff);
    TIFFSetTagExtender(before);
    const ReadPicture got = read_part("gdal.tif");
    for (std::size_t k = 0; k < values.size(); ++k)
      ASSERT_TRUE(k == 7 || k == 100 ? std::isnan(got.values[k]) : got.values[k] == values[k])
          << k << ' ' << said << " in " << bits << " bits: " << got.values[k];
    EXPECT_EQ(got.info.note, concat("samples of ", std::stod(said), " (GDAL_NODATA) are missing"));
  }
}

TEST(Tiff, WhatCannotBeReadIsRefusedWithItsName) {
  TiffToWrite t;
  t.compression = COMPRESSION_ADOBE_DEFLATE;
  t.rows_per_strip = 3;
  write_tiff("whole.tif", t, t.values());
  const std::string whole = read_text("whole.tif");
  int refused = 0;
  for (std::size_t n = 0; n < whole.size(); n += whole.size() / 40) {
    std::ofstream("cut.tif", std::ios::binary) << whole.substr(0, n);
    refused += refusal("cut.tif").find("cut.tif") != std::string::npos;
  }
  EXPECT_GE(refused, 40);
  t.photometric = PHOTOMETRIC_SEPARATED;
  t.samples = 4;
  write_tiff("cmyk.tif", t, t.values());
  EXPECT_NE(refusal("cmyk.tif").find("cmyk.tif is a cmyk picture"), std::string::npos) << refusal("cmyk.tif");
  t.photometric = PHOTOMETRIC_MINISBLACK;
  t.samples = 1;
  t.bits = 5;
  t.format = SAMPLEFORMAT_IEEEFP;
  write_tiff("odd.tif", t, t.values());
  EXPECT_NE(refusal("odd.tif").find("odd.tif holds floats of 5 bits"), std::string::npos)
      << refusal("odd.tif");
}

}  // namespace
}  // namespace tessera::test
