// SPDX-License-Identifier: BSD-3-Clause
// Stored pictures as sources: turned as their files say.
#include <algorithm>
#include <charconv>
#include <utility>

#include "formats.hpp"
#include "stored_image.hpp"
#include "tessera/core/error.hpp"
#include "tessera/core/phase.hpp"
#include "tile_pieces.hpp"

namespace tessera::io {
namespace {

// How stored rows and columns become displayed ones: flips first, then the transposition.
struct Turn {
  bool swapped = false, flip_rows = false, flip_columns = false;
};

// EXIF 2.3, tag 274: the side of the displayed picture on which stored row 0 and stored column 0 lie.
Turn turn_of(int o) {
  return {o >= 5, o == 3 || o == 4 || o == 6 || o == 7, o == 2 || o == 3 || o == 7 || o == 8};
}

class DisplayedImage final : public ImageSource {
 public:
  explicit DisplayedImage(std::unique_ptr<StoredImage> image)
      : image_(std::move(image)), turn_(turn_of(image_->info().orientation)) {
    const StoredInfo& stored = image_->info();
    tile_ = {stored.tile[0], stored.tile[1] > 0 ? stored.tile[1] : stored.width};
    Index3 extents{stored.depth, stored.height, stored.width};
    info_.grid = stored.grid;
    if (turn_.swapped) {
      std::swap(extents[1], extents[2]);
      std::swap(tile_[0], tile_[1]);
      std::swap(info_.grid[1].spacing, info_.grid[2].spacing);
      std::swap(info_.grid[1].unit, info_.grid[2].unit);
    }
    info_.box = Box({0, 0, 0}, extents);
    info_.channels = stored.channels;
    info_.axes = stored.depth > 1 ? Axes::volume : Axes::picture;
    info_.channel_names = stored.channel_names;
    info_.orientation = stored.directions;
    info_.type = stored.type;
    info_.full_scale = full_scale(stored.type);
    info_.note = stored.note;
    info_.light = stored.light;
    if (stored.orientation != 1)
      info_.note +=
          concat(stored.note.empty() ? "" : ", ", "EXIF orientation ", stored.orientation, " applied");
  }

  Metadata metadata() override { return image_->metadata(); }
  std::vector<std::pair<std::string, std::string>> about() override {
    const std::string& packed = image_->info().packed;
    return packed.empty() ? std::vector<std::pair<std::string, std::string>>{}
                          : decltype(about()){{"packed", packed}};
  }
  bool random_access() const override { return image_->info().random_access; }

  // From the top: bands of stored rows, which are full columns of a picture that lies on its side.
  std::vector<Box> pieces(const Box& box, std::int64_t bytes) const override {
    if (random_access()) return tile_pieces(box, info_.channels, tile_, bytes);
    const StoredInfo& stored = image_->info();
    const std::int64_t rows = std::max<std::int64_t>(1, bytes / (stored.width * info_.channels * 4));
    std::vector<Box> bands;
    for (std::int64_t z = 0; z < stored.depth; ++z)
      for (std::int64_t r = 0; r < stored.height; r += rows) {
        const Box band = rows_box(r, std::min(rows, stored.height - r), z).intersect(box);
        if (!band.empty()) bands.push_back(band);
      }
    return bands;
  }

  void read(const Box& box, double* planar) override { read_as(box, planar); }
  void read_floats(const Box& box, float* planar) override { read_as(box, planar); }

 private:
  Box rows_box(std::int64_t first, std::int64_t count, std::int64_t slice) const {
    const std::int64_t low = turn_.flip_rows ? image_->info().height - first - count : first;
    return turn_.swapped ? Box({slice, 0, low}, {slice + 1, info_.box.extent(1), low + count})
                         : Box({slice, low, 0}, {slice + 1, low + count, info_.box.extent(2)});
  }

  // Stored rows and columns of a region of the displayed picture.
  Box stored_box(const Box& b) const {
    const std::size_t row_axis = turn_.swapped ? 2 : 1, column_axis = turn_.swapped ? 1 : 2;
    const auto mirror = [](std::int64_t n, std::int64_t& low, std::int64_t& high) {
      const std::int64_t before = low;
      low = n - high;
      high = n - before;
    };
    Index3 lo{b.lo()[0], b.lo()[row_axis], b.lo()[column_axis]};
    Index3 hi{b.hi()[0], b.hi()[row_axis], b.hi()[column_axis]};
    if (turn_.flip_rows) mirror(image_->info().height, lo[1], hi[1]);
    if (turn_.flip_columns) mirror(image_->info().width, lo[2], hi[2]);
    return {lo, hi};
  }

  template <class T>
  void read_as(const Box& region, T* out) {
    if (region.empty()) return;
    TESSERA_EXPECT(info_.box.contains(region), region, " leaves ", info_.box);
    const Box stored = stored_box(region);
    // Steps in `out` of one stored row and one stored column.
    const std::int64_t width = region.extent(2), slice = region.extent(1) * width, plane = region.pixels();
    const std::int64_t row_step = (turn_.swapped ? 1 : width) * (turn_.flip_rows ? -1 : 1);
    const std::int64_t column_step = (turn_.swapped ? width : 1) * (turn_.flip_columns ? -1 : 1);
    T* const corner = out + (turn_.flip_rows ? -row_step * (stored.extent(1) - 1) : 0) +
                      (turn_.flip_columns ? -column_step * (stored.extent(2) - 1) : 0);
    image_->read(stored, [&](std::int64_t channel, const Index3& at, const double* values, std::int64_t n) {
      const Index3 from = at - stored.lo();
      T* to = corner + channel * plane + from[0] * slice + from[1] * row_step + from[2] * column_step;
      for (std::int64_t k = 0; k < n; ++k) to[k * column_step] = static_cast<T>(values[k]);
    });
  }

  std::unique_ptr<StoredImage> image_;
  Turn turn_;
  std::array<std::int64_t, 2> tile_{};  // as displayed
};

}  // namespace

std::unique_ptr<ImageSource> displayed(std::unique_ptr<StoredImage> stored) {
  return std::make_unique<DisplayedImage>(std::move(stored));
}

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

}  // namespace tessera::io
