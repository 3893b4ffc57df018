// SPDX-License-Identifier: BSD-3-Clause
#include <fitsio.h>

#include <strings.h>
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <string_view>

#include "fits/fits_sink.hpp"
#include "fits/fits_wcs.hpp"
#include "fits/fits_words.hpp"
#include "formats.hpp"
#include "places.hpp"
#include "stored_image.hpp"
#include "tessera/core/error.hpp"
#include "tessera/io/posix_file.hpp"

namespace tessera::io {
namespace {

constexpr std::int64_t kBandBytes = 4 << 20;
constexpr int kMostAxes = 9;                   // that cfitsio reads a part of
constexpr std::size_t kMostListed = 8;         // images that a message names
constexpr std::int64_t kLongest = 10'000'000;  // pixels a side

// An image of the file: the primary array or an extension, compressed by tiles or not.
struct Hdu {
  int number = 0;  // from 0
  std::string name;
  int version = 1;
  std::vector<std::int64_t> axes;  // NAXIS1 (columns), NAXIS2 (rows), ...
  std::string third;               // CTYPE of the one longer axis beyond these
  std::array<std::string, 2> own;  // CTYPE1, CTYPE2
  std::int64_t planes = 1;
  int long_axes = 0;             // beyond rows and columns, of more than one element
  int long_axis = 0;             // the only one of them, counted from 1; 0: none, or several
  int slices = 0, channels = 0;  // the same of two of them, one spectral, the other not

  std::string size() const {
    return concat(planes > 1 ? concat(planes, " x ") : "", axes[1], " x ", axes[0]);
  }
};

// Which image, and which of its planes.
struct Choice {
  enum class Take { nothing, plane, all, slices, channels } take = Take::nothing;
  std::string extension;  // empty: the only one
  std::int64_t plane = 0;
};

class FitsImage : public StoredImage {
 public:
  FitsImage(const std::string& path, const std::string& part) : FitsImage(path) {
    int status = 0;
    const std::vector<Hdu> images = list();
    Choice choice = read_words(part, images);
    const Hdu& image = choose(choice, part, images);
    int kind = 0;
    fits_movabs_hdu(get(), image.number + 1, &kind, &status);
    check(status);
    describe(image, choice);
  }

  /// Images of a file, as ImageFormat::list has them; nothing where there is one.
  static std::vector<std::pair<std::string, std::string>> parts(const std::string& path) {
    std::vector<std::pair<std::string, std::string>> out;
    for (const Hdu& i : FitsImage(path).list())
      out.emplace_back(concat("/", i.number), concat(i.name, i.name.empty() ? "" : ", ", i.size()));
    return out.size() > 1 ? out : decltype(out){};
  }

  Metadata metadata() override {
    Metadata out{.text = fits_text(get())};
    if (!info_.channel_names.empty())
      std::erase_if(out.text, [](const auto& t) { return is_channel_key(t.first); });
    if (!wcs_.empty()) out.text.emplace_back(kWcs, wcs_);
    return out;
  }

  void read(const Box& stored, const Sink& sink) override {
    const Index3 &lo = stored.lo(), &hi = stored.hi();
    const std::int64_t width = stored.extent(2);
    // What is read together: whole rows of tiles where they are small enough.
    const std::int64_t fit = std::max<std::int64_t>(1, kBandBytes / (8 * width));
    const std::int64_t rows = fit >= info_.tile[0] ? fit / info_.tile[0] * info_.tile[0] : fit;
    std::vector<double> values(static_cast<std::size_t>(std::min(rows, stored.extent(1)) * width));
    const double missing = marks_missing_ ? std::numeric_limits<double>::quiet_NaN() : 0;  // 0: as it is
    for (std::int64_t z = lo[0]; z < hi[0]; ++z)
      for (std::int64_t c = 0; c < info_.channels; ++c)
        for (std::int64_t y = lo[1]; y < hi[1];) {
          const std::int64_t end = std::min(hi[1], (y / rows + 1) * rows);
          std::vector<long> first(axes_.size(), 1), last(axes_.size(), 1), step(axes_.size(), 1);
          first[0] = lo[2] + 1;
          last[0] = hi[2];
          first[1] = y + 1;
          last[1] = end;
          std::int64_t plane = first_plane_ + z * planes_apart_[0] + c * planes_apart_[1];
          for (std::size_t k = 2; k < axes_.size(); ++k) {
            first[k] = last[k] = plane % axes_[k] + 1;
            plane /= axes_[k];
          }
          int status = 0, any = 0;
          fits_read_subset_dbl(get(), 1, static_cast<int>(axes_.size()), axes_.data(), first.data(),
                               last.data(), step.data(), missing, values.data(), &any, &status);
          check(status);
          for (const Box& box : unexposed_) {
            const Box out = box.intersect(Box({0, y, lo[2]}, {1, end, hi[2]}));
            for (std::int64_t r = out.lo()[1]; r < out.hi()[1]; ++r)
              std::fill_n(values.begin() + (r - y) * width + out.lo()[2] - lo[2], out.extent(2),
                          std::numeric_limits<double>::quiet_NaN());
          }
          for (std::int64_t k = 0; y < end; ++k, ++y)
            sink(c, {z, y, lo[2]}, values.data() + k * width, width);
        }
  }

