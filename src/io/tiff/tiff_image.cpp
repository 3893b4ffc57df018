// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "formats.hpp"
#include "half.hpp"
#include "stored_image.hpp"
#include "stored_light.hpp"
#include "tessera/core/error.hpp"
#include "tessera/io/posix_file.hpp"
#include "tiff/tiff_axes.hpp"
#include "tiff/tiff_choice.hpp"
#include "tiff/tiff_file.hpp"
#include "tiff/tiff_geo.hpp"
#include "tiff/tiff_samples.hpp"
#include "tiff/tiff_sink.hpp"
#include "tiff/tiff_words.hpp"

namespace tessera::io {
namespace {

constexpr std::size_t kMostOpen = 128;         // channels that have a decoder of their own
constexpr std::uint32_t kNoData = 42113;       // GDAL_NODATA
constexpr std::int64_t kReadAtOnce = 4 << 20;  // bytes of rows as they lie in the file

class TiffImage : public StoredImage {
 public:
  TiffImage(const std::string& path, const std::string& part) : bytes_(path) {
    TiffFile file(path);
    pages_ = file.pages();
    if (pages_.size() == 1) file.require_readable(pages_[0]);
    file.go_to(pages_[0]);
    const std::string description = file.text(TIFFTAG_IMAGEDESCRIPTION);
    axes_ = tiff_axes(description, pages_, bytes_.size());
    choice_ = choose_in_tiff(path, part, axes_, pages_);
    page_ = page_of(choice_.slices[0][0].plane);
    check_pages(file);
    file.go_to(page_);
    describe(file, description);
    say_what_is_missing(file);
  }

  // One page alone, whose samples are taken as they are.
  TiffImage(const std::string& path, const TiffPage& page) : bytes_(path), pages_{page}, page_(page) {
    const TiffFile file(path);
    file.require_readable(page);
    axes_.order = {0};
    choice_.slices = {{{0, 0}}};
    unpack_ = {page.bits, page.format, false};
  }

  void read(const Box& stored, const Sink& sink) override {
    for (std::int64_t z = stored.lo()[0]; z < stored.hi()[0]; ++z) {
      const auto& slice = choice_.slices[static_cast<std::size_t>(z)];
      for (std::size_t c = 0, end = 0; c < slice.size(); c = end) {
        // Samples that lie beside each other are decoded together.
        for (end = c + 1; !page_.separate() && end < slice.size() && slice[end].plane == slice[c].plane;)
          ++end;
        const Group group{z, c, end, slice[c].plane, page_.separate() ? slice[c].sample : std::uint16_t{0}};
        const Box plane({z, stored.lo()[1], stored.lo()[2]}, {z + 1, stored.hi()[1], stored.hi()[2]});
        if (c == 0 || slice[c].plane != slice[c - 1].plane) read_mask(page_of(group.plane), plane);
        if (page_of(group.plane).plain)
          read_plain(group, plane, sink);
        else if (page_of(group.plane).tiled())
          read_tiles(group, plane, sink);
        else
          read_rows(group, plane, sink);
      }
    }
  }

  Metadata metadata() override { return metadata_; }

 private:
  struct Group {  // channels [first, end) of a slice, which are samples of one plane
    std::int64_t slice = 0;
    std::size_t first = 0, end = 0;
    std::int64_t plane = 0;
    std::uint16_t sample = 0;  // of separate ones
  };

  // Which samples of the box are measured, where a page of its own says it.
  void read_mask(const TiffPage& page, const Box& plane) {
    masked_.clear();
    if (!page.mask) return;
    auto& reader = masks_[page.mask->at];
    if (!reader) reader = std::make_unique<TiffImage>(bytes_.path(), *page.mask);
    mask_box_ = Box({0, plane.lo()[1], plane.lo()[2]}, {1, plane.hi()[1], plane.hi()[2]});
    masked_.resize(static_cast<std::size_t>(mask_box_.pixels()));
    reader->read(mask_box_, [&](std::int64_t, const Index3& at, const double* values, std::int64_t n) {
      const std::int64_t to = (at[1] - mask_box_.lo()[1]) * mask_box_.extent(2) + at[2] - mask_box_.lo()[2];
      for (std::int64_t k = 0; k < n; ++k) masked_[static_cast<std::size_t>(to + k)] = values[k] == 0;
    });
  }

