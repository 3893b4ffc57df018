// SPDX-License-Identifier: BSD-3-Clause
#include <fitsio.h>
#include <tiffio.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>
#include <utility>

#include "source.hpp"
#include "stored_image.hpp"
#include "tessera/core/error.hpp"
#include "tessera/io/image_file.hpp"
#include "tessera/io/posix_file.hpp"
#include "vips_support.hpp"

namespace tessera {
namespace io {

std::vector<std::string> words_of_part(const std::string& part) {
  std::vector<std::string> words;
  for (std::size_t at = 0; !part.empty();) {
    const std::size_t end = part.find('/', at);
    words.push_back(part.substr(at, end - at));
    if (end == std::string::npos) break;
    at = end + 1;
  }
  return words;
}

std::int64_t index_of_word(const std::string& word) {
  std::int64_t value = -1;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  return error == std::errc() && end == word.data() + word.size() && value >= 0 ? value : -1;
}

}  // namespace io

namespace {

// How stored rows and columns become displayed ones: flips first, then the transposition.
struct Turn {
  bool swapped = false, flip_rows = false, flip_columns = false;
};

// EXIF 2.3, tag 274: the side of the displayed picture on which stored row 0 and stored column 0 lie.
Turn turn_of(int o) {
  return {o >= 5, o == 3 || o == 4 || o == 6 || o == 7, o == 2 || o == 3 || o == 7 || o == 8};
}

// By the first bytes, whatever the suffix says.
std::unique_ptr<io::StoredImage> open_stored(const std::string& path, const std::string& part) {
  std::string head(10, '\0');
  {
    const io::InputFile file(path);  // its messages name what is wrong with the path
    file.read(0, std::min<std::int64_t>(file.size(), 10), head.data());
  }
  const auto starts = [&](std::string_view magic) { return head.compare(0, magic.size(), magic) == 0; };
  const ImageFormat* const named = find_format(path);
  const bool packed_fits =
      named && named->name == "FITS" && (starts("\x1f\x8b") || starts("\x1f\x9d") || starts("BZh"));
  if (starts("SIMPLE  =") || packed_fits) return io::open_fits(path, part);
  using namespace std::string_view_literals;
  for (const std::string_view magic : {"II*\0"sv, "MM\0*"sv, "II+\0"sv, "MM\0+"sv})
    if (starts(magic)) return io::open_tiff(path, part);
  const bool png = starts("\x89PNG"), jpeg = starts("\xff\xd8\xff");
  TESSERA_VALIDATE(png || jpeg, "cannot read ", path,
                   " (it is neither PNG, JPEG, TIFF nor FITS inside) convert it");
  TESSERA_VALIDATE(part.empty(), path, " is a ", png ? "PNG" : "JPEG", " file (it has no part ", part,
                   ") name the file alone");
  return png ? io::open_png(path) : io::open_jpeg(path);
}

}  // namespace

struct ImageReader::Impl {
  std::string path;
  std::unique_ptr<io::StoredImage> image;
  ImageInfo info;
  Turn turn;

