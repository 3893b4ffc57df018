// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <cstring>
#include <mutex>
#include <utility>

#include "source.hpp"
#include "tessera/core/error.hpp"
#include "tessera/io/image_file.hpp"
#include "tessera/io/posix_file.hpp"
#include "vips_support.hpp"

namespace tessera {
namespace io {

void start_vips() {
  static std::once_flag once;
  std::call_once(once, [] {
    if (VIPS_INIT("tessera")) throw RunError("libvips does not start (" + vips_problem() + ")");
    vips_concurrency_set(1);  // ranks share the cores; every thread would hold buffers of its own
    vips_cache_set_max(0);    // a decoded picture must not outlive its reader
    // Warnings of decoders (unknown TIFF tags, ...) concern nobody; errors come back as InputError.
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

}  // namespace io

namespace {

constexpr std::int64_t kBandBytes = 4 << 20;  // what libvips decodes at once

// What libvips 8.14 does not say of a page of a TIFF file: whether it is cut into tiles (tag 322, TileWidth),
// and how many bits a sample has (tag 258), of which it reads no more than 32.
// Source: TIFF 6.0, section 2; BigTIFF, https://www.awaresystems.be/imaging/tiff/bigtiff.html
struct TiffPage {
  bool tiled = false;
  std::uint64_t bits = 0;
};
TiffPage tiff_page(const io::InputFile& file, int page) {
  TiffPage out;
  unsigned char head[16] = {};
  file.read(0, std::min<std::int64_t>(file.size(), 16), head);
  const bool little = head[0] == 'I';
  const auto number = [&](const unsigned char* bytes, int width) {
    std::uint64_t value = 0;
    for (int k = 0; k < width; ++k) value = value << 8 | bytes[little ? width - 1 - k : k];
    return value;
  };
  const bool big = number(head + 2, 2) == 43;
  std::uint64_t at = big ? number(head + 8, 8) : number(head + 4, 4);
  const std::int64_t count_bytes = big ? 8 : 2, entry = big ? 20 : 12;
  const auto size = static_cast<std::uint64_t>(file.size());
  unsigned char bytes[20];
  const auto holds = [&](std::uint64_t place, std::int64_t n) {  // where not, libvips says the rest
    return place <= size && size - place >= static_cast<std::uint64_t>(n);
  };
  for (; holds(at, count_bytes); --page) {
    file.read(static_cast<std::int64_t>(at), count_bytes, bytes);
    const std::uint64_t entries = std::min(number(bytes, static_cast<int>(count_bytes)), size);
    const std::uint64_t first = at + static_cast<std::uint64_t>(count_bytes);
    for (std::uint64_t k = 0; page == 0 && k < entries; ++k) {
      const std::uint64_t place = first + k * static_cast<std::uint64_t>(entry);
      if (!holds(place, entry)) return out;
      file.read(static_cast<std::int64_t>(place), entry, bytes);
      if (number(bytes, 2) == 322) out.tiled = true;
      if (number(bytes, 2) != 258) continue;
      const unsigned char* value =
          bytes + (big ? 12 : 8);  // of several channels it lies elsewhere in the file
      const std::uint64_t count = number(bytes + 4, big ? 8 : 4), there = number(value, big ? 8 : 4);
      if (count <= (big ? 4U : 2U))
        out.bits = number(value, 2);
      else if (unsigned char far[2]; holds(there, 2)) {
        file.read(static_cast<std::int64_t>(there), 2, far);
        out.bits = number(far, 2);
      }
    }
    const std::uint64_t next = first + entries * static_cast<std::uint64_t>(entry);
    if (page == 0 || !holds(next, big ? 8 : 4)) return out;
    file.read(static_cast<std::int64_t>(next), big ? 8 : 4, bytes);
    at = number(bytes, big ? 8 : 4);
  }
  return out;
}

// How stored rows and columns become displayed ones: flips first, then the transposition.
struct Turn {
  bool swapped = false, flip_rows = false, flip_columns = false;
};

// EXIF 2.3, tag 274: the side of the displayed picture on which stored row 0 and stored column 0 lie.
Turn turn_of(int o) {
  return {o >= 5, o == 3 || o == 4 || o == 6 || o == 7, o == 2 || o == 3 || o == 7 || o == 8};
}

enum class Format { png, jpeg, tiff, fits };

bool reads_fits() { return vips_type_find("VipsOperation", "fitsload") != 0; }

Format format_of(const std::string& path) {
  const char* loader = vips_foreign_find_load(path.c_str());
  const std::string name = loader ? loader : "";
  if (!loader) vips_error_clear();
  if (name.rfind("VipsForeignLoadPng", 0) == 0) return Format::png;
  if (name.rfind("VipsForeignLoadJpeg", 0) == 0) return Format::jpeg;
  if (name.rfind("VipsForeignLoadTiff", 0) == 0) return Format::tiff;
  if (name.rfind("VipsForeignLoadFits", 0) == 0) return Format::fits;
  TESSERA_VALIDATE(reads_fits() || is_picture(path), "cannot read ", path,
                   " (this libvips was built without cfitsio) install one with it, or convert the file");
  throw InputError(
      concat("cannot read ", path, " (it is neither PNG, JPEG, TIFF nor FITS inside) convert it"));
}

const char* type_name(VipsBandFormat format) {
  switch (format) {
    case VIPS_FORMAT_UCHAR:
      return "uint8";
    case VIPS_FORMAT_CHAR:
      return "int8";
    case VIPS_FORMAT_USHORT:
      return "uint16";
    case VIPS_FORMAT_SHORT:
      return "int16";
    case VIPS_FORMAT_UINT:
      return "uint32";
    case VIPS_FORMAT_INT:
      return "int32";
    case VIPS_FORMAT_FLOAT:
      return "float32";
    case VIPS_FORMAT_DOUBLE:
      return "float64";
    default:
      return nullptr;
  }
}

}  // namespace

struct ImageReader::Impl {
  std::string path;
  std::optional<int> page;
  int pages = 1;  // of the file
  ImageInfo info;
  std::int64_t stored_width = 0;
  VipsBandFormat format = VIPS_FORMAT_UCHAR;
  Turn turn;
  io::VipsPointer image;
  std::unique_ptr<VipsRegion, io::Unref> region;
  std::int64_t next_row = 0;  // of the stored picture; above it only a new start can decode

  [[noreturn]] void fail() const {
    throw InputError(concat("cannot read ", path, " (", io::vips_problem(), ") ",
                            page ? "pages are counted from 0" : "is the file complete?"));
  }
  void load();
  Box stored_box(const Box& region) const;
};

void ImageReader::Impl::load() {
  region.reset();
  image.reset();
  next_row = 0;
  VipsImage* loaded = nullptr;
  int code = 0;
  // Typed loaders: the generic one takes options from brackets in a file's name.
  const Format kind = format_of(path);
  switch (kind) {
    case Format::png:
      code = vips_pngload(path.c_str(), &loaded, "access", VIPS_ACCESS_SEQUENTIAL, "fail_on",
                          VIPS_FAIL_ON_ERROR, "unlimited", TRUE, nullptr);
      break;
    case Format::jpeg:
      code = vips_jpegload(path.c_str(), &loaded, "access", VIPS_ACCESS_SEQUENTIAL, "fail_on",
                           VIPS_FAIL_ON_ERROR, nullptr);
      break;
    case Format::tiff: {
      const TiffPage about = tiff_page(io::InputFile(path), page.value_or(0));
      TESSERA_VALIDATE(about.bits <= 32, path, " holds samples of ", about.bits,
                       " bits (of TIFF up to 32 are read) write it as float32, .npy or HDF5");
      info.random_access = about.tiled;
      code = vips_tiffload(path.c_str(), &loaded, "access",
                           info.random_access ? VIPS_ACCESS_RANDOM : VIPS_ACCESS_SEQUENTIAL, "fail_on",
                           VIPS_FAIL_ON_ERROR, "page", page.value_or(0), nullptr);
      break;
    }
    case Format::fits:
      info.random_access = true;
      code = vips_fitsload(path.c_str(), &loaded, "access", VIPS_ACCESS_RANDOM, nullptr);
      break;
  }
  image.reset(loaded);
  if (code) fail();
  pages = vips_image_get_n_pages(loaded);
  TESSERA_VALIDATE(pages == 1 || page, path, " has ", pages, " pages (one image is read) say which: ", path,
                   ":/0 to ", path, ":/", pages - 1, ", or ", path, ":/all, a volume of them");

  const VipsInterpretation meaning = vips_image_get_interpretation(loaded);
  for (const VipsInterpretation known :
       {VIPS_INTERPRETATION_CMYK, VIPS_INTERPRETATION_LAB, VIPS_INTERPRETATION_LABQ, VIPS_INTERPRETATION_LABS,
        VIPS_INTERPRETATION_XYZ, VIPS_INTERPRETATION_YXY, VIPS_INTERPRETATION_LCH, VIPS_INTERPRETATION_HSV})
    TESSERA_VALIDATE(meaning != known, path, " is a ", vips_enum_nick(VIPS_TYPE_INTERPRETATION, meaning),
                     " picture (its channels are neither gray nor RGB) convert it to RGB");
  const int bands = vips_image_get_bands(loaded);
  TESSERA_VALIDATE(bands >= 1 && bands <= 4, path, " has ", bands,
                   " channels (gray or RGB, with or without alpha, is read) write it as HDF5, (C, H, W)");
  info.channels = bands < 3 ? 1 : 3;
  info.had_alpha = bands == 2 || bands == 4;
  if (info.had_alpha) {
    VipsImage* made = nullptr;
    const int result =
        vips_extract_band(image.get(), &made, 0, "n", static_cast<int>(info.channels), nullptr);
    image.reset(made);
    if (result) fail();
  }
  format = vips_image_get_format(image.get());
  TESSERA_VALIDATE(type_name(format), path, " holds samples of type ",
                   vips_enum_nick(VIPS_TYPE_BAND_FORMAT, format), " (real numbers are read) convert it");
  info.type = type_name(format);
  info.full_scale = io::full_scale(info.type);
  info.has_profile = vips_image_get_typeof(image.get(), VIPS_META_ICC_NAME) != 0;
  info.orientation = vips_image_get_orientation(image.get());
  info.stored_rows = vips_image_get_height(image.get());
  stored_width = vips_image_get_width(image.get());

  // libvips turns FITS upside down, for viewers; arrays and kernels beside it count rows as the file does.
  turn = turn_of(kind == Format::fits ? 4 : info.orientation);
  info.height = turn.swapped ? stored_width : info.stored_rows;
  info.width = turn.swapped ? info.stored_rows : stored_width;

  region.reset(vips_region_new(image.get()));
  if (!region) fail();
}

// Stored rows and columns of a region of the displayed picture.
Box ImageReader::Impl::stored_box(const Box& b) const {
  const std::size_t row_axis = turn.swapped ? 2 : 1, column_axis = turn.swapped ? 1 : 2;
  const auto mirror = [](std::int64_t n, std::int64_t& low, std::int64_t& high) {
    const std::int64_t before = low;
    low = n - high;
    high = n - before;
  };
  Index3 lo{0, b.lo()[row_axis], b.lo()[column_axis]}, hi{1, b.hi()[row_axis], b.hi()[column_axis]};
  if (turn.flip_rows) mirror(info.stored_rows, lo[1], hi[1]);
  if (turn.flip_columns) mirror(stored_width, lo[2], hi[2]);
  return {lo, hi};
}

ImageReader::ImageReader(const std::string& path, std::optional<int> page) : impl_(std::make_unique<Impl>()) {
  { const io::InputFile exists(path); }  // its messages name what is wrong with the path
  io::start_vips();
  impl_->path = path;
  impl_->page = page;
  impl_->load();
}
int ImageReader::pages(const std::string& path) { return ImageReader(path, 0).impl_->pages; }
ImageReader::~ImageReader() = default;
ImageReader::ImageReader(ImageReader&&) noexcept = default;
const ImageInfo& ImageReader::info() const { return impl_->info; }

void ImageReader::read(const Box& region, float* out) {
  Impl& p = *impl_;
  if (region.empty()) return;
  TESSERA_EXPECT(Box::image2d(p.info.height, p.info.width).contains(region), region, " leaves ", p.path);
  const Box stored = p.stored_box(region);
  if (!p.info.random_access && stored.lo()[1] < p.next_row) p.load();
  const std::int64_t channels = p.info.channels;
  const auto sample = static_cast<std::int64_t>(vips_format_sizeof(p.format));
  const std::int64_t rows = std::max<std::int64_t>(1, kBandBytes / (stored.extent(2) * channels * sample));
  // Steps in `out` of one stored row and one stored column.
  const std::int64_t width = region.extent(2), plane = region.pixels();
  const std::int64_t row_step = (p.turn.swapped ? 1 : width) * (p.turn.flip_rows ? -1 : 1);
  const std::int64_t column_step = (p.turn.swapped ? width : 1) * (p.turn.flip_columns ? -1 : 1);
  float* corner = out + (p.turn.flip_rows ? -row_step * (stored.extent(1) - 1) : 0) +
                  (p.turn.flip_columns ? -column_step * (stored.extent(2) - 1) : 0);
  for (std::int64_t y = stored.lo()[1]; y < stored.hi()[1]; y += rows) {
    const std::int64_t n = std::min(rows, stored.hi()[1] - y);
    const VipsRect rect{static_cast<int>(stored.lo()[2]), static_cast<int>(y),
                        static_cast<int>(stored.extent(2)), static_cast<int>(n)};
    if (vips_region_prepare(p.region.get(), &rect)) p.fail();
    for (std::int64_t k = 0; k < n; ++k) {
      const void* line = VIPS_REGION_ADDR(p.region.get(), rect.left, static_cast<int>(y + k));
      float* to = corner + (y + k - stored.lo()[1]) * row_step;
      const auto copy = [&](const auto* from) {
        for (std::int64_t x = 0; x < stored.extent(2); ++x)
          for (std::int64_t c = 0; c < channels; ++c)
            to[c * plane + x * column_step] = static_cast<float>(*from++);
      };
      switch (p.format) {
        case VIPS_FORMAT_UCHAR:
          copy(static_cast<const std::uint8_t*>(line));
          break;
        case VIPS_FORMAT_CHAR:
          copy(static_cast<const std::int8_t*>(line));
          break;
        case VIPS_FORMAT_USHORT:
          copy(static_cast<const std::uint16_t*>(line));
          break;
        case VIPS_FORMAT_SHORT:
          copy(static_cast<const std::int16_t*>(line));
          break;
        case VIPS_FORMAT_UINT:
          copy(static_cast<const std::uint32_t*>(line));
          break;
        case VIPS_FORMAT_INT:
          copy(static_cast<const std::int32_t*>(line));
          break;
        case VIPS_FORMAT_DOUBLE:
          copy(static_cast<const double*>(line));
          break;
        default:
          copy(static_cast<const float*>(line));
      }
    }
  }
  p.next_row = stored.hi()[1];
}

std::vector<std::uint8_t> ImageReader::profile() const {
  if (!impl_->info.has_profile) return {};
  const void* bytes = nullptr;
  std::size_t length = 0;
  if (vips_image_get_blob(impl_->image.get(), VIPS_META_ICC_NAME, &bytes, &length)) impl_->fail();
  const auto* first = static_cast<const std::uint8_t*>(bytes);
  return {first, first + length};
}

Box stored_rows_box(const ImageInfo& info, std::int64_t first, std::int64_t count) {
  const Turn turn = turn_of(info.orientation);
  const std::int64_t low = turn.flip_rows ? info.stored_rows - first - count : first;
  return turn.swapped ? Box({0, 0, low}, {1, info.height, low + count})
                      : Box({0, low, 0}, {1, low + count, info.width});
}

std::string image_library() {
  io::start_vips();
  return concat("libvips ", VIPS_VERSION, ", FITS: ", reads_fits() ? "yes" : "no");
}

}  // namespace tessera
