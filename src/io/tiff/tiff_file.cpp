// SPDX-License-Identifier: BSD-3-Clause
#include "tiff/tiff_file.hpp"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <utility>

#include "tessera/core/error.hpp"
#include "tessera/io/posix_file.hpp"

namespace tessera::io {
namespace {

constexpr std::int64_t kLongest = 10'000'000;           // pixels a side
constexpr std::uint64_t kFar = std::uint64_t{1} << 62;  // no file is so long
constexpr std::int64_t kUnit = std::int64_t{1} << 30;   // bytes of a row or a tile, which is decoded whole

int keep_message(TIFF*, void* to, const char*, const char* format, std::va_list arguments) {
  auto& text = *static_cast<std::string*>(to);
  if (!text.empty()) return 1;  // what follows is a consequence
  char line[512] = {};
  std::vsnprintf(line, sizeof line, format, arguments);
  text = line;
  return 1;  // no other handler
}
int drop_message(TIFF*, void*, const char*, const char*, std::va_list) { return 1; }

template <class T>
T tag(TIFF* tiff, std::uint32_t which, T otherwise) {
  T value = otherwise;
  TIFFGetFieldDefaulted(tiff, which, &value);
  return value;
}

// The count of a tag that libtiff does not know; 0: absent.
std::uint32_t count_of(TIFF* tiff, std::uint32_t which) {
  const TIFFField* const field = TIFFFindField(tiff, which, TIFF_ANY);
  std::uint32_t count = 0;
  const void* values = nullptr;
  return field && TIFFFieldPassCount(field) && TIFFGetField(tiff, which, &count, &values) ? count : 0;
}

// Of pictures whose channels mean something else than light; null for others.
const char* kind_of(const TiffPage& p) {
  switch (p.photometric) {
    case PHOTOMETRIC_SEPARATED:
      return "cmyk";
    case PHOTOMETRIC_CIELAB:
    case PHOTOMETRIC_ICCLAB:
    case PHOTOMETRIC_ITULAB:
      return "lab";
    case PHOTOMETRIC_LOGL:
    case PHOTOMETRIC_LOGLUV:
      return "LogLuv";
    case PHOTOMETRIC_YCBCR:
      return p.compression == COMPRESSION_JPEG ? nullptr : "YCbCr";
    default:
      return nullptr;
  }
}

void require_known(const TiffPage& p, const std::string& path) {
  TESSERA_VALIDATE(p.depth == 1, path, " holds ", p.depth,
                   " slices in one page (ImageDepth, which SGI's volumes have) write a page for each slice");
  const char* const kind = kind_of(p);
  TESSERA_VALIDATE(!kind, path, " is a ", kind ? kind : "",
                   " picture (its channels are neither gray nor RGB) convert it to RGB");
  TESSERA_VALIDATE(p.format != SAMPLEFORMAT_COMPLEXIEEEFP && p.format != SAMPLEFORMAT_COMPLEXINT, path,
                   " holds complex samples (real numbers are read) write their parts as two files");
  const bool real = p.format == SAMPLEFORMAT_IEEEFP, negative = p.format == SAMPLEFORMAT_INT;
  const bool whole_bytes = p.bits == 8 || p.bits == 16 || p.bits == 24 || p.bits == 32 || p.bits == 64;
  TESSERA_VALIDATE(
      real       ? p.bits == 16 || p.bits == 32 || p.bits == 64
      : negative ? whole_bytes
                 : (p.bits >= 1 && p.bits <= 16) || whole_bytes,
      path, " holds ", real ? "floats" : "integers", " of ", p.bits,
      " bits (integers of 1 to 16, 24, 32 and 64 bits, floats of 16, 32 and 64 are read) convert it");
  TESSERA_VALIDATE(TIFFIsCODECConfigured(p.compression), path, " is compressed by a method (TIFF's number ",
                   p.compression, ") that this libtiff does not have; write it with deflate or none");
}

}  // namespace

std::string TiffPage::type() const {
  const int stored = bits <= 8 ? 8 : bits <= 16 ? 16 : bits <= 32 ? 32 : 64;
  return (format == SAMPLEFORMAT_IEEEFP ? "float"
          : format == SAMPLEFORMAT_INT  ? "int"
                                        : "uint") +
         std::to_string(stored);
}

bool TiffPage::like(const TiffPage& o) const {
  return width == o.width && height == o.height && samples == o.samples && bits == o.bits &&
         format == o.format && photometric == o.photometric && orientation == o.orientation &&
         alpha == o.alpha && separate() == o.separate();
}

namespace {

// NewSubfileType, or what it was before.
std::uint32_t kind_here(TIFF* t) {
  std::uint32_t kind = 0;
  std::uint16_t old = 0;
  if (TIFFGetField(t, TIFFTAG_SUBFILETYPE, &kind)) return kind;
  return TIFFGetField(t, TIFFTAG_OSUBFILETYPE, &old) && old == OFILETYPE_REDUCEDIMAGE ? FILETYPE_REDUCEDIMAGE
                                                                                      : 0;
}

std::int64_t not_stored(TIFF* t) {
  std::int64_t n = 0;
  const std::uint32_t all = TIFFIsTiled(t) ? TIFFNumberOfTiles(t) : TIFFNumberOfStrips(t);
  for (std::uint32_t k = 0; k < all; ++k)
    n += TIFFGetStrileOffset(t, k) == 0 && TIFFGetStrileByteCount(t, k) == 0;
  return n;
}

}  // namespace

// The file as libtiff reads it: with a place of its own, so that what is open can be shared.
struct TiffFile::Bytes {
  InputFile file;
  std::int64_t at = 0;
  std::string* problem = nullptr;