  Box stored_box(const Box& region) const;
  template <class T>
  void read(const Box& region, T* out);
};

// Stored rows and columns of a region of the displayed picture.
Box ImageReader::Impl::stored_box(const Box& b) const {
  const std::size_t row_axis = turn.swapped ? 2 : 1, column_axis = turn.swapped ? 1 : 2;
  const auto mirror = [](std::int64_t n, std::int64_t& low, std::int64_t& high) {
    const std::int64_t before = low;
    low = n - high;
    high = n - before;
  };
  Index3 lo{b.lo()[0], b.lo()[row_axis], b.lo()[column_axis]};
  Index3 hi{b.hi()[0], b.hi()[row_axis], b.hi()[column_axis]};
  if (turn.flip_rows) mirror(info.stored_rows, lo[1], hi[1]);
  if (turn.flip_columns) mirror(image->info().width, lo[2], hi[2]);
  return {lo, hi};
}

template <class T>
void ImageReader::Impl::read(const Box& region, T* out) {
  if (region.empty()) return;
  TESSERA_EXPECT(Box({0, 0, 0}, {info.depth, info.height, info.width}).contains(region), region, " leaves ",
                 path);
  const Box stored = stored_box(region);
  // Steps in `out` of one stored row and one stored column.
  const std::int64_t width = region.extent(2), slice = region.extent(1) * width, plane = region.pixels();
  const std::int64_t row_step = (turn.swapped ? 1 : width) * (turn.flip_rows ? -1 : 1);
  const std::int64_t column_step = (turn.swapped ? width : 1) * (turn.flip_columns ? -1 : 1);
  T* const corner = out + (turn.flip_rows ? -row_step * (stored.extent(1) - 1) : 0) +
                    (turn.flip_columns ? -column_step * (stored.extent(2) - 1) : 0);
  image->read(stored, [&](std::int64_t channel, const Index3& at, const double* values, std::int64_t count) {
    const Index3 from = at - stored.lo();
    T* to = corner + channel * plane + from[0] * slice + from[1] * row_step + from[2] * column_step;
    for (std::int64_t k = 0; k < count; ++k) to[k * column_step] = static_cast<T>(values[k]);
  });
}

ImageReader::ImageReader(const std::string& path, const std::string& part) : impl_(std::make_unique<Impl>()) {
  Impl& p = *impl_;
  p.path = path;
  p.image = open_stored(path, part);
  const ImageInfo& stored = p.image->info();
  p.info = stored;
  p.info.full_scale = io::full_scale(stored.type);
  p.info.stored_rows = stored.height;
  p.turn = turn_of(stored.orientation);
  if (p.info.tile[1] == 0) p.info.tile[1] = stored.width;
  if (p.turn.swapped) {
    std::swap(p.info.height, p.info.width);
    std::swap(p.info.tile[0], p.info.tile[1]);
  }
  if (stored.orientation != 1)
    p.info.note +=
        concat(stored.note.empty() ? "" : ", ", "EXIF orientation ", stored.orientation, " applied");
}
ImageReader::~ImageReader() = default;
ImageReader::ImageReader(ImageReader&&) noexcept = default;
const ImageInfo& ImageReader::info() const { return impl_->info; }
void ImageReader::read(const Box& region, float* out) { impl_->read(region, out); }
void ImageReader::read(const Box& region, double* out) { impl_->read(region, out); }
std::vector<std::uint8_t> ImageReader::profile() const { return impl_->image->profile(); }

Box stored_rows_box(const ImageInfo& info, std::int64_t first, std::int64_t count, std::int64_t slice) {
  const Turn turn = turn_of(info.orientation);
  const std::int64_t low = turn.flip_rows ? info.stored_rows - first - count : first;
  return turn.swapped ? Box({slice, 0, low}, {slice + 1, info.height, low + count})
                      : Box({slice, low, 0}, {slice + 1, low + count, info.width});
}

std::vector<Box> reading_pieces(const Box& region, const ImageInfo& info, std::int64_t bytes) {
  std::vector<Box> pieces;
  if (region.empty()) return pieces;
  const std::int64_t sample = 4 * info.channels, tile_rows = info.tile[0];
  const std::int64_t tile_columns = info.tile[1] > 0 ? info.tile[1] : info.width;
  const std::int64_t across = std::max<std::int64_t>(1, bytes / (tile_rows * tile_columns * sample));
  const std::int64_t columns =
      std::min(across * tile_columns, (region.hi()[2] / tile_columns + 1) * tile_columns);
  const std::int64_t wide = std::min(columns, region.extent(2));
  const std::int64_t rows = std::max<std::int64_t>(1, bytes / (wide * sample * tile_rows)) * tile_rows;
  for (std::int64_t z = region.lo()[0]; z < region.hi()[0]; ++z)
    for (std::int64_t y = region.lo()[1] / rows * rows; y < region.hi()[1]; y += rows)
      for (std::int64_t x = region.lo()[2] / columns * columns; x < region.hi()[2]; x += columns)
        pieces.push_back(region.intersect(Box({z, y, x}, {z + 1, y + rows, x + columns})));
  return pieces;
}

std::string image_library() {
  io::start_vips();
  const std::string_view tiff = TIFFGetVersion();  // "LIBTIFF, Version 4.5.0\n..."
  constexpr std::string_view kBefore = "Version ";
  const std::size_t at = std::min(tiff.find(kBefore) + kBefore.size(), tiff.size());
  float fits = 0;
  fits_get_version(&fits);
  return concat("libvips ", VIPS_VERSION, ", libtiff ", tiff.substr(at, tiff.find('\n', at) - at),
                ", cfitsio ", fits);
}

}  // namespace tessera
