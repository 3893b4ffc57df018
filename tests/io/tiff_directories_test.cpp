// SPDX-License-Identifier: BSD-3-Clause
// TIFFs whose directories are not one image each: copies, masks, tiles that are not stored, planes behind one of them.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <functional>

#include "io/tiff_files.hpp"

namespace tessera::test {
namespace {

constexpr std::uint32_t kHeight = 40, kWidth = 56, kTile = 16;

double value(std::uint32_t page, std::uint32_t y, std::uint32_t x) { return 1 + page * 10000 + y * 100 + x; }

struct Directory {
  std::uint32_t kind = 0, shrink = 1, page = 0;
  bool tiled = true;
  std::uint16_t bits = 16, compression = COMPRESSION_ADOBE_DEFLATE;
  std::function<bool(std::uint32_t, std::uint32_t)> stored = [](auto, auto) {
    return true;
  };  // of a tile, strip
};

// Masks have 1 bit, and leave out the first three columns.
void write_directory(TIFF* tiff, const Directory& d) {
  const std::uint32_t height = kHeight / d.shrink, width = kWidth / d.shrink;
  TIFFSetField(tiff, TIFFTAG_SUBFILETYPE, d.kind);
  TIFFSetField(tiff, TIFFTAG_IMAGEWIDTH, width);
  TIFFSetField(tiff, TIFFTAG_IMAGELENGTH, height);
  TIFFSetField(tiff, TIFFTAG_SAMPLESPERPIXEL, 1);
  TIFFSetField(tiff, TIFFTAG_BITSPERSAMPLE, d.bits);
  TIFFSetField(tiff, TIFFTAG_COMPRESSION, d.compression);
  TIFFSetField(tiff, TIFFTAG_PLANARCONFIG, PLANARCONFIG_CONTIG);
  TIFFSetField(tiff, TIFFTAG_PHOTOMETRIC, d.bits == 1 ? PHOTOMETRIC_MASK : PHOTOMETRIC_MINISBLACK);
  const std::uint32_t rows = kTile, columns = d.tiled ? kTile : width;
  if (d.tiled) {
    TIFFSetField(tiff, TIFFTAG_TILEWIDTH, columns);
    TIFFSetField(tiff, TIFFTAG_TILELENGTH, rows);
  } else {
    TIFFSetField(tiff, TIFFTAG_ROWSPERSTRIP, rows);
  }
  std::uint32_t index = 0;
  for (std::uint32_t y = 0; y < height; y += rows)
    for (std::uint32_t x = 0; x < width; x += columns, ++index) {
      if (!d.stored(y, x)) continue;
      const std::uint32_t high = d.tiled ? rows : std::min(rows, height - y);
      std::vector<unsigned char> bytes(
          static_cast<std::size_t>(d.tiled ? TIFFTileSize(tiff) : TIFFVStripSize(tiff, high)));
      const std::size_t row = bytes.size() / high;
      for (std::uint32_t r = 0; r < high; ++r)
        for (std::uint32_t c = 0; c < columns; ++c)
          if (d.bits == 1)
            bytes[r * row + c / 8] |= static_cast<unsigned char>((x + c >= 3) << (7 - c % 8));
          else
            put_number<std::uint16_t>(value(d.page, y + r, x + c), bytes.data() + r * row + 2 * c);
      const auto size = static_cast<tmsize_t>(bytes.size());
      ASSERT_GT(d.tiled ? TIFFWriteEncodedTile(tiff, index, bytes.data(), size)
                        : TIFFWriteEncodedStrip(tiff, index, bytes.data(), size),
                0);
    }
  ASSERT_EQ(TIFFWriteDirectory(tiff), 1);
}

void write_directories(const std::string& path, const std::vector<Directory>& directories) {
  TIFF* const tiff = TIFFOpen(path.c_str(), "w");
  ASSERT_NE(tiff, nullptr);
  for (const Directory& d : directories) write_directory(tiff, d);
  TIFFClose(tiff);
}

// NaN where `missing`, and the page's values elsewhere.
void expect_page(const ReadPicture& got, std::uint32_t slice, std::uint32_t page,
                 const std::function<bool(std::uint32_t, std::uint32_t)>& missing) {
  int wrong = 0;
  for (std::uint32_t y = 0; y < kHeight; ++y)
    for (std::uint32_t x = 0; x < kWidth; ++x) {
      const double v = got.values.at((slice * kHeight + y) * kWidth + x);
      wrong += missing(y, x) ? !std::isnan(v) : v != value(page, y, x);
    }
  EXPECT_EQ(wrong, 0) << "page " << page;
}
bool none(std::uint32_t, std::uint32_t) { return false; }

TEST(TiffDirectories, CopiesAreLeftOutAndMasksAreFollowed) {
  for (const bool tiled : {true, false}) {
    const Directory image{.tiled = tiled}, half{.kind = FILETYPE_REDUCEDIMAGE, .shrink = 2, .tiled = tiled};
    const Directory mask{.kind = FILETYPE_MASK, .tiled = tiled, .bits = 1};
    write_directories("pyramid.tif", {image, half, half});
    const ReadPicture plain = read_part("pyramid.tif");
    EXPECT_EQ(plain.depth, 1);
    expect_page(plain, 0, 0, none);
    EXPECT_NE(plain.info.note.find("2 smaller copies"), std::string::npos) << plain.info.note;

    write_directories(
        "masked.tif",
        {image, mask, half, {.kind = FILETYPE_MASK | FILETYPE_REDUCEDIMAGE, .shrink = 2, .bits = 1}});
    const ReadPicture masked = read_part("masked.tif");
    expect_page(masked, 0, 0, [](auto, std::uint32_t x) { return x < 3; });
    EXPECT_NE(masked.info.note.find("its mask"), std::string::npos) << masked.info.note;

    Directory second = image;
    second.page = 1;
    write_directories("thumbs.tif", {image, half, second, half});
    const ReadPicture both = read_part("thumbs.tif", "all");
    ASSERT_EQ(both.depth, 2);
    expect_page(both, 0, 0, none);
    expect_page(both, 1, 1, none);
    expect_page(read_part("thumbs.tif", "1"), 0, 1, none);
    EXPECT_NE(refusal("thumbs.tif").find("has 2 pages"), std::string::npos);
    write_directories("only.tif", {half});
    EXPECT_EQ(read_part("only.tif").values.size(), kHeight * kWidth / 4U);
  }
}

TEST(TiffDirectories, TilesAndStripsThatAreNotStoredAreMissing) {
  for (const auto compression : {COMPRESSION_ADOBE_DEFLATE, COMPRESSION_NONE})
    for (const bool tiled : {true, false}) {
      const auto stored = [&](std::uint32_t y, std::uint32_t x) {
        return tiled ? (y / kTile + x / kTile) % 2 == 1 : y / kTile == 1;
      };
      write_directories(
          "sparse.tif",
          {{.tiled = tiled, .compression = static_cast<std::uint16_t>(compression), .stored = stored}});
      const ReadPicture got = read_part("sparse.tif");
      expect_page(got, 0, 0, [&](auto y, auto x) { return !stored(y, x); });
      EXPECT_NE(got.info.note.find("not stored: their samples are missing"), std::string::npos)
          << got.info.note;
    }
}

// As MetaMorph writes it: `planes` behind one directory, told by the count of tag 33629 alone.
void write_stack(const std::string& path, std::uint32_t planes, std::uint16_t compression) {
  std::string out("II*\0", 4);
  const auto put = [&](std::uint32_t v, std::size_t bytes) {
    for (std::size_t k = 0; k < bytes; ++k) out += static_cast<char>(v >> 8 * k & 255);
  };
  const std::uint32_t data = 2 * kHeight * kWidth * planes, table = 8 + data, at = table + 24 * planes;
  put(at, 4);
  for (std::uint32_t p = 0; p < planes; ++p)
    for (std::uint32_t y = 0; y < kHeight; ++y)
      for (std::uint32_t x = 0; x < kWidth; ++x) put(static_cast<std::uint32_t>(value(p, y, x)), 2);
  for (std::uint32_t k = 0; k < 6 * planes; ++k) put(k % 2 + 1, 4);
  const std::vector<std::array<std::uint32_t, 4>> tags{
      {256, 4, 1, kWidth},      {257, 4, 1, kHeight}, {258, 3, 1, 16},
      {259, 3, 1, compression}, {262, 3, 1, 1},       {273, 4, 1, 8},
      {277, 3, 1, 1},           {278, 4, 1, kHeight}, {279, 4, 1, 2 * kHeight * kWidth},
      {33629, 5, planes, table}};
  put(static_cast<std::uint32_t>(tags.size()), 2);
  for (const auto& [tag, type, count, v] : tags) {
    put(tag, 2);
    put(type, 2);
    put(count, 4);
    put(v, 4);
  }
  put(0, 4);
  std::ofstream(path, std::ios::binary) << out;
}

TEST(TiffDirectories, MetaMorphsPlanesStandBehindOneDirectory) {
  for (const char* path : {"planes.tif", "planes.stk"}) {
    write_stack(path, 5, COMPRESSION_NONE);
    const ReadPicture got = read_part(path, "all");
    ASSERT_EQ(got.depth, 5);
    for (std::uint32_t p = 0; p < 5; ++p) expect_page(got, p, p, none);
    expect_page(read_part(path, "3"), 0, 3, none);
    EXPECT_NE(refusal(path).find("has 5 pages (one image is read) say which"), std::string::npos)
        << refusal(path);
    EXPECT_NE(got.info.note.find("MetaMorph"), std::string::npos) << got.info.note;
  }
  write_stack("packed.stk", 5, COMPRESSION_LZW);
  EXPECT_NE(refusal("packed.stk", "all").find("compressed"), std::string::npos)
      << refusal("packed.stk", "all");
}

}  // namespace
}  // namespace tessera::test