  static Bytes& of(thandle_t handle) { return *static_cast<Bytes*>(handle); }
  static tmsize_t read(thandle_t handle, void* to, tmsize_t count) {
    Bytes& b = of(handle);
    try {
      const std::int64_t got = b.file.read_some(b.at, count, to);
      b.at += got;
      return got;
    } catch (const std::exception& e) {
      if (b.problem->empty()) *b.problem = e.what();
      return -1;
    }
  }
  static tmsize_t write(thandle_t, void*, tmsize_t) { return -1; }
  static toff_t seek(thandle_t handle, toff_t offset, int from) {
    Bytes& b = of(handle);
    const auto by = static_cast<std::int64_t>(offset);
    b.at = from == SEEK_SET ? by : by + (from == SEEK_CUR ? b.at : b.file.size());
    return static_cast<toff_t>(b.at);
  }
  static int close(thandle_t) { return 0; }
  static toff_t size(thandle_t handle) { return static_cast<toff_t>(of(handle).file.size()); }
};

TiffFile::~TiffFile() = default;

TiffFile::TiffFile(const std::string& path) : path_(path), bytes_(new Bytes{InputFile(path)}) {
  bytes_->problem = problem_.get();
  const std::unique_ptr<TIFFOpenOptions, void (*)(TIFFOpenOptions*)> options(TIFFOpenOptionsAlloc(),
                                                                             TIFFOpenOptionsFree);
  TIFFOpenOptionsSetErrorHandlerExtR(options.get(), keep_message, problem_.get());
  TIFFOpenOptionsSetWarningHandlerExtR(options.get(), drop_message, nullptr);
  // A header may claim anything; nothing that is read at once is larger than a row, a tile or the file.
  TIFFOpenOptionsSetMaxSingleMemAlloc(options.get(), std::max(2 * kUnit, bytes_->file.size() + kUnit));
  tiff_.reset(TIFFClientOpenExt(path.c_str(), "rm", bytes_.get(), Bytes::read, Bytes::write, Bytes::seek,
                                Bytes::close, Bytes::size, nullptr, nullptr,
                                options.get()));  // m: no mapping
  if (!tiff_) fail();
}

void TiffFile::fail() const {
  throw InputError(concat("cannot read ", path_, " (", problem_->empty() ? "no reason given" : *problem_,
                          ") is the file complete?"));
}

std::string TiffFile::text(std::uint32_t which) const {
  const TIFFField* const field = TIFFFindField(get(), which, TIFF_ASCII);
  if (!field) return "";
  const char* text = nullptr;
  if (!TIFFFieldPassCount(field)) return TIFFGetField(get(), which, &text) && text ? text : "";
  std::uint32_t count = 0;  // of one that libtiff does not know
  if (!TIFFGetField(get(), which, &count, &text) || !text) return "";
  return {text, std::find(text, text + count, '\0')};
}

TiffPage TiffFile::here() const {
  TIFF* const t = get();
  TiffPage p;
  p.at = TIFFCurrentDirOffset(t);
  TIFFGetField(t, TIFFTAG_IMAGEWIDTH, &p.width);
  TIFFGetField(t, TIFFTAG_IMAGELENGTH, &p.height);
  p.samples = tag<std::uint16_t>(t, TIFFTAG_SAMPLESPERPIXEL, 1);
  p.bits = tag<std::uint16_t>(t, TIFFTAG_BITSPERSAMPLE, 1);
  p.format = tag<std::uint16_t>(t, TIFFTAG_SAMPLEFORMAT, SAMPLEFORMAT_UINT);
  p.planes = tag<std::uint16_t>(t, TIFFTAG_PLANARCONFIG, PLANARCONFIG_CONTIG);
  p.compression = tag<std::uint16_t>(t, TIFFTAG_COMPRESSION, COMPRESSION_NONE);
  p.orientation = std::clamp<std::uint16_t>(tag<std::uint16_t>(t, TIFFTAG_ORIENTATION, 1), 1, 8);
  if (!TIFFGetField(t, TIFFTAG_PHOTOMETRIC, &p.photometric))
    p.photometric = p.samples == 3 ? PHOTOMETRIC_RGB : PHOTOMETRIC_MINISBLACK;
  p.depth =
      std::max(tag<std::uint32_t>(t, TIFFTAG_IMAGEDEPTH, 1), tag<std::uint32_t>(t, TIFFTAG_TILEDEPTH, 1));
  p.kind = kind_here(t);
  for (const std::uint32_t stack : {33629U, 33630U})  // MetaMorph's UIC2Tag, UIC3Tag: of each plane one entry
    p.stacked = std::max<std::int64_t>(p.stacked, count_of(t, stack));
  p.empty = not_stored(t);
  p.first_byte = static_cast<std::int64_t>(std::min(TIFFGetStrileOffset(t, 0), kFar));
  std::uint16_t *r = nullptr, *g = nullptr, *b = nullptr;
  if (p.photometric == PHOTOMETRIC_PALETTE && p.samples == 1 && p.bits >= 1 && p.bits <= 16 &&
      TIFFGetField(t, TIFFTAG_COLORMAP, &r, &g, &b))
    p.palette = std::make_shared<const TiffPalette>(read_palette(r, g, b, 1 << p.bits));
  std::uint16_t extras = 0;
  std::uint16_t* kinds = nullptr;
  if (TIFFGetField(t, TIFFTAG_EXTRASAMPLES, &extras, &kinds))
    for (std::uint16_t k = 0; k < extras && extras < p.samples; ++k)
      if (kinds[k] != EXTRASAMPLE_UNSPECIFIED)
        p.alpha.push_back(static_cast<std::uint16_t>(p.samples - extras + k));
  if (TIFFIsTiled(t)) {
    TIFFGetField(t, TIFFTAG_TILEWIDTH, &p.tile_width);
    TIFFGetField(t, TIFFTAG_TILELENGTH, &p.tile_height);
  } else {
    p.rows_per_strip = std::min(tag<std::uint32_t>(t, TIFFTAG_ROWSPERSTRIP, p.height), p.height);
  }
  p.plain = !TIFFIsTiled(t) && p.compression == COMPRESSION_NONE && p.bits % 8 == 0 &&
            tag<std::uint16_t>(t, TIFFTAG_FILLORDER, FILLORDER_MSB2LSB) == FILLORDER_MSB2LSB;
  return p;
}

void TiffFile::require_readable(const TiffPage& p) const {
  TESSERA_VALIDATE(p.width >= 1 && p.height >= 1 && p.samples >= 1 && p.bits >= 1 && p.width <= kLongest &&
                       p.height <= kLongest &&
                       p.height <= static_cast<std::int64_t>(kFar) / p.row_bytes() / p.samples,
                   path_, " has ", p.height, " x ", p.width, " pixels (1 to ", kLongest,
                   " a side are read) is the file complete?");
  require_known(p, path_);
  const std::int64_t tile = std::int64_t{p.tile_width} * p.tile_height * p.samples * p.bits / 8;
  TESSERA_VALIDATE(
      p.row_bytes() <= kUnit && (!p.tiled() || (p.tile_height > 0 && tile >= 0 && tile <= kUnit)), path_,
      " has rows of ", p.row_bytes(), " bytes in tiles of ", p.tile_height, " x ", p.tile_width,
      " (each is decoded whole, 1 GiB at most) write smaller tiles");
}

std::vector<TiffPage> TiffFile::pages() {
  std::vector<TiffPage> out, all;
  bool below = false;  // directories that are not in the chain
  do {
    std::uint16_t inner = 0;
    void* places = nullptr;
    below = below || (TIFFGetField(get(), TIFFTAG_SUBIFD, &inner, &places) == 1 && inner > 0);
    TiffPage page = here();
    if (page.palette && !all.empty() && all.back().palette && *page.palette == *all.back().palette)
      page.palette = all.back().palette;
    all.push_back(std::move(page));
  } while (TIFFReadDirectory(get()));
  if (!problem_->empty()) fail();
  for (const TiffPage& page : all) {
    const bool copy = (page.kind & FILETYPE_REDUCEDIMAGE) != 0, mask = (page.kind & FILETYPE_MASK) != 0;
    copies_ += copy && !mask;
    if (mask && !copy && !out.empty() && page.width == out.back().width && page.height == out.back().height)
      out.back().mask = std::make_shared<const TiffPage>(page);
    if (!copy && !mask) out.push_back(page);
  }
  if (!out.empty()) return out;
  TESSERA_VALIDATE(!below, path(),
                   " has smaller copies of a picture alone in its pages (it is itself in a directory below "
                   "them, as in raw files of cameras) convert it, for example by dcraw -T or tifffile");
  copies_ = 0;
  return all;
}

void TiffFile::go_to(const TiffPage& page) {
  problem_->clear();
  if (TIFFCurrentDirOffset(get()) != page.at && !TIFFSetSubDirectory(get(), page.at)) fail();
  if (page.photometric == PHOTOMETRIC_YCBCR) TIFFSetField(get(), TIFFTAG_JPEGCOLORMODE, JPEGCOLORMODE_RGB);
}

std::string packed_text(const TiffPage& page) {
  static constexpr std::pair<int, const char*> kNames[] = {
      {COMPRESSION_NONE, "not packed"},   {COMPRESSION_LZW, "LZW"},   {COMPRESSION_ADOBE_DEFLATE, "deflate"},
      {COMPRESSION_DEFLATE, "deflate"},   {COMPRESSION_ZSTD, "zstd"}, {COMPRESSION_PACKBITS, "PackBits"},
      {COMPRESSION_JPEG, "JPEG"},         {COMPRESSION_LZMA, "LZMA"}, {COMPRESSION_WEBP, "WebP"},
      {COMPRESSION_CCITTFAX4, "CCITT 4"}, {COMPRESSION_LERC, "LERC"}};
  std::string out = concat("compression ", page.compression);
  for (const auto& [number, name] : kNames)
    if (number == page.compression) out = name;
  return out + (page.tiled() ? concat(", tiles of ", page.tile_height, " x ", page.tile_width)
                             : concat(", strips of ", std::min(page.rows_per_strip, page.height), " rows"));
}

std::vector<std::pair<std::string, std::string>> tiff_pages(const std::string& path) {
  std::vector<std::pair<std::string, std::string>> out;
  const std::vector<TiffPage> pages = TiffFile(path).pages();
  for (std::size_t k = 0; pages.size() > 1 && k < pages.size(); ++k)
    out.emplace_back(concat("/", k),
                     concat(pages[k].height, " x ", pages[k].width, ", ", pages[k].type(),
                            pages[k].samples > 1 ? concat(", ", pages[k].samples, " samples") : ""));
  if (!out.empty()) out.insert(out.begin(), {"/all", concat(out.size(), " pages, as its description says")});
  return out;
}

}  // namespace tessera::io
