// SPDX-License-Identifier: BSD-3-Clause
// PNG and JPEG.
#include <algorithm>
#include <array>
#include <limits>
#include <mutex>
#include <string_view>

#include "formats.hpp"
#include "stored_image.hpp"
#include "stored_light.hpp"
#include "tessera/core/error.hpp"
#include "tessera/io/posix_file.hpp"
#include "vips/vips_sink.hpp"
#include "vips/vips_support.hpp"

namespace tessera::io {

void start_vips() {
  static std::once_flag once;
  std::call_once(once, [] {
    if (VIPS_INIT("tessera")) throw RunError("libvips does not start (" + vips_problem() + ")");
    vips_concurrency_set(1);  // ranks share the cores; every thread would hold buffers of its own
    vips_cache_set_max(0);    // a decoded picture must not outlive its reader
    // Warnings of decoders concern nobody; errors come back as InputError.
    g_log_set_handler(
        "VIPS", static_cast<GLogLevelFlags>(G_LOG_LEVEL_WARNING | G_LOG_LEVEL_INFO),
        [](const gchar*, GLogLevelFlags, const gchar*, gpointer) {}, nullptr);
  });
}

std::string vips_problem() {
  const std::string text = vips_error_buffer();
  vips_error_clear();
  std::string line = text.substr(0, text.find('\n'));
  constexpr std::string_view kSystem = "unix error: ";  // a line of its own: why the system refused
  if (const std::size_t at = text.find(kSystem); at != std::string::npos && at > 0)
    line += ": " + text.substr(at + kSystem.size(), text.find('\n', at) - at - kSystem.size());
  return line.empty() ? "no reason given" : line;
}

namespace {

constexpr std::int64_t kBandBytes = 4 << 20;  // what libvips decodes at once

// The file as libvips reads it: with a place of its own, so that what is open can be shared.
class VipsBytes {
 public:
  explicit VipsBytes(const InputFile& file) : file_(file), source_(vips_source_custom_new()) {
    g_signal_connect(source_.get(), "read",
                     G_CALLBACK(+[](VipsSourceCustom*, void* to, gint64 count, VipsBytes* own) {
                       return own->read(to, count);
                     }),
                     this);
    g_signal_connect(source_.get(), "seek",
                     G_CALLBACK(+[](VipsSourceCustom*, gint64 offset, int from, VipsBytes* own) {
                       return own->seek(offset, from);
                     }),
                     this);
  }
  VipsBytes(const VipsBytes&) = delete;
  VipsBytes& operator=(const VipsBytes&) = delete;

  VipsSource* source() const { return VIPS_SOURCE(source_.get()); }

 private:
  gint64 read(void* to, gint64 count) {
    try {
      const std::int64_t got = file_.read_some(at_, count, to);
      at_ += got;
      return got;
    } catch (const std::exception& e) {
      vips_error("read", "%s", e.what());
      return -1;
    }
  }
  gint64 seek(gint64 offset, int from) {
    at_ = offset + (from == SEEK_SET ? 0 : from == SEEK_CUR ? at_ : file_.size());
    return at_;
  }

  const InputFile& file_;
  std::int64_t at_ = 0;
  std::unique_ptr<VipsSourceCustom, Unref> source_;
};

class VipsPicture : public StoredImage {
  static constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();

 public:
  VipsPicture(const std::string& path, bool png) : path_(path), file_(path), png_(png) {
    start_vips();
    load();
    describe();
  }