  const TiffPage& page_of(std::int64_t plane) const {  // of TiffChoice::Plane
    return pages_[axes_.one_directory ? 0 : static_cast<std::size_t>(plane)];
  }

  // One for each channel, so that all go down their rows once.
  TiffFile& decoder(std::size_t channel, const TiffPage& page) {
    auto& one = decoders_[channel % kMostOpen];
    if (!one) one = std::make_unique<TiffFile>(bytes_.path());
    one->go_to(page);
    return *one;
  }

  void check_pages(const TiffFile& file) const {
    const TiffPage& model = pages_[choice_.model];
    file.require_readable(model);
    for (const auto& slice : choice_.slices)
      for (const TiffChoice::Plane& p : slice) {
        const TiffPage& other = page_of(p.plane);
        TESSERA_VALIDATE(other.like(model), file.path(), " has pages that differ (page ", p.plane, " is ",
                         other.samples, " x ", other.height, " x ", other.width, " of ", other.type(),
                         ", the first ", model.samples, " x ", model.height, " x ", model.width, " of ",
                         model.type(), ") name the page to be read, from ", file.path(), ":/0");
        file.require_readable(other);
      }
  }

  void describe(const TiffFile& file, const std::string& description) {
    info_.note = choice_.note;
    info_.depth = static_cast<std::int64_t>(choice_.slices.size());
    info_.channels = choice_.channels();
    info_.type = page_.type();
    info_.height = page_.height;
    info_.width = page_.width;
    info_.orientation = page_.orientation;
    info_.tile = {page_.tiled() ? page_.tile_height : 1, page_.tile_width};
    info_.random_access = true;
    info_.packed = packed_text(page_);
    for (const auto& slice : choice_.slices)
      for (const TiffChoice::Plane& p : slice)
        info_.random_access = info_.random_access && (page_of(p.plane).plain || page_of(p.plane).tiled());
    TiffWords words = tiff_words(file, description);
    take_calibration(words);
    take_words(std::move(words));
    if (axes_.one_directory) {  // a file that was cut short is refused before anything is read
      TESSERA_VALIDATE(
          page_.plain, file.path(), " holds ", axes_.planes,
          " planes behind one directory, compressed (where each begins is not said) write a page "
          "for each, or write it uncompressed");
      TESSERA_VALIDATE((bytes_.size() - page_.first_byte) / page_.bytes() >= axes_.planes, file.path(),
                       " ends at byte ", bytes_.size(), " (its ", axes_.from, " description says ",
                       axes_.planes, " planes of ", page_.bytes(), " bytes) is the file complete?");
    }
    unpack_ = {page_.bits, page_.format, false};
    if (page_.photometric == PHOTOMETRIC_PALETTE)
      take_palette(file.path(), description);
    else
      expand();
    if (page_.photometric == PHOTOMETRIC_MINISWHITE)
      add_note("its tags call the smallest value white: samples are taken as stored, not inverted");
    if (page_.photometric == PHOTOMETRIC_CFA)
      add_note(
          "the mosaic of a color sensor, taken as one channel: neighbors have different colors, which blurs "
          "and "
          "denoises them into each other; demosaic it first");
    if (const std::string text = file.text(kNoData); !text.empty()) {
      char* end = nullptr;
      const double value = std::strtod(text.c_str(), &end);
      if (end != text.c_str() && std::isfinite(value)) {
        const bool real = page_.format == SAMPLEFORMAT_IEEEFP;
        missing_ = real && page_.bits == 16   ? nearest_half(value)
                   : real && page_.bits == 32 ? static_cast<float>(value)
                                              : value;
        add_note(concat("samples of ", value, " (GDAL_NODATA) are missing"));
      }
    }
  }

