// SPDX-License-Identifier: BSD-3-Clause
// What the descriptions of ImageJ, OME and tifffile say of a TIFF's planes.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "io/tiff_files.hpp"
#include "tessera/io/files.hpp"

namespace tessera::test {
namespace {

// Which pages, in order, stand in what is read: a page's first value tells it.
std::vector<std::int64_t> pages_of(const std::string& path, const std::string& part, const TiffToWrite& t) {
  const std::vector<double> written = t.values();
  const ReadPicture got = read_part(path, part);
  EXPECT_EQ(got.values.size() % static_cast<std::size_t>(t.pixels()), 0U);
  std::vector<std::int64_t> out;
  for (std::size_t at = 0; at < got.values.size(); at += static_cast<std::size_t>(t.pixels()))
    for (std::int64_t page = 0; page < t.pages * t.samples; ++page)
      if (std::equal(got.values.begin() + static_cast<std::ptrdiff_t>(at),
                     got.values.begin() + static_cast<std::ptrdiff_t>(at) + t.pixels(),
                     written.begin() + page * t.pixels()))
        out.push_back(page);
  EXPECT_EQ(static_cast<std::int64_t>(out.size()), got.channels * got.depth);
  return out;
}

using Pages = std::vector<std::int64_t>;

TEST(TiffPlanes, PagesWithoutADescriptionAreSlices) {
  TiffToWrite t;
  t.pages = 6;
  for (const bool packed : {false, true}) {
    t.compression = packed ? COMPRESSION_LZW : COMPRESSION_NONE;
    t.rows_per_strip = packed ? 4 : 0;
    write_tiff("plain.tif", t, t.values());
    EXPECT_EQ(pages_of("plain.tif", "all", t), (Pages{0, 1, 2, 3, 4, 5}));
    EXPECT_EQ(read_part("plain.tif", "all").depth, 6);
    EXPECT_EQ(read_part("plain.tif", "channels").channels, 6);
    EXPECT_EQ(pages_of("plain.tif", "4", t), Pages{4});
    EXPECT_EQ(read_part("plain.tif", "all").info.note, "");
    EXPECT_NE(
        refusal("plain.tif")
            .find("plain.tif has 6 pages (one image is read) say which: plain.tif:/0 to plain.tif:/5, or "
                  "plain.tif:/all, a volume of them"),
        std::string::npos);
    EXPECT_NE(refusal("plain.tif", "6").find("the file has 6 pages"), std::string::npos);
    for (const char* part : {"x", "c", "-1", "all/2", "1/2", "c1x", "all/", "/0"})
      EXPECT_NE(refusal("plain.tif", part).find("pages are counted from 0"), std::string::npos) << part;
  }
}

TEST(TiffPlanes, ImageJsChannelsSlicesAndFramesAreTold) {
  TiffToWrite t;
  t.pages = 12;  // the channel runs fastest, then the slice
  const auto write = [&](const std::string& what) {
    t.description = "ImageJ=1.54f\nimages=12\n" + what + "hyperstack=true\nmode=composite\n";
    write_tiff("ij.tif", t, t.values());
  };
  write("channels=2\nslices=6\n");
  EXPECT_EQ(pages_of("ij.tif", "all", t), (Pages{0, 2, 4, 6, 8, 10, 1, 3, 5, 7, 9, 11}));
  EXPECT_EQ(read_part("ij.tif", "all").channels, 2);
  EXPECT_EQ(pages_of("ij.tif", "c1", t), (Pages{1, 3, 5, 7, 9, 11}));
  EXPECT_EQ(pages_of("ij.tif", "z5", t), (Pages{10, 11}));
  EXPECT_EQ(pages_of("ij.tif", "c1/z2", t), Pages{5});
  EXPECT_EQ(read_part("ij.tif", "slices").depth, 12);
  EXPECT_EQ(read_part("ij.tif", "all").info.note, "2 channels, 6 slices, as its ImageJ description says");
  EXPECT_NE(refusal("ij.tif").find("ij.tif:/c0, its first channel, or ij.tif:/all, 2 channels, 6 slices"),
            std::string::npos);
  EXPECT_NE(refusal("ij.tif", "c2").find("it has 2 channels, counted from 0"), std::string::npos);
  write("channels=2\nslices=3\nframes=2\n");
  EXPECT_NE(refusal("ij.tif", "all").find("ij.tif:/t0 to ij.tif:/t1"), std::string::npos)
      << refusal("ij.tif", "all");
  EXPECT_EQ(pages_of("ij.tif", "t1", t), (Pages{6, 8, 10, 7, 9, 11}));
  EXPECT_EQ(pages_of("ij.tif", "t0/c1", t), (Pages{1, 3, 5}));
  write("slices=12\n");
  EXPECT_EQ(read_part("ij.tif", "all").depth, 12);
  write("channels=5\nslices=3\n");  // what ImageJ itself would take for a plain stack
  EXPECT_NE(refusal("ij.tif", "all")
                .find("its ImageJ description says 5 channels, 3 slices, and it holds 12 planes"),
            std::string::npos);
  EXPECT_EQ(read_part("ij.tif", "slices").depth, 12);
}

TEST(TiffPlanes, AStackOfOneDirectoryIsReadBehindItsFirstPlane) {
  for (const char* mode : {"wl", "wb"})
    for (const std::string& who : {std::string("ImageJ=1.54f\nimages=5\nslices=5\n"),
                                   std::string(R"({"shape": [5, 13, 21], "truncated": true})")}) {
      TiffToWrite t;
      t.mode = mode;
      t.description = who;
      const TiffToWrite five = [&] {
        TiffToWrite more = t;
        more.pages = 5;
        return more;
      }();
      const std::vector<double> values = five.values();
      write_tiff("one.tif", t, {values.begin(), values.begin() + t.pixels()});
      // The first plane goes to the end of the file, the others behind it.
      std::string bytes = read_text("one.tif");
      TiffToWrite pixels = five;
      pixels.description = "";
      write_tiff("five.tif", pixels, values);
      std::string behind;
      for (std::uint32_t k = 0; k < 5; ++k) {
        TIFF* const tiff = TIFFOpen("five.tif", "r");
        TIFFSetDirectory(tiff, k);
        const std::uint64_t at = TIFFGetStrileOffset(tiff, 0);
        TIFFClose(tiff);
        behind += read_text("five.tif").substr(at, static_cast<std::size_t>(2 * t.pixels()));
      }
      // The offset of the only strip stands in the directory: found by its old value.
      TIFF* const tiff = TIFFOpen("one.tif", "r");
      const auto old = static_cast<std::uint32_t>(TIFFGetStrileOffset(tiff, 0));
      TIFFClose(tiff);
      const auto word = [&](std::uint32_t v) {
        std::string text(4, '\0');
        for (std::size_t k = 0; k < 4; ++k) text[mode[1] == 'b' ? 3 - k : k] = static_cast<char>(v >> 8 * k);
        return text;
      };
      const std::string tag = mode[1] == 'b' ? std::string("\x01\x11", 2) : std::string("\x11\x01", 2);
      const std::size_t entry = bytes.rfind(tag), place = entry + 8;
      ASSERT_EQ(bytes.substr(place, 4), word(old));
      bytes.replace(place, 4, word(static_cast<std::uint32_t>(bytes.size())));
      std::ofstream("stack.tif", std::ios::binary) << bytes << behind;
      SCOPED_TRACE(who + mode);
      EXPECT_EQ(pages_of("stack.tif", "all", five), (Pages{0, 1, 2, 3, 4}));
      EXPECT_EQ(read_part("stack.tif", "all").depth, 5);
      EXPECT_EQ(pages_of("stack.tif", "3", five), Pages{3});
      EXPECT_NE(refusal("stack.tif").find("stack.tif has 5 pages"), std::string::npos);
      std::ofstream("short.tif", std::ios::binary) << bytes << behind.substr(1);
      for (const std::size_t n :
           {behind.size() - 1, 3 * behind.size() / 10}) {  // in the last plane, the second
        std::ofstream("short.tif", std::ios::binary) << bytes << behind.substr(0, n);
        for (const char* part : {"all", "0"})
          EXPECT_NE(refusal("short.tif", part).find("is the file complete?"), std::string::npos) << part << n;
        EXPECT_NE(refusal("short.tif"), "");
      }
      // A plane that was taken out of its stack with the description: the directory before it, or behind.
      std::ofstream("kept.tif", std::ios::binary) << bytes << behind.substr(0, behind.size() / 5);
      for (const char* path : {"kept.tif", "one.tif"}) {
        for (const char* part : {"", "0", "slices"}) {
          EXPECT_EQ(pages_of(path, part, five), Pages{0}) << path << part;
          EXPECT_NE(read_part(path, part).info.note.find("description says 5 slices, and it holds 1 plane"),
                    std::string::npos)
              << read_part(path, part).info.note;
        }
        EXPECT_NE(refusal(path, "all").find(concat("it holds 1 plane) write ", path)), std::string::npos)
            << refusal(path, "all");
      }
      t.compression = COMPRESSION_LZW;
      write_tiff("packed.tif", t, {values.begin(), values.begin() + t.pixels()});
      EXPECT_EQ(pages_of("packed.tif", "", five), Pages{0});
    }
}

TEST(TiffPlanes, OmeSaysTheOrderOfItsPlanes) {
  TiffToWrite t;
  t.pages = 24;
  const std::map<char, std::int64_t> size{{'C', 2}, {'Z', 4}, {'T', 3}};
  int orders = 0;
  for (std::string order = "CTZ"; orders == 0 || std::next_permutation(order.begin(), order.end());
       ++orders) {
    t.description =
        "<?xml version=\"1.0\"?><OME><Image ID=\"Image:0\"><Pixels ID=\"Pixels:0\" DimensionOrder=\"XY" +
        order +
        "\" Type=\"uint16\" SizeX=\"21\" SizeY=\"13\" SizeC=\"2\" SizeZ=\"4\" SizeT=\"3\"><Channel "
        "ID=\"Channel:0:0\" SamplesPerPixel=\"1\"/><TiffData IFD=\"0\" "
        "PlaneCount=\"24\"/></Pixels></Image></OME>";
    write_tiff("ome.tif", t, t.values());
    const auto page = [&](std::int64_t c, std::int64_t z, std::int64_t frame) {
      std::int64_t at = 0, step = 1;
      for (const char axis : order) {
        at += step * (axis == 'C' ? c : axis == 'Z' ? z : frame);
        step *= size.at(axis);
      }
      return at;
    };
    Pages wanted;
    for (std::int64_t c = 0; c < 2; ++c)
      for (std::int64_t z = 0; z < 4; ++z) wanted.push_back(page(c, z, 2));
    EXPECT_EQ(pages_of("ome.tif", "t2", t), wanted) << order;
    EXPECT_EQ(read_part("ome.tif", "t2").info.note,
              "2 channels, 4 slices, 3 frames, as its OME description says");
    EXPECT_NE(refusal("ome.tif", "all").find("(a volume is of one frame)"), std::string::npos);
  }
  EXPECT_EQ(orders, 6);
}

TEST(TiffPlanes, OmeMayBreakItsLinesAndNameItsElements) {
  TiffToWrite t;
  t.pages = 6;
  const auto write = [&](const std::string& prefix, const std::string& space, const std::string& equal) {
    const std::string pixels = prefix + "Pixels", image = prefix + "Image>", ome = prefix + "OME";
    t.description = concat("<?xml version=\"1.0\"?><!-- OME -->\n<", ome, space, "xmlns", equal, "\"x\"><",
                           image, "<", pixels, space, "DimensionOrder", equal, "\"XYCZT\"", space, "SizeC",
                           equal, "'2'", space, "SizeZ", equal, "\"3\"", space, "SizeT", equal, "\"1\"><",
                           prefix, "TiffData/></", pixels, "></", image, "</", ome, ">");
    write_tiff("lines.tif", t, t.values());
  };
  for (const std::string prefix : {"", "OME:", "ome-2:"})
    for (const std::string space : {" ", "\n   ", "\t", "\r\n"})
      for (const std::string equal : {"=", " =\n"}) {
        write(prefix, space, equal);
        EXPECT_EQ(pages_of("lines.tif", "all", t), (Pages{0, 2, 4, 1, 3, 5})) << t.description;
      }
  write("", "", "=");  // <PixelsDimensionOrder is another element
  EXPECT_EQ(read_part("lines.tif", "all").depth, 6);
}

TEST(TiffPlanes, PagesThatNobodyAsksForMayBeOfAnyKind) {
  TiffToWrite gray, other = rgba();
  gray.bits = 8;
  other.mode = "a";
  const auto pages = [&](const TiffToWrite& first, const TiffToWrite& second) {
    write_tiff("kinds.tif", first, first.values());
    write_tiff("kinds.tif", second, second.values());
  };
  pages(gray, other);  // each with the samples that it has
  EXPECT_EQ(read_part("kinds.tif", "0").values, gray.values());
  EXPECT_EQ(read_part("kinds.tif", "1").channels, 3);
  EXPECT_EQ(read_part("kinds.tif", "1").info.note, "alpha channel dropped");
  other.mode = "w";
  gray.mode = "a";
  pages(other, gray);
  EXPECT_EQ(read_part("kinds.tif", "1").values, gray.values());
  EXPECT_EQ(read_part("kinds.tif", "0").channels, 3);
  EXPECT_NE(refusal("kinds.tif", "all")
                .find("kinds.tif has pages that differ (page 1 is 1 x 13 x 21 of uint8, the "
                      "first 4 x 13 x 21 of uint8) name the page"),
            std::string::npos)
      << refusal("kinds.tif", "all");
  EXPECT_NE(refusal("kinds.tif", "z1").find("has pages that differ"), std::string::npos);
  EXPECT_NE(refusal("kinds.tif").find("kinds.tif has 2 pages"), std::string::npos);

  TiffToWrite cmyk = gray, complex = gray, deep = gray;
  cmyk.photometric = PHOTOMETRIC_SEPARATED;
  cmyk.samples = 4;
  complex.format = SAMPLEFORMAT_COMPLEXIEEEFP;
  complex.bits = 64;
  deep.depth = 3;
  for (const auto& [page, problem] :
       {std::pair(cmyk, "is a cmyk picture"), std::pair(complex, "holds complex samples"),
        std::pair(deep, "holds 3 slices in one page (ImageDepth")})
    for (const bool first : {false, true}) {
      TiffToWrite unread = page;
      unread.mode = first ? "w" : "a";
      gray.mode = first ? "a" : "w";
      first ? pages(unread, gray) : pages(gray, unread);
      EXPECT_EQ(read_part("kinds.tif", first ? "1" : "0").values, gray.values()) << problem;
      EXPECT_NE(refusal("kinds.tif", first ? "0" : "1").find(problem), std::string::npos) << problem;
      EXPECT_NE(refusal("kinds.tif", "all"), "") << problem;
    }
  deep.mode = "w";
  write_tiff("deep.tif", deep, deep.values());
  EXPECT_NE(refusal("deep.tif").find("deep.tif holds 3 slices in one page"), std::string::npos);
}

TEST(TiffPlanes, OmeMaySayEachPageAlone) {
  TiffToWrite t;
  t.pages = 3;
  const auto write = [&](const std::string& data) {
    t.description = "<OME><Image><Pixels DimensionOrder=\"XYZCT\" SizeC=\"1\" SizeZ=\"3\" SizeT=\"1\">" +
                    data + "</Pixels></Image></OME>";
    write_tiff("each.tif", t, t.values());
  };
  write(
      "<TiffData IFD=\"2\" FirstZ=\"0\"/><TiffData IFD=\"0\" FirstZ=\"1\"/><TiffData IFD=\"1\" "
      "FirstZ=\"2\"/>");
  EXPECT_EQ(pages_of("each.tif", "all", t), (Pages{2, 0, 1}));
  write("<TiffData/>");
  EXPECT_EQ(pages_of("each.tif", "all", t), (Pages{0, 1, 2}));
  write("");
  EXPECT_EQ(pages_of("each.tif", "all", t), (Pages{0, 1, 2}));
  write(
      "<TiffData IFD=\"0\" FirstZ=\"0\"/><TiffData IFD=\"0\" FirstZ=\"1\"/><TiffData IFD=\"1\" "
      "FirstZ=\"2\"/>");
  EXPECT_NE(refusal("each.tif", "all").find("does not give each page one"), std::string::npos);
  t.pages = 2;  // the third lies in another file of the set
  write("<TiffData IFD=\"0\"/>");
  EXPECT_NE(
      refusal("each.tif", "all").find("says 3 slices, and it holds 2 planes; are others in files beside it?"),
      std::string::npos);
  EXPECT_EQ(pages_of("each.tif", "1", t), Pages{1});
}

TEST(TiffPlanes, TifffilesArraysAreToldFromColors) {
  // (4, y, x) of bytes: one page of separate RGB and alpha, as tifffile writes it where nothing is said.
  TiffToWrite t = rgba();
  t.planes = PLANARCONFIG_SEPARATE;
  t.description = R"({"shape": [4, 13, 21]})";
  write_tiff("four.tif", t, t.values());
  EXPECT_NE(refusal("four.tif")
                .find("four.tif has 4 pages (one image is read) say which: four.tif:/0 to four.tif:/3, or "
                      "four.tif:/all, "
                      "a volume of them, or four.tif:/rgb, the color picture"),
            std::string::npos)
      << refusal("four.tif");
  EXPECT_EQ(pages_of("four.tif", "all", t), (Pages{0, 1, 2, 3}));
  EXPECT_EQ(read_part("four.tif", "all").depth, 4);
  EXPECT_EQ(read_part("four.tif", "channels").channels, 4);
  EXPECT_EQ(pages_of("four.tif", "z3", t), Pages{3});
  EXPECT_EQ(pages_of("four.tif", "2", t), Pages{2});
  EXPECT_EQ(pages_of("four.tif", "rgb", t), (Pages{0, 1, 2}));
  EXPECT_NE(read_part("four.tif", "rgb").info.note.find("alpha channel dropped"), std::string::npos);
  t.pages = 6;  // the last axis of 4 becomes samples, whatever it is called
  t.description = R"({"shape": [3, 2, 4, 13, 21], "axes": "TCZYX"})";
  write_tiff("axes_of_samples.tif", t, t.values());
  EXPECT_EQ(pages_of("axes_of_samples.tif", "t1", t), (Pages{8, 9, 10, 11, 12, 13, 14, 15}));
  EXPECT_EQ(read_part("axes_of_samples.tif", "t1").channels, 2);
  EXPECT_EQ(pages_of("axes_of_samples.tif", "t2/c1/z3", t), Pages{23});
  t.pages = 1;
  t.description = R"({"shape": [4, 13, 21], "axes": "CYX"})";
  write_tiff("four_channels.tif", t, t.values());
  EXPECT_EQ(read_part("four_channels.tif", "all").channels, 4);
  t.samples = 3;
  t.extra = {};
  t.description = R"({"shape": [3, 13, 21]})";
  write_tiff("three.tif", t, t.values());
  EXPECT_EQ(read_part("three.tif").channels, 3);
  EXPECT_NE(read_part("three.tif").info.note.find("three.tif:/all takes them as an array"),
            std::string::npos);
  EXPECT_EQ(read_part("three.tif", "all").depth, 3);
  t.description = "";  // another program's colors
  write_tiff("rgb.tif", t, t.values());
  EXPECT_EQ(read_part("rgb.tif", "all").channels, 3);
  EXPECT_EQ(read_part("rgb.tif").info.note, "");

  TiffToWrite pages;
  pages.pages = 6;
  pages.description = R"({"shape": [2, 3, 13, 21], "axes": "CZYX"})";
  write_tiff("axes.tif", pages, pages.values());
  EXPECT_EQ(pages_of("axes.tif", "all", pages), (Pages{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(read_part("axes.tif", "all").channels, 2);
  pages.description = R"({"shape": [2, 3, 13, 21]})";
  write_tiff("unnamed.tif", pages, pages.values());
  EXPECT_NE(refusal("unnamed.tif", "all")
                .find("its planes are an array of 2 x 3 and nothing says which axis is what"),
            std::string::npos);
  pages.description = R"({"shape": [13, 21]})";  // written one by one
  write_tiff("appended.tif", pages, pages.values());
  EXPECT_EQ(read_part("appended.tif", "all").depth, 6);
  for (const char* broken :
       {"{", R"({"shape": [0, 13, 21]})", R"({"shape": ["a"]})", R"({"shape": [99999999999, 13, 21]})"}) {
    pages.description = broken;
    write_tiff("broken.tif", pages, pages.values());
    EXPECT_EQ(read_part("broken.tif", "all").depth, 6) << broken;
  }
}

}  // namespace
}  // namespace tessera::test
