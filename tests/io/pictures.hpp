// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <gtest/gtest.h>
#include <vips/vips.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "tessera/io/image_format.hpp"

namespace tessera::test {

/// Planar samples in [0, 1] on exact steps of `top` (255 or 65535); every pixel differs from its neighbors.
inline std::vector<float> scene(std::int64_t channels, std::int64_t height, std::int64_t width, int top) {
  std::vector<float> out;
  for (std::int64_t c = 0; c < channels; ++c)
    for (std::int64_t y = 0; y < height; ++y)
      for (std::int64_t x = 0; x < width; ++x)
        out.push_back(static_cast<float>((c * 7919 + y * 263 + x * 131) % (top + 1)) /
                      static_cast<float>(top));
  return out;
}

inline std::unique_ptr<ImageSink> create_picture(const std::string& path, std::int64_t height,
                                                 std::int64_t width, std::int64_t channels, int bits,
                                                 std::vector<std::uint8_t> profile = {}) {
  ImageRecord record;
  record.space = ImageSpace(Box::image2d(height, width), channels);
  record.bits = bits;
  record.metadata.profile = std::move(profile);
  return create_image(path, record);
}

inline void write_scene(const std::string& path, std::int64_t channels, std::int64_t height,
                        std::int64_t width, int bits, std::vector<std::uint8_t> profile = {}) {
  const std::vector<float> planar = scene(channels, height, width, bits == 8 ? 255 : 65535);
  const auto sink = create_picture(path, height, width, channels, bits, std::move(profile));
  std::vector<float> band;
  for (std::int64_t y = 0; y < height; y += 7) {  // bands of 7 rows, the last is shorter
    const std::int64_t rows = std::min<std::int64_t>(7, height - y);
    band.clear();
    for (std::int64_t c = 0; c < channels; ++c)
      band.insert(band.end(), planar.begin() + (c * height + y) * width,
                  planar.begin() + (c * height + y + rows) * width);
    sink->write(Box({0, y, 0}, {1, y + rows, width}), band.data());
  }
  sink->finish();
}

/// The whole picture, planar, file values.
inline std::vector<float> read_all(const std::string& path) {
  const auto source = open_image(path);
  std::vector<float> out(static_cast<std::size_t>(source->info().values()));
  source->read_floats(source->info().box, out.data());
  return out;
}

/// Writes interleaved samples through libvips, with one more integer of metadata where `key` is given.
template <class Sample>
void save_with_vips(const std::string& path, std::vector<Sample> samples, int width, int height, int bands,
                    VipsBandFormat format, VipsInterpretation meaning, int orientation = 0,
                    bool tile = false) {
  VipsImage* raw = vips_image_new_from_memory(samples.data(), samples.size() * sizeof(Sample), width, height,
                                              bands, format);
  ASSERT_NE(raw, nullptr);
  VipsImage* image = nullptr;
  ASSERT_EQ(vips_copy(raw, &image, "interpretation", meaning, nullptr), 0);
  if (orientation) vips_image_set_int(image, VIPS_META_ORIENTATION, orientation);
  int code = 0;
  if (path.find(".tif") != std::string::npos)
    code = vips_tiffsave(image, path.c_str(), "tile", tile ? TRUE : FALSE, nullptr);
  else if (path.find(".jpg") != std::string::npos)
    code = vips_jpegsave(image, path.c_str(), "Q", 100, nullptr);
  else
    code = vips_pngsave(image, path.c_str(), nullptr);
  EXPECT_EQ(code, 0) << vips_error_buffer();
  g_object_unref(image);
  g_object_unref(raw);
}

/// scikit-image's own photographs, from the wheel in .venv; empty where it is not there.
inline std::vector<std::string> photographs() {
  std::vector<std::string> found;
  const char* source = std::getenv("TESSERA_SOURCE_DIR");
  const std::filesystem::path lib = std::filesystem::path(source ? source : ".") / ".venv" / "lib";
  std::error_code none;
  for (const auto& python : std::filesystem::directory_iterator(lib, none)) {
    const auto data = python.path() / "site-packages" / "skimage" / "data";
    for (const auto& entry : std::filesystem::directory_iterator(data, none))
      if (entry.path().extension() == ".png" || entry.path().extension() == ".jpg")
        found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace tessera::test