  void say_what_is_missing(const TiffFile& file) {
    std::int64_t empty = 0, masks = 0, striles = 0;
    std::set<std::int64_t> planes;
    for (const auto& slice : choice_.slices)
      for (const TiffChoice::Plane& p : slice) {
        if (!planes.insert(p.plane).second) continue;
        empty += page_of(p.plane).empty;
        striles += page_of(p.plane).striles();
        masks += page_of(p.plane).mask != nullptr;
      }
    TESSERA_VALIDATE(empty == 0 || empty < striles, file.path(), " has none of its ", striles, ' ',
                     page_.tiled() ? "tiles" : "strips",
                     " (nothing was written to it) is it the right file?");
    if (empty > 0)
      add_note(concat(empty, " of ", striles, page_.tiled() ? " tiles" : " strips",
                      " are not stored: their samples are missing"));
    if (masks > 0) add_note("samples that its mask leaves out are missing");
    if (file.copies() > 0)
      add_note(concat(file.copies(), file.copies() == 1 ? " smaller copy" : " smaller copies",
                      " in the file left out"));
    if (const std::string scale = scale_note(metadata_.text); !scale.empty()) add_note(scale);
  }

  // What the description says of all slices and channels holds where all of them are taken.
  void take_words(TiffWords words) {
    if (info_.depth != axes_.slices || info_.depth == 1) words.grid[0] = ImageSpace().grid[0];
    info_.grid = words.grid;
    if (std::ssize(words.channel_names) == info_.channels)
      info_.channel_names = std::move(words.channel_names);
    metadata_ = std::move(words.metadata);
    if (const std::optional<ToneCurve> curve = profile_curve(metadata_.profile))
      info_.light = {StoredLight::Says::curve, *curve, "ICC profile"};
  }

  // ImageJ keeps numbers below 0 of 16 bits as 32768 more.
  void take_calibration(const TiffWords& words) {
    const bool whole_type = (page_.bits == 8 || page_.bits == 16) && page_.format != SAMPLEFORMAT_IEEEFP;
    if (!whole_type || page_.photometric == PHOTOMETRIC_PALETTE || page_.samples > 1) return;
    if (!words.curved.empty())
      add_note(concat("its calibration by ImageJ is no line (cf=", words.curved, "), and not applied"));
    const auto [offset, scale] = calibration_ = words.calibration;
    if (offset == 0 && scale == 1) return;
    const bool whole = scale == 1 && offset == std::round(offset);
    info_.type = whole && offset == -32768 && page_.bits == 16 ? "int16" : whole ? "int32" : "float32";
    add_note(concat("values are the stored numbers", scale == 1 ? "" : concat(" times ", scale),
                    offset < 0 ? " less " : " plus ", std::abs(offset), ", as ImageJ's calibration says"));
  }

  void expand() {
    if (page_.bits >= 8) return;
    largest_ = (1 << page_.bits) - 1;
    add_note(concat("samples of ", page_.bits, page_.bits == 1 ? " bit" : " bits", " expanded to 8 (times ",
                    255.0 / largest_, ")"));
  }

