// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/io/image_format.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "io/pictures.hpp"
#include "tessera/core/error.hpp"
#include "tessera/core/phase.hpp"
#include "tessera/io/files.hpp"

namespace tessera {
namespace {

using test::read_all;
using test::save_with_vips;
using test::scene;
using test::write_scene;

std::string message_of(const std::string& path) {
  try {
    read_all(path);
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}

TEST(Pictures, LosslessFormatsComeBackExactly) {
  for (const std::string suffix : {".png", ".tif"})
    for (const int bits : {8, 16})
      for (const int channels : {1, 3}) {
        const std::string path = "lossless" + suffix;
        SCOPED_TRACE(::testing::Message() << path << ", " << bits << " bits, " << channels << " channels");
        write_scene(path, channels, 301, 283, bits);
        const int top = bits == 8 ? 255 : 65535;
        const std::vector<float> sent = scene(channels, 301, 283, top), back = read_all(path);
        ASSERT_EQ(back.size(), sent.size());
        int wrong = 0;
        for (std::size_t k = 0; k < sent.size(); ++k)
          wrong += back[k] != std::round(sent[k] * static_cast<float>(top));
        EXPECT_EQ(wrong, 0);
        const auto source = open_image(path);
        const SourceInfo& info = source->info();
        EXPECT_EQ(info.type, bits == 8 ? "uint8" : "uint16");
        EXPECT_EQ(info.channels, channels);
        EXPECT_EQ(info.full_scale, top);
        EXPECT_EQ(source->random_access(), suffix == ".tif");
        EXPECT_EQ(info.note, "");
        EXPECT_EQ(source->metadata(), Metadata());
        for (const auto& axis : info.grid) EXPECT_EQ(axis.spacing, 0) << axis.name;
        for (const char* left : {".tmp", ".raw.tmp"}) EXPECT_FALSE(std::filesystem::exists(path + left));
      }
}

// A watchdog must see that a slow disk or a large picture is no standstill.
TEST(Pictures, LongWritesBeat) {
  const std::uint64_t before = heartbeat().beats;
  write_scene("beats.png", 1, 6000, 900, 8);  // libvips tells less often where its threads get little time
  const std::uint64_t written = heartbeat().beats;
  EXPECT_GE(written - before, 12U) << "while a picture is encoded";
  constexpr std::int64_t kSlice = 64 << 20;  // of what is synced at once
  write_whole("beats.bin", [](const std::string& temporary) {
    std::ofstream(temporary) << "x";
    std::filesystem::resize_file(temporary, 5 * kSlice);
  });
  EXPECT_GE(heartbeat().beats - written, 5U) << "while a file is synced";
  std::filesystem::remove("beats.bin");
}

TEST(Pictures, JpegComesBackNearly) {
  for (const int channels : {1, 3}) {
    const std::int64_t height = 200, width = 150;
    std::vector<float> smooth;
    for (std::int64_t c = 0; c < channels; ++c)
      for (std::int64_t y = 0; y < height; ++y)
        for (std::int64_t x = 0; x < width; ++x)
          smooth.push_back(static_cast<float>(y + x + 40 * c) / static_cast<float>(height + width + 120));
    const auto sink = test::create_picture("smooth.jpg", height, width, channels, 8);
    sink->write(Box::image2d(height, width), smooth.data());
    sink->finish();
    const std::vector<float> back = read_all("smooth.jpg");
    ASSERT_EQ(back.size(), smooth.size());
    for (std::size_t k = 0; k < back.size(); ++k) ASSERT_NEAR(back[k], 255 * smooth[k], 8) << k;
  }
}

TEST(Pictures, ValuesAreClampedAndRounded) {
  const auto sink = test::create_picture("clamped.png", 1, 6, 1, 8);
  const std::vector<float> values{
      -1, 2, 0.5F, 0.4999F / 255, 0.5001F / 255, std::numeric_limits<float>::quiet_NaN()};
  sink->write(Box::image2d(1, 6), values.data());
  sink->finish();
  EXPECT_EQ(read_all("clamped.png"), (std::vector<float>{0, 255, 128, 0, 1, 0}));
}

TEST(Pictures, RegionsAreTheSameAsTheWholeInAnyOrder) {
  for (const std::string path : {"regions.png", "regions.tif"}) {
    write_scene(path, 3, 700, 300, 16);
    const std::vector<float> whole = read_all(path);
    const auto source = open_image(path);
    for (const Box& box :
         {Box({0, 600, 10}, {1, 700, 20}), Box({0, 0, 0}, {1, 3, 300}), Box({0, 250, 299}, {1, 530, 300})}) {
      std::vector<float> part(static_cast<std::size_t>(3 * box.pixels()));
      source->read_floats(box, part.data());
      std::size_t at = 0;
      int wrong = 0;
      for (std::int64_t c = 0; c < 3; ++c)
        for (std::int64_t y = box.lo()[1]; y < box.hi()[1]; ++y)
          for (std::int64_t x = box.lo()[2]; x < box.hi()[2]; ++x)
            wrong += part[at++] != whole[static_cast<std::size_t>((c * 700 + y) * 300 + x)];
      EXPECT_EQ(wrong, 0) << path << " " << box;
    }
  }
}

TEST(Pictures, OrientationIsAppliedAsLibvipsDoes) {
  write_scene("start.png", 1, 4, 4, 8);  // starts libvips
  const int width = 40, height = 24;
  std::vector<std::uint8_t> samples(static_cast<std::size_t>(width * height * 3));
  for (std::size_t k = 0; k < samples.size(); ++k) samples[k] = static_cast<std::uint8_t>(k * 37 % 251);
  for (const std::string path : {"turned.tif", "turned.jpg", "tiled_turned.tif"})
    for (int orientation = 1; orientation <= 8; ++orientation) {
      SCOPED_TRACE(::testing::Message() << path << " " << orientation);
      save_with_vips(path, samples, width, height, 3, VIPS_FORMAT_UCHAR, VIPS_INTERPRETATION_sRGB,
                     orientation, path[1] == 'i');
      VipsImage* stored = vips_image_new_from_file(path.c_str(), nullptr);
      ASSERT_NE(stored, nullptr);
      VipsImage* upright = nullptr;
      ASSERT_EQ(vips_autorot(stored, &upright, nullptr), 0);
      std::size_t bytes = 0;
      auto* expected = static_cast<std::uint8_t*>(vips_image_write_to_memory(upright, &bytes));
      const auto source = open_image(path);
      const Box& all = source->info().box;
      EXPECT_EQ(source->info().note,
                orientation == 1 ? "" : concat("EXIF orientation ", orientation, " applied"));
      ASSERT_EQ(all, Box::image2d(vips_image_get_height(upright), vips_image_get_width(upright)));
      // In pieces: bands of stored rows where it is a stream.
      int wrong = 0, pieces = 0;
      std::int64_t seen = 0;
      for (const Box& box : source->pieces(all, 2000)) {
        ++pieces;
        std::vector<float> band(static_cast<std::size_t>(3 * box.pixels()));
        source->read_floats(box, band.data());
        std::size_t at = 0;
        for (int c = 0; c < 3; ++c)
          for (std::int64_t y = box.lo()[1]; y < box.hi()[1]; ++y)
            for (std::int64_t x = box.lo()[2]; x < box.hi()[2]; ++x, ++seen)
              wrong += band[at++] != expected[(y * all.extent(2) + x) * 3 + c];
      }
      EXPECT_EQ(wrong, 0);
      EXPECT_EQ(seen, width * height * 3);
      EXPECT_TRUE(source->random_access() || pieces > 3) << pieces;
      g_free(expected);
      g_object_unref(upright);
      g_object_unref(stored);
    }
}

TEST(Pictures, AlphaIsDroppedOrAHoleAndFloatIsKept) {
  write_scene("start.png", 1, 4, 4, 8);
  save_with_vips<std::uint8_t>("alpha.png", {1, 2, 3, 1, 4, 5, 6, 128}, 2, 1, 4, VIPS_FORMAT_UCHAR,
                               VIPS_INTERPRETATION_sRGB);
  EXPECT_EQ(open_image("alpha.png")->info().note, "alpha channel dropped");
  EXPECT_EQ(read_all("alpha.png"), (std::vector<float>{1, 4, 2, 5, 3, 6}));
  save_with_vips<std::uint8_t>("clear.png", {1, 2, 3, 0, 4, 5, 6, 0}, 2, 1, 4, VIPS_FORMAT_UCHAR,
                               VIPS_INTERPRETATION_sRGB);
  EXPECT_EQ(read_all("clear.png"), (std::vector<float>{1, 4, 2, 5, 3, 6})) << "nobody meant that";
  save_with_vips<std::uint16_t>("gray_alpha.png", {1000, 0, 65535, 7}, 2, 1, 2, VIPS_FORMAT_USHORT,
                                VIPS_INTERPRETATION_GREY16);
  EXPECT_EQ(open_image("gray_alpha.png")->info().note,
            "alpha channel dropped, transparent pixels are missing");
  EXPECT_EQ(open_image("gray_alpha.png")->info().type, "uint16");
  const std::vector<float> left = read_all("gray_alpha.png");
  EXPECT_TRUE(left.size() == 2 && std::isnan(left[0]) && left[1] == 65535) << left.size();
  save_with_vips<float>("float.tif", {-0.5F, 1.25F, 3e6F}, 3, 1, 1, VIPS_FORMAT_FLOAT,
                        VIPS_INTERPRETATION_B_W);
  EXPECT_EQ(open_image("float.tif")->info().type, "float32");
  EXPECT_EQ(open_image("float.tif")->info().full_scale, 1);
  EXPECT_EQ(read_all("float.tif"), (std::vector<float>{-0.5F, 1.25F, 3e6F}));
}

TEST(Pictures, RealNumbersOfAnyTypeAreRead) {
  write_scene("start.png", 1, 4, 4, 8);
  const auto holds = [](const std::string& path, const std::string& type, const std::vector<float>& values) {
    EXPECT_EQ(open_image(path)->info().type, type);
    EXPECT_EQ(read_all(path), values) << path;
  };
  save_with_vips<std::int32_t>("int32.tif", {-70000, 0, 3943}, 3, 1, 1, VIPS_FORMAT_INT,
                               VIPS_INTERPRETATION_B_W);
  holds("int32.tif", "int32", {-70000, 0, 3943});
  save_with_vips<std::uint32_t>("uint32.tif", {70000, 0, 3943}, 3, 1, 1, VIPS_FORMAT_UINT,
                                VIPS_INTERPRETATION_B_W);
  holds("uint32.tif", "uint32", {70000, 0, 3943});
  save_with_vips<std::int16_t>("int16.tif", {-7, 0, 3943}, 3, 1, 1, VIPS_FORMAT_SHORT,
                               VIPS_INTERPRETATION_B_W);
  holds("int16.tif", "int16", {-7, 0, 3943});
  EXPECT_EQ(open_image("int16.tif")->info().full_scale, 1);
}

TEST(Pictures, OfSeveralPagesOneMustBeNamed) {
  write_scene("start.png", 1, 4, 4, 8);
  for (const bool tile : {false, true}) {
    std::vector<std::uint16_t> samples(3 * 20 * 30);
    for (std::size_t k = 0; k < samples.size(); ++k) samples[k] = static_cast<std::uint16_t>(k);
    VipsImage* all =
        vips_image_new_from_memory(samples.data(), samples.size() * 2, 30, 60, 1, VIPS_FORMAT_USHORT);
    VipsImage* pages = nullptr;
    ASSERT_EQ(vips_copy(all, &pages, "interpretation", VIPS_INTERPRETATION_GREY16, nullptr), 0);
    vips_image_set_int(pages, VIPS_META_PAGE_HEIGHT, 20);
    ASSERT_EQ(vips_tiffsave(pages, "pages.tif", "tile", tile ? TRUE : FALSE, nullptr), 0)
        << vips_error_buffer();
    g_object_unref(pages);
    g_object_unref(all);
    EXPECT_NE(message_of("pages.tif").find("3 pages (one image is read) say which: pages.tif:/0"),
              std::string::npos);
    for (int page = 0; page < 3; ++page) {
      const auto source = open_image(concat("pages.tif:/", page));
      EXPECT_TRUE(source->random_access());
      std::vector<float> out(600);
      source->read_floats(Box::image2d(20, 30), out.data());
      EXPECT_EQ(out[0], 600 * page);
      EXPECT_EQ(out[599], 600 * page + 599);
    }
    EXPECT_THROW(open_image("pages.tif:/3"), InputError);
  }
}

TEST(Pictures, FloatsAreWrittenAsTheyAre) {
  const std::vector<float> values{-254274.5F, 0, 1e-7F, 3943.25F, 463600, 0.5F};
  const auto sink = test::create_picture("floats.tif", 1, 2, 3, 32);
  sink->write(Box::image2d(1, 2), values.data());
  sink->finish();
  EXPECT_EQ(open_image("floats.tif")->info().type, "float32");
  EXPECT_EQ(read_all("floats.tif"), values);
  EXPECT_THROW(test::create_picture("a.png", 4, 4, 1, 32), InputError);
  EXPECT_THROW(test::create_picture("a.jpg", 4, 4, 1, 32), InputError);
}

TEST(Pictures, PalettesAndSingleBitsAreExpanded) {
  write_scene("start.png", 1, 4, 4, 8);
  std::vector<std::uint8_t> samples{255, 0, 0, 0, 255, 0, 0, 0, 255, 255, 255, 255};
  VipsImage* image = vips_image_new_from_memory(samples.data(), samples.size(), 4, 1, 3, VIPS_FORMAT_UCHAR);
  image->Type = VIPS_INTERPRETATION_sRGB;
  ASSERT_EQ(vips_pngsave(image, "palette.png", "palette", TRUE, "dither", 0.0, nullptr), 0)
      << vips_error_buffer();
  g_object_unref(image);
  // 1-bit gray: 8 pixels 1 0 1 1 0 0 0 1.
  std::vector<std::uint8_t> gray{255, 0, 255, 255, 0, 0, 0, 255};
  image = vips_image_new_from_memory(gray.data(), gray.size(), 8, 1, 1, VIPS_FORMAT_UCHAR);
  image->Type = VIPS_INTERPRETATION_B_W;
  ASSERT_EQ(vips_tiffsave(image, "bit.tif", "bitdepth", 1, nullptr), 0) << vips_error_buffer();
  ASSERT_EQ(vips_pngsave(image, "bit.png", "bitdepth", 1, nullptr), 0) << vips_error_buffer();
  g_object_unref(image);
  EXPECT_EQ(read_text("palette.png")[25], 3);  // IHDR: color type 3, so that the case tests what it says
  EXPECT_EQ(read_all("palette.png"), (std::vector<float>{255, 0, 0, 255, 0, 255, 0, 255, 0, 0, 255, 255}));
  for (const std::string path : {"bit.tif", "bit.png"}) {
    EXPECT_EQ(read_all(path), std::vector<float>(gray.begin(), gray.end())) << path;
    EXPECT_EQ(open_image(path)->info().full_scale, 255);
    EXPECT_NE(open_image(path)->info().note.find("expanded to 8 (times 255)"), std::string::npos) << path;
  }
  EXPECT_EQ(open_image("palette.png")->info().note, "palette expanded to RGB");
}

TEST(Pictures, ProfileIsKept) {
  VipsBlob* blob = nullptr;
  write_scene("start.png", 1, 4, 4, 8);
  ASSERT_EQ(vips_profile_load("srgb", &blob, nullptr), 0);
  std::size_t length = 0;
  const auto* bytes = static_cast<const std::uint8_t*>(vips_blob_get(blob, &length));
  const std::vector<std::uint8_t> profile(bytes, bytes + length);
  ASSERT_GT(length, 100U);
  for (const std::string path : {"profile.png", "profile.jpg", "profile.tif"}) {
    write_scene(path, 3, 20, 30, 8, profile);
    EXPECT_EQ(open_image(path)->metadata().profile, profile) << path;
  }
  vips_area_unref(VIPS_AREA(blob));
}

TEST(Pictures, WhatIsNoPictureIsRefusedWithItsName) {
  write_scene("good.png", 3, 300, 200, 8);
  write_scene("good.jpg", 3, 300, 200, 8);
  write_scene("good.tif", 3, 600, 600, 8);
  save_with_vips("strips.tif", std::vector<std::uint8_t>(90000, 7), 300, 300, 1, VIPS_FORMAT_UCHAR,
                 VIPS_INTERPRETATION_B_W);
  for (const std::string name : {"good.png", "good.jpg", "good.tif", "strips.tif"}) {
    EXPECT_EQ(message_of(name), "");
    const std::string whole = read_text(name), path = "cut_" + name;
    for (const double share : {0.0, 0.01, 0.3, 0.7, 0.9}) {
      std::ofstream(path, std::ios::binary)
          << whole.substr(0, static_cast<std::size_t>(share * whole.size()));
      EXPECT_NE(message_of(path).find(path), std::string::npos) << path << " cut to " << share;
    }
  }
  save_with_vips("cmyk.tif", std::vector<std::uint8_t>(16, 9), 2, 2, 4, VIPS_FORMAT_UCHAR,
                 VIPS_INTERPRETATION_CMYK);
  save_with_vips("cmyk.jpg", std::vector<std::uint8_t>(16, 9), 2, 2, 4, VIPS_FORMAT_UCHAR,
                 VIPS_INTERPRETATION_CMYK);
  save_with_vips("complex.tif", std::vector<float>(8, 9), 2, 2, 1, VIPS_FORMAT_COMPLEX,
                 VIPS_INTERPRETATION_B_W);
  std::filesystem::create_directories("folder.png");
  std::ofstream("text.png") << "this is no picture, but long enough to hold a header of one";
  std::ofstream("vector.png") << "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"9\" height=\"9\"></svg>";
  for (const auto& [path, says] :
       std::vector<std::pair<std::string, std::string>>{{"cmyk.tif", "cmyk"},
                                                        {"cmyk.jpg", "cmyk"},
                                                        {"complex.tif", "complex"},
                                                        {"text.png", "neither PNG"},
                                                        {"vector.png", "neither PNG"},
                                                        {"missing.png", "No such file"},
                                                        {"folder.png", "regular file"}}) {
    EXPECT_NE(message_of(path).find(says), std::string::npos) << path << ": " << message_of(path);
    EXPECT_NE(message_of(path).find(path), std::string::npos) << message_of(path);
  }
}

TEST(Pictures, WriterRefusesWhatAFormatDoesNotHave) {
  EXPECT_THROW(test::create_picture("a.jpg", 4, 4, 3, 16), InputError);
  EXPECT_THROW(test::create_picture("a.png", 4, 4, 2, 8), InputError);
  EXPECT_THROW(test::create_picture("a.png", 4, 4, 3, 12), InputError);
  EXPECT_THROW(test::create_picture("a.bmp", 4, 4, 3, 8), InputError);
  EXPECT_THROW(test::create_picture("a.jpg", 70000, 4, 3, 8), InputError);
  EXPECT_THROW(test::create_picture("no_such_folder/a.png", 4, 4, 3, 8), RunError);
  {
    const auto unfinished = test::create_picture("unfinished.png", 4, 4, 1, 8);
    const std::vector<float> row(4, 0.5F);
    unfinished->write(Box::image2d(1, 4), row.data());
    EXPECT_THROW(unfinished->finish(), ContractError);
    EXPECT_THROW(unfinished->write(Box::image2d(1, 4), row.data()), ContractError);
  }
  for (const char* left : {"", ".tmp", ".raw.tmp"})
    EXPECT_FALSE(std::filesystem::exists(std::string("unfinished.png") + left));
}

TEST(Pictures, PhotographsOfScikitImageAreRead) {
  const std::vector<std::string> paths = test::photographs();
  if (paths.empty()) GTEST_SKIP() << "scikit-image is not in .venv";
  for (const std::string& path : paths) {
    SCOPED_TRACE(path);
    const std::vector<float> values = read_all(path);
    const SourceInfo info = open_image(path)->info();
    EXPECT_TRUE(
        std::all_of(values.begin(), values.end(), [&](float v) { return v >= 0 && v <= info.full_scale; }));
    const std::string name = std::filesystem::path(path).filename();
    if (name == "retina.jpg") {
      EXPECT_EQ(info.box, Box::image2d(1411, 1411));
    }
    if (name == "coffee.png") {
      EXPECT_EQ(info.box, Box::image2d(400, 600));
    }
    if (name == "camera.png") {
      EXPECT_EQ(info.channels, 1);
    }
  }
}

}  // namespace
}  // namespace tessera