 private:
  explicit FitsImage(const std::string& path) : path_(path) {
    int status = 0;
    fitsfile* file = nullptr;
    fits_clear_errmsg();
    fits_open_diskfile(&file, path.c_str(), READONLY, &status);  // no brackets in names
    file_.reset(file);
    check(status);
  }

  struct Close {
    void operator()(fitsfile* file) const {
      int status = 0;
      fits_close_file(file, &status);
    }
  };
  fitsfile* get() const { return file_.get(); }

  void check(int status) const {
    if (status == 0) return;
    char text[FLEN_STATUS] = {}, more[FLEN_ERRMSG] = {};
    fits_get_errstatus(status, text);
    const bool said = fits_read_errmsg(more) != 0;
    fits_clear_errmsg();
    std::string why = more;  // cfitsio's lines may hold a whole path, which is said already
    if (const std::size_t at = why.find(path_); at != std::string::npos) why = "";
    throw InputError(concat("cannot read ", path_, " (", text, said && !why.empty() ? ": " + why : "",
                            ") is the file complete?"));
  }

  std::string text(const char* key) const {
    char value[FLEN_VALUE] = {};
    int status = 0;
    if (fits_read_key(get(), TSTRING, key, value, nullptr, &status)) fits_clear_errmsg();
    return status ? "" : value;
  }

  std::vector<Hdu> list() {
    std::vector<Hdu> images;
    int status = 0, kind = 0;
    for (int n = 0; !fits_movabs_hdu(get(), n + 1, &kind, &status); ++n) {
      if (kind != IMAGE_HDU) continue;  // compressed images are called images too
      int axes = 0;
      fits_get_img_dim(get(), &axes, &status);
      if (status || axes < 2) continue;
      std::vector<LONGLONG> size(static_cast<std::size_t>(axes));
      fits_get_img_sizell(get(), axes, size.data(), &status);
      check(status);
      while (size.size() > kMostAxes && size.back() == 1) size.pop_back();
      TESSERA_VALIDATE(size.size() <= kMostAxes, path_, " has an image of ", size.size(), " axes (",
                       kMostAxes, " at most are read) write it with fewer");
      Hdu hdu;
      hdu.number = n;
      hdu.axes.assign(size.begin(), size.end());
      if (*std::min_element(hdu.axes.begin(), hdu.axes.end()) < 1) continue;
      TESSERA_VALIDATE(hdu.axes[0] <= kLongest && hdu.axes[1] <= kLongest, path_, " has ", hdu.axes[1], " x ",
                       hdu.axes[0], " pixels (", kLongest, " a side are read) is the file complete?");
      for (std::size_t k = 2; k < hdu.axes.size(); ++k) {
        TESSERA_VALIDATE(hdu.axes[k] <= kLongest && hdu.planes <= kLongest / hdu.axes[k], path_,
                         " has more than ", kLongest, " planes (none has so many) is the file complete?");
        hdu.planes *= hdu.axes[k];
        if (hdu.axes[k] == 1) continue;
        const std::string own = text(concat("CTYPE", k + 1).c_str());
        hdu.long_axis = hdu.long_axes == 0 ? static_cast<int>(k) + 1 : 0;
        if (++hdu.long_axes == 1) hdu.third = own;
        (is_spectral(own) ? hdu.channels : hdu.slices) = static_cast<int>(k) + 1;
      }
      if (hdu.long_axes != 2 || hdu.slices == 0) hdu.slices = hdu.channels = 0;
      if (hdu.channels == 0) hdu.slices = 0;
      hdu.own = {text("CTYPE1"), text("CTYPE2")};
      hdu.name = text("EXTNAME");
      int none = 0;
      if (fits_read_key(get(), TINT, "EXTVER", &hdu.version, nullptr, &none)) hdu.version = 1;
      images.push_back(std::move(hdu));
    }
    if (status == END_OF_FILE) status = 0;
    check(status);
    fits_clear_errmsg();
    TESSERA_VALIDATE(!images.empty(), path_,
                     " holds no image (an array of two axes or more) is it the right file?");
    return images;
  }