  // A palette of gray, a smooth ramp, or one beside ImageJ's description shows measured values in colors; what is
  // left is a picture's. Each page has a map of its own.
  void take_palette(const std::string& path, const std::string& description) {
    using Kind = TiffPalette::Kind;
    std::set<Kind> kinds;
    for (const auto& slice : choice_.slices)
      for (const TiffChoice::Plane& p : slice) {
        const TiffPage& page = page_of(p.plane);
        TESSERA_VALIDATE(
            page.palette, path, " is a palette picture of ", page.samples,
            " samples without a color map of its own (no color can be looked up) convert it to RGB");
        kinds.insert(page.palette->kind);
      }
    TESSERA_VALIDATE(
        page_.format == SAMPLEFORMAT_UINT || page_.format == SAMPLEFORMAT_VOID || choice_.colors == false,
        path, " has a palette for samples of ", page_.type(), " (an index counts from 0) write ", path,
        ":/index for the samples as they are");
    colors_ = choice_.colors.value_or(kinds.contains(Kind::picture) && !description.starts_with("ImageJ="));
    if (colors_) {
      add_note("palette expanded to RGB" +
               (choice_.colors ? std::string() : concat(" (", path, ":/index has its indices)")));
      TESSERA_VALIDATE(info_.channels == 1, path, " has ", info_.channels,
                       " channels of palette pictures (they have no order as colors) name one, or write ",
                       path, ":/index");
      info_.channels = 3;
      info_.type = "uint8";
    } else if (!choice_.colors) {
      for (const Kind other : {Kind::picture, Kind::ramp, Kind::gray})
        if (kinds.contains(other))
          return add_note(
              concat("the indices of its palette are taken, not the colors (", path, ":/rgb has those)"));
      expand();
      if (kinds.contains(Kind::falling))
        add_note(concat("its palette falls from white to black: samples are taken as stored, not inverted (",
                        path, ":/rgb has its grays)"));
    }
  }

  // Samples of one row of a group, from the column at.x on; `row` starts with sample `first`.
  void give(const Group& group, const unsigned char* row, std::int64_t first, Index3 at, std::int64_t n,
            const Unpacker& unpack, const Sink& sink) {
    values_.resize(static_cast<std::size_t>(n));
    const auto& slice = choice_.slices[static_cast<std::size_t>(group.slice)];
    for (std::size_t c = group.first; c < group.end; ++c) {
      const std::int64_t step = page_.separate() ? 1 : page_.samples;
      unpack(row, first * step + (page_.separate() ? 0 : slice[c].sample), step, n, values_.data());
      for (double& v : values_) {
        if (missing_ && v == *missing_) v = std::numeric_limits<double>::quiet_NaN();
        if (largest_ > 0) v = v * 255 / largest_;
        v = v * calibration_[1] + calibration_[0];
      }
      if (!masked_.empty()) {
        const std::int64_t from =
            (at[1] - mask_box_.lo()[1]) * mask_box_.extent(2) + at[2] - mask_box_.lo()[2];
        for (std::int64_t k = 0; k < n; ++k)
          if (masked_[static_cast<std::size_t>(from + k)])
            values_[static_cast<std::size_t>(k)] = std::numeric_limits<double>::quiet_NaN();
      }
      if (!colors_) {
        sink(static_cast<std::int64_t>(c), at, values_.data(), n);
        continue;
      }
      const std::vector<std::uint8_t>& palette = page_of(group.plane).palette->colors;
      const std::size_t entries = palette.size() / 3;
      std::vector<double> color(values_.size());
      for (std::size_t k = 0; k < 3; ++k) {
        for (std::size_t x = 0; x < color.size(); ++x)
          color[x] = std::isnan(values_[x])
                         ? values_[x]
                         : palette[k * entries + std::min(static_cast<std::size_t>(values_[x]), entries - 1)];
        sink(static_cast<std::int64_t>(k), at, color.data(), n);
      }
    }
  }

  // A strip or tile that is not stored: its samples are missing. Where every one is, no table is asked.
  bool empty(TIFF* tiff, const TiffPage& page, std::int64_t strile) const {
    const auto k = static_cast<std::uint32_t>(strile);
    return page.empty > 0 && TIFFGetStrileOffset(tiff, k) == 0 && TIFFGetStrileByteCount(tiff, k) == 0;
  }
  void give_none(const Group& group, const Index3& at, std::int64_t n, const Sink& sink) const {
    const std::vector<double> none(static_cast<std::size_t>(n), std::numeric_limits<double>::quiet_NaN());
    for (std::size_t c = group.first; c < group.end; ++c)
      for (std::int64_t k = 0; k < (colors_ ? 3 : 1); ++k)
        sink(colors_ ? k : static_cast<std::int64_t>(c), at, none.data(), n);
  }

