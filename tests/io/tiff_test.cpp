// SPDX-License-Identifier: BSD-3-Clause
// Samples of TIFF files, whatever their type, place and compression, against what was written.
#include <gtest/gtest.h>

#include <fstream>

#include "io/tiff_files.hpp"
#include "tessera/io/files.hpp"

namespace tessera {
namespace {

using test::read_part;
using test::ReadPicture;
using test::refusal;
using test::TiffToWrite;
using test::write_tiff;

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
          EXPECT_EQ(got.info.random_access, storage != 2);
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
  TiffToWrite t;
  t.bits = 8;
  t.samples = 4;
  t.photometric = PHOTOMETRIC_RGB;
  t.extra = {EXTRASAMPLE_UNASSALPHA};
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
  for (const std::uint16_t bits : {1, 2, 4, 10, 12, 14}) {
    for (const std::uint16_t compression : {COMPRESSION_NONE, COMPRESSION_LZW}) {
      TiffToWrite t;
      t.bits = bits;
      t.compression = compression;
      write_tiff("bits.tif", t, t.values());
      const ReadPicture got = read_part("bits.tif");
      const double gain = bits == 1 ? 255 : bits == 2 ? 85 : bits == 4 ? 17 : 1;
      std::vector<double> wanted = t.values();
      for (double& v : wanted) v *= gain;
      EXPECT_EQ(got.values, wanted) << bits;
      EXPECT_EQ(got.info.type, bits < 8 ? "uint8" : "uint16");
      EXPECT_EQ(got.info.note.empty(), bits > 8) << got.info.note;
    }
  }
}

TEST(Tiff, APaletteOfMeasuredValuesGivesIndices) {
  TiffToWrite t;
  t.bits = 8;
  t.photometric = PHOTOMETRIC_PALETTE;
  std::vector<double> indices = t.values();
  for (double& v : indices) v = std::fmod(v, 256);
  const auto palette = [](auto color) {
    std::vector<std::uint16_t> map;
    for (int c = 0; c < 3; ++c)
      for (int k = 0; k < 256; ++k) map.push_back(static_cast<std::uint16_t>(257 * color(c, k)));
    return map;
  };
  const auto fire = palette([](int c, int k) { return std::clamp(3 * k - 255 * c, 0, 255); });
  const auto random = palette([](int c, int k) { return (k * 73 + c * 101) % 256; });
  const auto gray = palette([](int, int k) { return 255 - k; });
  const auto same = palette([](int, int k) { return k; });
  const auto read = [&](const std::vector<std::uint16_t>& map, const std::string& description,
                        const std::string& part) {
    t.palette = map;
    t.description = description;
    write_tiff("palette.tif", t, indices);
    return read_part("palette.tif", part);
  };
  for (const auto& map : {fire, gray, same}) {
    const ReadPicture got = read(map, "", "");
    EXPECT_EQ(got.values, indices);
    EXPECT_EQ(got.info.note.empty(), map == same) << got.info.note;
  }
  EXPECT_EQ(read(random, "ImageJ=1.54f\nunit=um\n", "").values, indices);
  EXPECT_EQ(read(random, "", "index").values, indices);
  for (const auto& [map, part] : {std::pair(random, ""), std::pair(fire, "rgb")}) {
    const ReadPicture got = read(map, "", part);
    ASSERT_EQ(got.channels, 3);
    for (std::size_t k = 0; k < got.values.size(); ++k)
      ASSERT_EQ(got.values[k],
                map[k / indices.size() * 256 + static_cast<std::size_t>(indices[k % indices.size()])] / 257);
    EXPECT_NE(got.info.note.find("palette expanded to RGB"), std::string::npos);
  }
}

TEST(Tiff, MissingSamplesOfGdalAreNotNumbers) {
  static const TIFFFieldInfo field[] = {
      {42113, -1, -1, TIFF_ASCII, FIELD_CUSTOM, 1, 0, const_cast<char*>("GDAL_NODATA")}};
  static TIFFExtendProc before = nullptr;
  before = TIFFSetTagExtender([](TIFF* t) { TIFFMergeFieldInfo(t, field, 1); });
  TiffToWrite t;
  t.format = SAMPLEFORMAT_IEEEFP;
  t.bits = 32;
  std::vector<double> values = t.values();
  values[7] = values[100] = -9999;
  write_tiff("gdal.tif", t, values);
  TIFF* const tiff = TIFFOpen("gdal.tif", "r+");
  ASSERT_NE(tiff, nullptr);
  TIFFSetField(tiff, 42113, "-9999");
  ASSERT_EQ(TIFFRewriteDirectory(tiff), 1);
  TIFFClose(tiff);
  TIFFSetTagExtender(before);
  const ReadPicture got = read_part("gdal.tif");
  for (std::size_t k = 0; k < values.size(); ++k)
    ASSERT_TRUE(k == 7 || k == 100 ? std::isnan(got.values[k]) : got.values[k] == values[k]) << k;
  EXPECT_EQ(got.info.note, "samples of -9999 (GDAL_NODATA) are missing");
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
}  // namespace tessera