  // "f.fits:/1 (SCI, 96 x 112), f.fits:/2 ..."
  std::string names(const std::vector<Hdu>& images) const {
    std::string text;
    for (std::size_t k = 0; k < images.size() && k < kMostListed; ++k) {
      const Hdu& i = images[k];
      const bool again =
          std::count_if(images.begin(), images.end(), [&](const Hdu& o) { return o.name == i.name; }) > 1;
      text += concat(k ? ", " : "", path_, ":/", i.number, " (", i.name,
                     again && !i.name.empty() ? concat(',', i.version) : "", i.name.empty() ? "" : ", ",
                     i.size(), ")");
    }
    return text + (images.size() > kMostListed ? ", ..." : "");
  }

  Choice read_words(const std::string& part, const std::vector<Hdu>& images) const {
    Choice out;
    const auto plane = [&](const std::string& word) {
      using Take = Choice::Take;
      out.take = word == "all"        ? Take::all
                 : word == "slices"   ? Take::slices
                 : word == "channels" ? Take::channels
                                      : Take::nothing;
      return out.take != Take::nothing;
    };
    const std::vector<std::string> words = words_of_part(part);
    if (words.empty() || (words.size() == 1 && plane(words[0]))) return out;
    out.extension = words[0];
    if (words.size() == 2 && !plane(words[1]) && index_of_word(words[1]) >= 0) {
      out.take = Choice::Take::plane;
      out.plane = index_of_word(words[1]);
    }
    TESSERA_VALIDATE(
        words.size() == 1 || (words.size() == 2 && out.take != Choice::Take::nothing), "cannot read ", path_,
        ":/", part,
        " (behind an extension stands a plane, counted from 0, or all, slices, channels) write for example ",
        path_, ":/", images[0].number, "/0");
    return out;
  }

  const Hdu& choose(Choice& choice, const std::string& part, const std::vector<Hdu>& images) const {
    const Hdu* found = nullptr;
    if (choice.extension.empty()) {
      TESSERA_VALIDATE(images.size() == 1, path_, " holds ", images.size(),
                       " images (one is read) say which: ", names(images));
      found = &images[0];
    } else {
      const std::int64_t number = index_of_word(choice.extension);
      const std::size_t comma = choice.extension.rfind(',');
      const std::string name = choice.extension.substr(0, comma);
      const std::int64_t version =
          comma == std::string::npos ? -1 : index_of_word(choice.extension.substr(comma + 1));
      int many = 0;
      for (const Hdu& i : images) {
        const bool named = strcasecmp(i.name.c_str(), choice.extension.c_str()) == 0 ||
                           (strcasecmp(i.name.c_str(), name.c_str()) == 0 && version == i.version);
        if (number >= 0 ? i.number != number : !named) continue;
        found = &i;
        ++many;
      }
      TESSERA_VALIDATE(many <= 1, path_, " holds ", many, " images of the name ", choice.extension,
                       " (one is read) say which: ", names(images));
      TESSERA_VALIDATE(found, "cannot read ", path_, ":/", part, " (", choice.extension,
                       " is no image of it; they are counted from 0, the primary one) it has ",
                       names(images));
    }
    using Take = Choice::Take;
    const std::string whole = concat(path_, ":/", found->number);
    if (choice.take == Take::nothing && found->long_axes == 1 && is_color(found->third))
      choice.take = Take::all;
    TESSERA_VALIDATE(found->planes == 1 || choice.take != Take::nothing, whole, " has ", found->planes,
                     " planes", found->third.empty() ? "" : concat(" (", found->third, ")"),
                     " (one picture is read) say which: ", whole, "/0 to ", whole, "/", found->planes - 1,
                     ", or ", whole, "/slices, a volume of them, or ", whole, "/channels, a picture of ",
                     found->planes, " channels");
    TESSERA_VALIDATE(choice.plane < found->planes, "cannot read ", path_, ":/", part, " (it has ",
                     found->planes, found->planes == 1 ? " plane" : " planes",
                     ", counted from 0) name one of them");
    TESSERA_VALIDATE(choice.take != Take::all || found->long_axes <= 1 || found->channels > 0, whole,
                     "/all is an array of ", found->planes, " planes along ", found->long_axes,
                     " axes (a volume has one more than a picture) write ", whole, "/slices, or ", whole,
                     "/0 for one of them");
    require_planes(*found, choice, whole);
    return *found;
  }

