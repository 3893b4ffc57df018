// SPDX-License-Identifier: BSD-3-Clause
#include "tiff/tiff_sink.hpp"

#include <tiffio.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <vector>

#include "spooled_sink.hpp"
#include "tessera/core/phase.hpp"
#include "tessera/io/posix_file.hpp"
#include "tiff/tiff_words.hpp"

namespace tessera::io {
namespace {

constexpr std::int64_t kTile = 256;  // pixels a side
constexpr std::int64_t kClassicBytes =
    3'500'000'000;  // the classic format ends at 4 GiB; deflate may add a little

// The first message, with what the system said: libtiff leaves that out where a write fails.
int keep_message(TIFF*, void* to, const char*, const char* format, std::va_list arguments) {
  auto& text = *static_cast<std::string*>(to);
  if (!text.empty()) return 1;
  const std::string system = errno != 0 ? std::strerror(errno) : "";
  char line[512] = {};
  std::vsnprintf(line, sizeof line, format, arguments);
  text = line;
  if (!system.empty() && text.find(system) == std::string::npos) text += ": " + system;
  return 1;  // no other handler
}
int drop_message(TIFF*, void*, const char*, const char*, std::va_list) { return 1; }

class TiffSink final : public SpooledSink {
 public:
  using SpooledSink::SpooledSink;

 private:
  struct Close {
    void operator()(TIFF* tiff) const { TIFFClose(tiff); }
  };

  void encode(const std::string& temporary) override {
    std::string problem;
    const std::unique_ptr<TIFFOpenOptions, void (*)(TIFFOpenOptions*)> options(TIFFOpenOptionsAlloc(),
                                                                               TIFFOpenOptionsFree);
    TIFFOpenOptionsSetErrorHandlerExtR(options.get(), keep_message, &problem);
    TIFFOpenOptionsSetWarningHandlerExtR(options.get(), drop_message, nullptr);
    errno = 0;
    const std::unique_ptr<TIFF, Close> tiff(
        TIFFOpenExt(temporary.c_str(), bytes() > kClassicBytes ? "w8" : "w", options.get()));
    bool good = tiff != nullptr;
    const InputFile raw(raw_path());
    for (std::int64_t z = 0; good && z < record().space.box.extent(0); ++z) {
      describe(tiff.get(), z == 0);
      good = write_tiles(tiff.get(), raw, z) && TIFFWriteDirectory(tiff.get()) == 1;
    }
    if (!good) fail(problem.empty() ? "no reason given" : problem);
  }

  void describe(TIFF* tiff, bool first) const {
    const ImageSpace& space = record().space;
    const int bits = record().bits;
    TIFFSetField(tiff, TIFFTAG_IMAGEWIDTH, static_cast<std::uint32_t>(space.box.extent(2)));
    TIFFSetField(tiff, TIFFTAG_IMAGELENGTH, static_cast<std::uint32_t>(space.box.extent(1)));
    TIFFSetField(tiff, TIFFTAG_SAMPLESPERPIXEL, static_cast<int>(space.channels));
    TIFFSetField(tiff, TIFFTAG_BITSPERSAMPLE, bits);
    TIFFSetField(tiff, TIFFTAG_SAMPLEFORMAT, bits == 32 ? SAMPLEFORMAT_IEEEFP : SAMPLEFORMAT_UINT);
    TIFFSetField(tiff, TIFFTAG_PHOTOMETRIC, space.channels == 3 ? PHOTOMETRIC_RGB : PHOTOMETRIC_MINISBLACK);
    TIFFSetField(tiff, TIFFTAG_PLANARCONFIG, PLANARCONFIG_CONTIG);
    TIFFSetField(tiff, TIFFTAG_COMPRESSION, COMPRESSION_ADOBE_DEFLATE);
    // Many readers do not know the predictor for floats.
    if (bits < 32) TIFFSetField(tiff, TIFFTAG_PREDICTOR, PREDICTOR_HORIZONTAL);
    TIFFSetField(tiff, TIFFTAG_TILEWIDTH, static_cast<std::uint32_t>(kTile));
    TIFFSetField(tiff, TIFFTAG_TILELENGTH, static_cast<std::uint32_t>(kTile));
    set_tiff_words(tiff, record(), first);
  }

  bool write_tiles(TIFF* tiff, const InputFile& raw, std::int64_t slice) const {
    const std::int64_t height = record().space.box.extent(1), width = record().space.box.extent(2);
    const std::int64_t pixel = record().space.channels * sample_bytes(), line = kTile * pixel;
    std::vector<unsigned char> tile(static_cast<std::size_t>(kTile * line));
    for (std::int64_t y = 0; y < height; y += kTile)
      for (std::int64_t x = 0; x < width; x += kTile) {
        beat();
        std::fill(tile.begin(), tile.end(), 0);
        for (std::int64_t r = 0; r < std::min(kTile, height - y); ++r)
          raw.read((slice * height + y + r) * row_bytes() + x * pixel, std::min(kTile, width - x) * pixel,
                   tile.data() + r * line);
        const std::uint32_t index =
            TIFFComputeTile(tiff, static_cast<std::uint32_t>(x), static_cast<std::uint32_t>(y), 0, 0);
        errno = 0;
        if (TIFFWriteEncodedTile(tiff, index, tile.data(), static_cast<tmsize_t>(tile.size())) < 0)
          return false;
      }
    return true;
  }
};

}  // namespace

std::unique_ptr<ImageSink> create_tiff(const std::string& path, const ImageRecord& record,
                                       const Communicator&) {
  return std::make_unique<TiffSink>(path, record);
}

}  // namespace tessera::io