  // From where the rows lie in the file, without a decoder.
  void read_plain(const Group& group, const Box& box, const Sink& sink) {
    const TiffPage& page = page_of(group.plane);
    TIFF* const tiff = decoder(group.first, page).get();
    Unpacker unpack = unpack_;
    unpack.swapped = TIFFIsByteSwapped(tiff) != 0;
    const std::int64_t sample = page.bits / 8 * (page.separate() ? 1 : page.samples), n = box.extent(2);
    const std::int64_t strips = (page.height + page.rows_per_strip - 1) / std::int64_t{page.rows_per_strip};
    const std::int64_t behind = axes_.one_directory ? group.plane * page.bytes() : 0;
    const std::int64_t at_once = std::max<std::int64_t>(1, kReadAtOnce / page.row_bytes());
    const bool whole = n == page.width;
    for (std::int64_t y = box.lo()[1]; y < box.hi()[1];) {
      const std::int64_t strip = axes_.one_directory ? 0 : y / page.rows_per_strip,
                         in_strip = axes_.one_directory ? y : y % page.rows_per_strip;
      const std::int64_t left = axes_.one_directory ? page.height - y : page.rows_per_strip - in_strip;
      if (!axes_.one_directory && empty(tiff, page, strip + group.sample * strips)) {
        for (const std::int64_t end = std::min(box.hi()[1], y + left); y < end; ++y)
          give_none(group, {box.lo()[0], y, box.lo()[2]}, n, sink);
        continue;
      }
      const auto start = static_cast<std::int64_t>(
          TIFFGetStrileOffset(tiff, static_cast<std::uint32_t>(strip + group.sample * strips)));
      if (start <= 0) refuse_strip(page);
      const std::int64_t rows = std::min({box.hi()[1] - y, left, whole ? at_once : 1});
      const std::int64_t from =
          start + behind + in_strip * page.row_bytes() + box.lo()[2] * sample +
          (axes_.one_directory && page.separate() ? group.sample * page.row_bytes() * page.height : 0);
      buffer_.resize(static_cast<std::size_t>(rows * n * sample));
      bytes_.read(from, rows * n * sample, buffer_.data());
      for (std::int64_t k = 0; k < rows; ++k, ++y)
        give(group, buffer_.data() + k * n * sample, 0, {box.lo()[0], y, box.lo()[2]}, n, unpack, sink);
    }
  }
  [[noreturn]] void refuse_strip(const TiffPage& page) const {
    throw InputError(concat("cannot read ", bytes_.path(), " (a strip of ", page.rows_per_strip,
                            " rows has no place in it) is the file complete?"));
  }

  void read_rows(const Group& group, const Box& box, const Sink& sink) {
    const TiffPage& page = page_of(group.plane);
    TiffFile& file = decoder(group.first, page);
    buffer_.resize(
        static_cast<std::size_t>(std::max<std::int64_t>(page.row_bytes(), TIFFScanlineSize64(file.get()))));
    const std::int64_t strips =
        page.rows_per_strip > 0 ? (page.height + page.rows_per_strip - 1) / std::int64_t{page.rows_per_strip}
                                : 0;
    for (std::int64_t y = box.lo()[1]; y < box.hi()[1]; ++y) {
      if (page.empty > 0 && empty(file.get(), page, y / page.rows_per_strip + group.sample * strips)) {
        give_none(group, {box.lo()[0], y, box.lo()[2]}, box.extent(2), sink);
        continue;
      }
      if (TIFFReadScanline(file.get(), buffer_.data(), static_cast<std::uint32_t>(y), group.sample) != 1)
        file.fail();
      give(group, buffer_.data(), box.lo()[2], {box.lo()[0], y, box.lo()[2]}, box.extent(2), unpack_, sink);
    }
  }