  // Many planes are taken: those of a cube whose rows and columns are places, in order.
  void require_planes(const Hdu& h, const Choice& choice, const std::string& whole) const {
    using Take = Choice::Take;
    if (h.planes == 1 || (choice.take != Take::all && choice.take != Take::channels)) return;
    for (std::size_t k = 0; k < 2; ++k)
      TESSERA_VALIDATE(!is_spectral(h.own[k]), whole, ", ", h.size(), ", has ", h.own[k], " along its axis ",
                       k + 1, ", its ", k == 0 ? "columns" : "rows",
                       " (a picture's rows and columns are places, its channels the third axis) turn it: "
                       "numpy.moveaxis(a, ",
                       k == 0 ? -1 : -2, ", 0)");
    if (choice.take != Take::all) return;
    TESSERA_VALIDATE(!is_time(h.third), whole, " has ", h.planes, " planes along ", h.third,
                     " (one image is reconstructed, and frames are no slices) name one, ", whole, "/0 to ",
                     whole, "/", h.planes - 1, ", or write ", whole, "/slices");
    TESSERA_VALIDATE(
        !h.own[0].empty() || !h.third.empty() || !last_may_be_bands({h.planes, h.axes[1], h.axes[0]}), whole,
        " has the shape ", shape_text({h.planes, h.axes[1], h.axes[0]}),
        " and no CTYPE (the planes of a volume stand first, and its last axis may be channels) move its last "
        "axis to the front, numpy.moveaxis(a, -1, 0); if it is a volume, write ",
        whole, "/slices");
  }

  // Coordinates of the pixels that are read.
  void take_coordinates(const Hdu& image, const Choice& choice) {
    const std::vector<std::string> cards = fits_cards(get());
    const bool plane = choice.take == Choice::Take::plane;
    const std::string tables = wcs_tables(cards);
    if (image.planes > 1 && image.long_axis != 3 && image.slices != 3) {
      if (!cards.empty()) add_note("its coordinates do not go along: they are of more than three axes");
      return;
    }
    for (const std::string& card : cards)
      if (is_wcs_key(card_key(card))) wcs_ += (wcs_.empty() ? "" : "\n") + card;
    if (plane) wcs_ = moved_wcs(wcs_, {1, 1, 1}, {0, 0, static_cast<double>(choice.plane)});
    if (!tables.empty())
      add_note(concat("a part of its coordinates stands in tables, which do not go along (", tables, ")"));
  }

  // What capture programs write beside the mosaic of a color sensor.
  void note_mosaic(const Hdu& image) {
    if (image.planes > 1) return;
    for (const char* key : {"BAYERPAT", "COLORTYP", "CFAPAT", "CFATYPE"}) {
      const std::string pattern = text(key);
      const bool letters =
          pattern.size() >= 4 && pattern.find_first_not_of("RGBCMYWErgbcmywe ") == std::string::npos;
      if (letters || (key == std::string_view("BAYERPAT") && pattern.starts_with("TRUE")))
        return add_note(
            concat("the mosaic of a color sensor (", key, " ", pattern,
                   "), taken as one channel: neighbors have different colors, which blurs and denoises "
                   "them into each other; demosaic it first"));
    }
  }

  // The level at which the header says that pixels are full.
  void note_saturation() {
    double level = 0;
    int status = 0;
    if (fits_read_key(get(), TDOUBLE, "SATURATE", &level, nullptr, &status))
      fits_clear_errmsg();
    else if (std::isfinite(level) && level > 0)
      add_note(concat("samples from ", level,
                      " on are saturated, as its header says (SATURATE): 'saturation: ", level,
                      "' in problem leaves them out"));
  }