  void read(const Box& stored, const Sink& sink) override {
    const Index3 &lo = stored.lo(), &hi = stored.hi();
    if (lo[1] < next_row_) load();
    const std::int64_t bands = vips_image_get_bands(image_.get()), width = stored.extent(2);
    const std::int64_t rows = std::max<std::int64_t>(1, kBandBytes / (width * bands * (deep_ ? 2 : 1)));
    std::vector<double> values(static_cast<std::size_t>(width));
    for (std::int64_t y = lo[1]; y < hi[1]; y += rows) {
      const std::int64_t n = std::min(rows, hi[1] - y);
      const VipsRect rect{static_cast<int>(lo[2]), static_cast<int>(y), static_cast<int>(width),
                          static_cast<int>(n)};
      if (vips_region_prepare(region_.get(), &rect)) fail();
      for (std::int64_t k = 0; k < n; ++k)
        for (std::int64_t c = 0; c < info_.channels; ++c) {
          const void* line = VIPS_REGION_ADDR(region_.get(), rect.left, static_cast<int>(y + k));
          const auto copy = [&](const auto* from) {
            for (std::int64_t x = 0; x < width; ++x)
              values[static_cast<std::size_t>(x)] =
                  holes_ && from[x * bands + bands - 1] == 0 ? kMissing : from[x * bands + c];
          };
          if (deep_)
            copy(static_cast<const std::uint16_t*>(line));
          else
            copy(static_cast<const std::uint8_t*>(line));
          sink(c, {0, y + k, lo[2]}, values.data(), width);
        }
    }
    next_row_ = hi[1];
  }

  Metadata metadata() override {
    Metadata out;
    if (!vips_image_get_typeof(image_.get(), VIPS_META_ICC_NAME)) return out;
    const void* bytes = nullptr;
    std::size_t length = 0;
    if (vips_image_get_blob(image_.get(), VIPS_META_ICC_NAME, &bytes, &length)) fail();
    const auto* first = static_cast<const std::uint8_t*>(bytes);
    out.profile.assign(first, first + length);
    return out;
  }

 private:
  [[noreturn]] void fail() const {
    throw InputError(concat("cannot read ", path_, " (", vips_problem(), ") is the file complete?"));
  }

  void load() {
    region_.reset();
    image_.reset();
    bytes_ = std::make_unique<VipsBytes>(file_);
    next_row_ = 0;
    VipsImage* loaded = nullptr;
    VipsSource* const source = bytes_->source();
    const int code = png_ ? vips_pngload_source(source, &loaded, "access", VIPS_ACCESS_SEQUENTIAL, "fail_on",
                                                VIPS_FAIL_ON_ERROR, "unlimited", TRUE, nullptr)
                          : vips_jpegload_source(source, &loaded, "access", VIPS_ACCESS_SEQUENTIAL, "fail_on",
                                                 VIPS_FAIL_ON_ERROR, nullptr);
    image_.reset(loaded);
    if (code) fail();
    region_.reset(vips_region_new(loaded));
    if (!region_) fail();
  }

  void describe() {
    VipsImage* const image = image_.get();
    TESSERA_VALIDATE(vips_image_get_interpretation(image) != VIPS_INTERPRETATION_CMYK, path_,
                     " is a cmyk picture (its channels are neither gray nor RGB) convert it to RGB");
    const int bands = vips_image_get_bands(image);
    deep_ = vips_image_get_format(image) == VIPS_FORMAT_USHORT;
    TESSERA_VALIDATE(bands >= 1 && bands <= 4 && (deep_ || vips_image_get_format(image) == VIPS_FORMAT_UCHAR),
                     path_, " has ", bands,
                     " channels (gray or RGB of 8 or 16 bits, with or without alpha, is read) convert it");
    info_.channels = bands < 3 ? 1 : 3;
    if (png_) note_expansion();
    if (png_) note_frames();
    describe_light();
    if (bands == 2 || bands == 4) look_for_holes(bands - 1);
    info_.type = deep_ ? "uint16" : "uint8";
    info_.orientation = vips_image_get_orientation(image_.get());
    info_.height = vips_image_get_height(image_.get());
    info_.width = vips_image_get_width(image_.get());
  }

  // Transparent pixels are none of the picture, as corners of one that was turned; where all are, nothing was meant.
  void look_for_holes(int alpha) {
    VipsImage *band = nullptr, *stats = nullptr;
    if (vips_extract_band(image_.get(), &band, alpha, nullptr)) fail();
    const VipsPointer held(band);
    if (vips_stats(band, &stats, nullptr)) fail();
    const VipsPointer all(stats);
    const double least = *VIPS_MATRIX(stats, 0, 0), most = *VIPS_MATRIX(stats, 1, 0);
    load();
    holes_ = least == 0 && most > 0;
    add_note(holes_ ? "alpha channel dropped, transparent pixels are missing" : "alpha channel dropped");
  }