  void read_tiles(const Group& group, const Box& box, const Sink& sink) {
    const TiffPage& page = page_of(group.plane);
    TiffFile& file = decoder(group.first, page);
    const std::int64_t h = page.tile_height, w = page.tile_width;
    const tmsize_t size = TIFFTileSize(file.get()), row = TIFFTileRowSize(file.get());
    if (size <= 0 || row <= 0) file.fail();
    buffer_.resize(static_cast<std::size_t>(size));
    for (std::int64_t y = box.lo()[1] / h * h; y < box.hi()[1]; y += h)
      for (std::int64_t x = box.lo()[2] / w * w; x < box.hi()[2]; x += w) {
        const std::uint32_t tile = TIFFComputeTile(file.get(), static_cast<std::uint32_t>(x),
                                                   static_cast<std::uint32_t>(y), 0, group.sample);
        const bool none = empty(file.get(), page, tile);
        if (!none && TIFFReadEncodedTile(file.get(), tile, buffer_.data(), size) != size) file.fail();
        const std::int64_t left = std::max(x, box.lo()[2]), right = std::min(x + w, box.hi()[2]);
        for (std::int64_t r = std::max(y, box.lo()[1]); r < std::min(y + h, box.hi()[1]); ++r)
          if (none)
            give_none(group, {box.lo()[0], r, left}, right - left, sink);
          else
            give(group, buffer_.data() + (r - y) * row, left - x, {box.lo()[0], r, left}, right - left,
                 unpack_, sink);
      }
  }

  InputFile bytes_;
  std::vector<TiffPage> pages_;
  TiffAxes axes_;
  TiffChoice choice_;
  TiffPage page_;  // the first that is read; the others are like it
  Unpacker unpack_;
  int largest_ = 0;                          // of samples of few bits, becomes 255; 0: samples are kept
  std::array<double, 2> calibration_{0, 1};  // samples are [0] + [1] times the stored numbers
  std::optional<double> missing_;            // the value of samples without one
  Metadata metadata_;
  bool colors_ = false;  // of a palette: what the samples are indices of
  std::array<std::unique_ptr<TiffFile>, kMostOpen> decoders_;
  std::vector<unsigned char> buffer_;
  std::vector<double> values_;
  std::map<std::uint64_t, std::unique_ptr<TiffImage>> masks_;  // by where their directories stand
  Box mask_box_;                                               // of the plane that is being read
  std::vector<bool> masked_;                                   // its samples; empty: it has no mask
};

}  // namespace

ImageFormat tiff_format() {
  using namespace std::string_view_literals;
  const std::string_view version = TIFFGetVersion();  // "LIBTIFF, Version 4.5.0\n..."
  constexpr std::string_view kBefore = "Version ";
  const std::size_t at = std::min(version.find(kBefore) + kBefore.size(), version.size());
  ImageFormat f;
  f.name = "TIFF";
  f.suffixes = {".tif", ".tiff", ".stk"};
  f.parts = true;
  f.knows = [](std::string_view head, bool) {
    const auto magics = {"II*\0"sv, "MM\0*"sv, "II+\0"sv, "MM\0+"sv};
    return std::any_of(magics.begin(), magics.end(), [&](auto magic) { return head.starts_with(magic); });
  };
  f.open = [](const std::string& file, const std::string& part) {
    return displayed(std::make_unique<TiffImage>(file, part.empty() ? "" : part.substr(1)));
  };
  f.list = tiff_pages;
  f.create = create_tiff;
  f.bits = {8, 16, 32};
  f.side = kLongestSide;
  f.channels = {1, 3};
  f.volumes = true;
  f.library = concat("libtiff ", version.substr(at, version.find('\n', at) - at));
  return f;
}

}  // namespace tessera::io