  void describe(const Hdu& image, const Choice& choice) {
    using Take = Choice::Take;
    int status = 0, type = 0;
    fits_get_img_equivtype(get(), &type, &status);
    const bool tiled = fits_is_compressed_image(get(), &status) != 0;
    check(status);
    axes_.assign(image.axes.begin(), image.axes.end());
    first_plane_ = choice.plane;
    info_.height = image.axes[1];
    info_.width = image.axes[0];
    const bool stokes = is_spectral(image.third), both = choice.take == Take::all && image.channels > 0;
    const bool channels = choice.take == Take::channels || (choice.take == Take::all && stokes);
    if (both) {
      info_.depth = image.axes[static_cast<std::size_t>(image.slices - 1)];
      info_.channels = image.axes[static_cast<std::size_t>(image.channels - 1)];
    } else if (choice.take == Take::all || choice.take == Take::slices || choice.take == Take::channels) {
      (channels ? info_.channels : info_.depth) = image.planes;
    }
    planes_apart_ = both && image.channels > image.slices ? std::array{std::int64_t{1}, info_.depth}
                                                          : std::array{info_.channels, std::int64_t{1}};
    if (info_.channels > 1) info_.channel_names = fits_channel_names(get(), info_.channels);
    if (choice.take == Take::all && !both && stokes && image.planes > 1 && !is_color(image.third))
      add_note(concat(image.planes, " planes of ", image.third, " are taken as channels (", path_, ":/",
                      image.number, "/slices takes them as slices)"));
    note_mosaic(image);
    note_saturation();
    take_coordinates(image, choice);
    FitsSections sections = fits_sections(get(), info_.height, info_.width);
    unexposed_ = std::move(sections.unexposed);
    if (!sections.note.empty()) add_note(sections.note);
    switch (type) {
      case BYTE_IMG:
        info_.type = "uint8";
        break;
      case SBYTE_IMG:
        info_.type = "int8";
        break;
      case SHORT_IMG:
        info_.type = "int16";
        break;
      case USHORT_IMG:
        info_.type = "uint16";
        break;
      case LONG_IMG:
        info_.type = "int32";
        break;
      case ULONG_IMG:
        info_.type = "uint32";
        break;
      case LONGLONG_IMG:
        info_.type = text("BZERO").starts_with("9223372036854775808") ? "uint64" : "int64";
        break;
      case ULONGLONG_IMG:
        info_.type = "uint64";
        break;
      case FLOAT_IMG:
        info_.type = "float32";
        break;
      case DOUBLE_IMG:
        info_.type = "float64";
        break;
      default:
        throw InputError(
            concat(path_, " holds samples of a type (", type, ") that is not known; convert it"));
    }
    // Floats that stand in the file as they are have NaN of their own; cfitsio would take infinity and the
    // smallest numbers for other values on the way.
    int stored = 0;
    fits_get_img_type(get(), &stored, &status);
    marks_missing_ = tiled || stored > 0;
    if (tiled) {
      std::vector<long> tile(axes_.size(), 1);
      fits_get_tile_dim(get(), static_cast<int>(axes_.size()), tile.data(), &status);
      info_.packed = concat("tiles of ", tile[1], " x ", tile[0]);
      if (tile[0] > 0 && tile[1] > 0) info_.tile = {tile[1], tile[0] < info_.width ? tile[0] : 0};
    }
    check(status);
    const FitsWords words = fits_words(get(), {1, 2,
                                               info_.depth <= 1 ? 0
                                               : both           ? image.slices
                                                                : image.long_axis});
    info_.grid = words.grid;
    info_.directions = words.directions;
    unsigned char magic[2] = {};
    InputFile(path_).read(0, 2, magic);
    info_.random_access = magic[0] == 'S';  // else it lies unpacked in the memory of whoever opens it
  }

  std::string path_;
  std::unique_ptr<fitsfile, Close> file_;
  std::vector<long> axes_;  // without those of 1 at the end that are more than cfitsio's subsets have
  std::int64_t first_plane_ = 0;
  std::array<std::int64_t, 2> planes_apart_{1, 1};  // slices and channels that follow each other
  bool marks_missing_ = true;
  std::string wcs_;             // cards
  std::vector<Box> unexposed_;  // within rows and columns
};

}  // namespace

ImageFormat fits_format() {
  float version = 0;
  fits_get_version(&version);
  ImageFormat f;
  f.name = "FITS";
  f.suffixes = {".fits", ".fit", ".fts"};
  f.parts = true;
  f.knows = [](std::string_view head, bool named) {
    const bool packed =
        head.starts_with("\x1f\x8b") || head.starts_with("\x1f\x9d") || head.starts_with("BZh");
    return head.starts_with("SIMPLE  =") || (named && packed);
  };
  f.open = [](const std::string& file, const std::string& part) {
    return displayed(std::make_unique<FitsImage>(file, part.empty() ? "" : part.substr(1)));
  };
  f.list = FitsImage::parts;
  f.create = create_fits;
  f.bits = {8, 16, 32};
  f.volumes = true;
  f.picture = false;
  f.library = concat("cfitsio ", version);
  return f;
}

ImageFormat packed_fits_format() {
  ImageFormat f = fits_format();
  f.name = "packed FITS";
  f.suffixes.clear();
  for (const char* packed : {".fz", ".gz"})  // fpack's and gzip's
    for (const char* plain : {".fits", ".fit", ".fts"}) f.suffixes.push_back(concat(plain, packed));
  f.create = nullptr;
  f.bits.clear();
  return f;
}

}  // namespace tessera::io