  // PNG (ISO 15948), 11.2.2: bit depth and color type of the header.
  void describe_light() {
    using Says = StoredLight::Says;
    const std::vector<std::uint8_t> profile = metadata().profile;
    const auto tag = [this](const char* name) -> std::string {
      const char* text = nullptr;
      if (!vips_image_get_typeof(image_.get(), name) || vips_image_get_string(image_.get(), name, &text))
        return {};
      return text;
    };
    StoredLight& light = info_.light;
    if (png_) {
      light = png_light(file_, profile);
      if (light.says == Says::nothing)
        add_note("stores light by a curve that is not followed (" + light.by +
                 "): make it linear, or sRGB, first");
    } else if (const std::optional<ToneCurve> curve = profile_curve(profile)) {
      light = {Says::curve, *curve, "ICC profile"};
    } else if (tag("exif-ifd2-ColorSpace").starts_with("1 ")) {
      light = {Says::curve, ToneCurve::srgb(), "EXIF"};
    } else {
      light = {Says::convention, ToneCurve::srgb(), "JPEG"};
    }
    for (const char* name : {"exif-ifd0-Model", "exif-ifd2-ExposureTime", "exif-ifd2-FNumber"})
      light.camera = light.camera || !tag(name).empty();
  }

  // An animated PNG has a chunk of it before its samples; what a reader of pictures gets is the first one.
  void note_frames() {
    const InputFile file(path_);
    std::array<unsigned char, 12> head{};  // length, name and the first word of a chunk
    const auto word = [&](std::size_t at) {
      return std::int64_t{head[at]} << 24 | head[at + 1] << 16 | head[at + 2] << 8 | head[at + 3];
    };
    for (std::int64_t at = 8; at + 12 <= file.size(); at += 12 + word(0)) {
      file.read(at, 12, head.data());
      const std::string_view name(reinterpret_cast<const char*>(head.data()) + 4, 4);
      if (name == "IDAT") return;
      if (name == "acTL" && word(8) > 1) return add_note(concat("the first of ", word(8), " frames is read"));
    }
  }

  void note_expansion() {
    unsigned char head[2] = {8, 0};
    file_.read(24, 2, head);
    if (head[1] == 3)
      add_note("palette expanded to RGB");
    else if (head[0] < 8)
      add_note(concat("samples of ", int{head[0]}, " bits expanded to 8 (times ", 255 / ((1 << head[0]) - 1),
                      ")"));
  }

  std::string path_;
  InputFile file_;
  bool png_ = false, deep_ = false;
  bool holes_ = false;                // of its last band
  std::unique_ptr<VipsBytes> bytes_;  // outlives what reads from it
  VipsPointer image_;
  std::unique_ptr<VipsRegion, Unref> region_;
  std::int64_t next_row_ = 0;  // of the stored picture; above it only a new start can decode
};

ImageFormat row(const char* name, std::string_view magic, bool png) {
  ImageFormat f;
  f.name = name;
  f.knows = [magic](std::string_view head, bool) { return head.starts_with(magic); };
  f.open = [png](const std::string& file, const std::string&) {
    return displayed(std::make_unique<VipsPicture>(file, png));
  };
  f.channels = {1, 3};
  f.library = concat("libvips ", VIPS_VERSION);
  return f;
}

}  // namespace

ImageFormat png_format() {
  ImageFormat f = row("PNG", "\x89PNG", true);
  f.suffixes = {".png"};
  f.create = create_png;
  f.bits = {8, 16};
  f.side = kLongestSide;
  return f;
}

ImageFormat jpeg_format() {
  ImageFormat f = row("JPEG", "\xff\xd8\xff", false);
  f.suffixes = {".jpg", ".jpeg"};
  f.create = create_jpeg;
  f.bits = {8};
  f.side = 65500;  // libjpeg's limit
  return f;
}

}  // namespace tessera::io
