// SPDX-License-Identifier: BSD-3-Clause
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "tessera/core/error.hpp"
#include "tessera/core/phase.hpp"
#include "tessera/io/files.hpp"
#include "tessera/io/image_file.hpp"
#include "tessera/io/image_format.hpp"
#include "tessera/io/posix_file.hpp"
#include "vips_support.hpp"

namespace tessera {

struct ImageWriter::Impl {
  std::string path, raw_path;
  const ImageFormat* format = nullptr;
  std::int64_t height = 0, width = 0, channels = 1, next_row = 0;
  int bits = 8;
  std::vector<std::uint8_t> profile, line;
  std::FILE* raw = nullptr;

  ~Impl() {
    if (raw) std::fclose(raw);
    ::unlink(raw_path.c_str());
  }
  [[noreturn]] void fail(const std::string& why) const {
    throw RunError(concat("cannot write ", path, " (", why, ")"));
  }
  template <class Sample>
  static Sample stored(float v) {
    if constexpr (std::is_same_v<Sample, float>) return v;
    const float clamped = v > 0 ? std::min(v, 1.0F) : 0.0F;  // NaN compares false
    return static_cast<Sample>(std::lround(clamped * static_cast<float>(std::numeric_limits<Sample>::max())));
  }
  template <class Sample>
  void put_row(const float* planar, std::int64_t plane) {
    for (std::int64_t x = 0; x < width; ++x)
      for (std::int64_t c = 0; c < channels; ++c) {
        const auto sample = stored<Sample>(planar[c * plane + x]);
        std::memcpy(line.data() + (x * channels + c) * static_cast<std::int64_t>(sizeof(Sample)), &sample,
                    sizeof(Sample));
      }
    if (std::fwrite(line.data(), 1, line.size(), raw) != line.size()) fail(std::strerror(errno));
  }
  void encode(const std::string& temporary) const;
};

ImageWriter::ImageWriter(const std::string& path, std::int64_t height, std::int64_t width,
                         std::int64_t channels, int bits, std::vector<std::uint8_t> profile)
    : impl_(std::make_unique<Impl>()) {
  Impl& p = *impl_;
  p.format = find_format(path);
  TESSERA_VALIDATE(is_picture(path), "cannot write ", path,
                   " (the suffix says the format) use .png, .jpg or .tif");
  TESSERA_VALIDATE(p.format->writes(bits), "cannot write ", path, " with ", bits,
                   " bits (.tif has 8, 16 or 32, .png 8 or 16, .jpg 8) choose one of them");
  TESSERA_VALIDATE(channels == 1 || channels == 3, "cannot write ", path, " with ", channels,
                   " channels (a picture is gray or RGB) write HDF5");
  const std::int64_t limit = p.format->side;
  TESSERA_VALIDATE(height >= 1 && width >= 1 && height <= limit && width <= limit, "cannot write ", path,
                   ", ", height, " x ", width, " pixels (the format has 1 to ", limit,
                   " a side) use .tif or HDF5");
  io::start_vips();
  p.path = path;
  p.height = height;
  p.width = width;
  p.channels = channels;
  p.bits = bits;
  p.profile = std::move(profile);
  p.line.resize(static_cast<std::size_t>(width * channels * bits / 8));
  p.raw_path = temporary_name(path + ".raw");
  p.raw = std::fopen(p.raw_path.c_str(), "wbx");
  if (!p.raw) p.fail(std::strerror(errno));
}
ImageWriter::~ImageWriter() = default;

void ImageWriter::write_rows(std::int64_t row, std::int64_t rows, const float* planar) {
  Impl& p = *impl_;
  if (!p.raw || row != p.next_row || rows < 0 || row + rows > p.height)
    throw ContractError(
        concat("rows [", row, ", ", row + rows, ") of ", p.path, " (row ", p.next_row, " is next)"));
  for (std::int64_t k = 0; k < rows; ++k)
    if (p.bits == 8)
      p.put_row<std::uint8_t>(planar + k * p.width, rows * p.width);
    else if (p.bits == 16)
      p.put_row<std::uint16_t>(planar + k * p.width, rows * p.width);
    else
      p.put_row<float>(planar + k * p.width, rows * p.width);
  p.next_row += rows;
}

void ImageWriter::Impl::encode(const std::string& temporary) const {
  const auto check = [&](int code) {
    if (code) fail(io::vips_problem());
  };
  VipsImage* made = nullptr;
  const bool color = channels == 3;
  const VipsInterpretation meaning = bits != 16
                                         ? (color ? VIPS_INTERPRETATION_sRGB : VIPS_INTERPRETATION_B_W)
                                         : (color ? VIPS_INTERPRETATION_RGB16 : VIPS_INTERPRETATION_GREY16);
  const VipsBandFormat type = bits == 8    ? VIPS_FORMAT_UCHAR
                              : bits == 16 ? VIPS_FORMAT_USHORT
                                           : VIPS_FORMAT_FLOAT;
  int code = vips_rawload(raw_path.c_str(), &made, static_cast<int>(width), static_cast<int>(height),
                          static_cast<int>(channels), "format", type, "interpretation", meaning, "access",
                          VIPS_ACCESS_SEQUENTIAL, nullptr);
  const io::VipsPointer rows(made);
  check(code);
  made = nullptr;
  code = vips_copy(rows.get(), &made, nullptr);  // metadata may be set on a copy only
  const io::VipsPointer image(made);
  check(code);
  if (!profile.empty())
    vips_image_set_blob_copy(image.get(), VIPS_META_ICC_NAME, profile.data(), profile.size());
  // A large picture takes minutes to encode.
  vips_image_set_progress(image.get(), TRUE);
  g_signal_connect(image.get(), "eval", G_CALLBACK(+[](VipsImage*, VipsProgress*, void*) { beat(); }),
                   nullptr);
  if (format->name == "PNG") {
    check(vips_pngsave(image.get(), temporary.c_str(), "bitdepth", bits, nullptr));
  } else if (format->name == "JPEG") {
    check(vips_jpegsave(image.get(), temporary.c_str(), "Q", 95, nullptr));
  } else {
    // The classic format ends at 4 GiB; compressed data may, rarely, be longer than raw ones.
    const bool big = height * width * channels * bits / 8 > 3'500'000'000;
    // Many readers do not know the predictor for floats.
    check(
        vips_tiffsave(image.get(), temporary.c_str(), "tile", TRUE, "tile_width", 256, "tile_height", 256,
                      "compression", VIPS_FOREIGN_TIFF_COMPRESSION_DEFLATE, "predictor",
                      bits == 32 ? VIPS_FOREIGN_TIFF_PREDICTOR_NONE : VIPS_FOREIGN_TIFF_PREDICTOR_HORIZONTAL,
                      "bigtiff", big ? TRUE : FALSE, nullptr));
  }
}

void ImageWriter::finish() {
  Impl& p = *impl_;
  if (!p.raw || p.next_row != p.height)
    throw ContractError(concat(p.path, " has ", p.next_row, " of ", p.height, " rows (all are needed)"));
  if (std::fclose(std::exchange(p.raw, nullptr)) != 0) p.fail(std::strerror(errno));
  write_whole(p.path, [&](const std::string& temporary) {
    io::OutputFile(temporary, io::OutputFile::Use::make, p.path)
        .close();  // libvips does not say why it could not
    p.encode(temporary);
  });
  ::unlink(p.raw_path.c_str());
}

}  // namespace tessera
