// SPDX-License-Identifier: BSD-3-Clause
// MRC maps and stacks of electron microscopy. Source: MRC2014 (Cheng et al., J. Struct. Biol. 192, 2015); IMOD's notes.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <memory>

#include "formats.hpp"
#include "grids/raw_grid.hpp"
#include "places.hpp"
#include "spooled_sink.hpp"
#include "stored_image.hpp"
#include "tessera/core/error.hpp"
#include "tessera/core/phase.hpp"
#include "tessera/io/files.hpp"

namespace tessera::io {
namespace {

constexpr std::int64_t kMrcHeader = 1024, kMostExtended = 1LL << 31;
constexpr std::size_t kLabel = 80, kMostLabels = 10;
constexpr std::int32_t kImod = 1146047817;  // where IMOD says whether bytes have a sign
constexpr double kAngstrom = 1e-10;

class Mrc {
 public:
  Mrc(const std::string& path, const std::string& part)
      : path_(path), bytes_(std::make_unique<GridBytes>(path)) {
    TESSERA_VALIDATE(bytes_->size() >= kMrcHeader, "cannot read ", path, " (it has ", bytes_->size(),
                     " bytes, the header of MRC has ", kMrcHeader, ") is it complete?");
    bytes_->read(0, kMrcHeader, raw_.data());
    read_order();
    const HeaderBytes h(raw_.data(), swapped_);
    read_type(h);
    read_axes(h, part);
    describe(h);
  }

  std::unique_ptr<ImageSource> source() {
    return raw_grid_source(std::move(bytes_), grid_, std::move(about_), std::move(metadata_));
  }

 private:
  [[noreturn]] void refuse(const std::string& problem, const std::string& why,
                           const std::string& what) const {
    throw InputError(concat("cannot read ", path_, ": ", problem, " (", why, ") ", what));
  }

  // By the stamp, of old files by what makes sense.
  void read_order() {
    const auto sense = [&](bool swapped) {
      const HeaderBytes h(raw_.data(), swapped);
      const auto mode = h.at<std::int32_t>(12), columns = h.at<std::int32_t>(64);
      return mode >= 0 && mode < 1024 && columns >= 0 && columns <= 3 && h.at<std::int32_t>(0) > 0;
    };
    const bool big = raw_[212] == 0x11, little = raw_[212] == 0x44;
    swapped_ = big || (!little && !sense(false) && sense(true));
    if (!sense(swapped_)) swapped_ = !swapped_;
    if (!sense(swapped_))
      refuse("its header makes no sense", "neither in one order of bytes nor in the other", "is it MRC?");
  }

  void read_type(const HeaderBytes& h) {
    struct Mode {
      int mode;
      const char* type;
      int bytes;
    };
    static constexpr Mode kModes[] = {
        {0, "int8", 1}, {1, "int16", 2}, {2, "float32", 4}, {6, "uint16", 2}, {12, "float16", 2}};
    const auto mode = h.at<std::int32_t>(12);
    for (const Mode& known : kModes) {
      if (known.mode != mode) continue;
      grid_.type = known.type;
      grid_.element = known.bytes;
    }
    if (grid_.type.empty()) refuse(concat("its mode is ", mode), "0, 1, 2, 6 and 12 are read", "convert it");
    if (mode == 0 && h.at<std::int32_t>(152) == kImod && (h.at<std::int32_t>(156) & 1) == 0)
      grid_.type = "uint8";
    grid_.swapped = swapped_ && grid_.element > 1;
    const auto extended = static_cast<std::int64_t>(h.at<std::int32_t>(92));
    if (extended < 0 || extended > kMostExtended)
      refuse(concat("its extended header has ", extended, " bytes"), "0 or more are needed",
             "is it complete?");
    grid_.offset = kMrcHeader + extended;
  }

  // Columns, rows and sections of the file are x, y and z as MAPC, MAPR and MAPS say.
  void read_axes(const HeaderBytes& h, const std::string& part) {
    std::array<std::int64_t, 3> n{};
    std::array<int, 3> map{};
    for (std::size_t k = 0; k < 3; ++k) {
      n[k] = h.at<std::int32_t>(4 * k);
      map[k] = h.at<std::int32_t>(64 + 4 * k);
    }
    if (std::any_of(n.begin(), n.end(), [](std::int64_t v) { return v < 1; }))
      refuse(concat("it has ", n[0], " columns, ", n[1], " rows and ", n[2], " sections"),
             "1 or more are needed", "is it MRC?");
    if (map == std::array<int, 3>{0, 0, 0}) map = {1, 2, 3};
    std::array<int, 3> sorted = map;
    std::sort(sorted.begin(), sorted.end());
    if (sorted != std::array<int, 3>{1, 2, 3})
      refuse(concat("its axes are ", map[0], ", ", map[1], ", ", map[2]), "1, 2 and 3 are needed, each once",
             "correct MAPC, MAPR and MAPS");
    std::int64_t stride = 1;
    for (std::size_t k = 0; k < 3; ++k) {
      grid_.extent[static_cast<std::size_t>(4 - map[k])] = n[k];
      grid_.stride[static_cast<std::size_t>(4 - map[k])] = stride;
      if (k < 2 && __builtin_mul_overflow(stride, n[k], &stride))
        refuse("it has more than 2^63 samples", "no file holds that", "is it complete?");
    }
    if (map != std::array<int, 3>{1, 2, 3}) about_.note = "its axes are turned, as MAPC, MAPR and MAPS say";
    choose(h, part, n[2], map[2] == 3);
  }

  // A volume, a stack of images (space group 0) or a stack of volumes (401 and so on).
  void choose(const HeaderBytes& h, const std::string& part, std::int64_t sections, bool plain) {
    const auto group = h.at<std::int32_t>(88);
    const auto each = static_cast<std::int64_t>(h.at<std::int32_t>(36));
    const bool volumes = group >= 401 && group <= 630 && each > 0 && sections % each == 0 && sections > each;
    const bool stack = group == 0 && sections > 1;
    const std::vector<std::string> words = words_of_part(part);
    if (words.empty()) {
      if (stack)
        refuse(concat("it is a stack of ", sections, " images"), "its space group is 0; one image is read",
               concat("name one, counted from 0: ", path_, ":/0; ", path_,
                      ":/slices takes them as slices of a volume"));
      if (volumes)
        refuse(concat("it holds ", sections / each, " volumes"), "one is read",
               concat("name one, counted from 0: ", path_, ":/0"));
      return;
    }
    if (words.size() == 1 && words[0] == "slices") return;
    const std::int64_t number = words.size() == 1 ? index_of_word(words[0]) : -1, thick = volumes ? each : 1;
    if (number < 0 || number >= sections / thick || !plain)
      refuse(concat("there is no ", part),
             concat("it has ", sections / thick, volumes ? " volumes" : " sections", ", counted from 0"),
             concat("name one: ", path_, ":/0, or ", path_, ":/slices"));
    grid_.offset += number * thick * grid_.stride[1] * grid_.element;
    grid_.extent[1] = thick;
  }

  void describe(const HeaderBytes& h) {
    for (std::size_t d = 0; d < 3; ++d) {  // x, y, z
      const auto cell = static_cast<double>(h.at<float>(40 + 4 * d));
      const auto count = h.at<std::int32_t>(28 + 4 * d);
      if (!(std::isfinite(cell) && cell > 0 && count > 0)) continue;
      about_.grid[2 - d].spacing = cell / count;
      about_.grid[2 - d].unit = "\u00c5";
    }
    std::vector<double> place;
    for (std::size_t d = 3; d-- > 0;) place.push_back(static_cast<double>(h.at<float>(196 + 4 * d)));
    if (place != std::vector<double>(3, 0) &&
        std::all_of(place.begin(), place.end(), [](double v) { return std::isfinite(v); }))
      metadata_.text.emplace_back(kTranslation, number_text(place));
    const auto labels = static_cast<std::size_t>(
        std::clamp(h.at<std::int32_t>(220), 0, static_cast<std::int32_t>(kMostLabels)));
    for (std::size_t k = 0; k < labels; ++k)
      if (const std::string text = h.text(224 + kLabel * k, kLabel); !text.empty())
        metadata_.text.emplace_back(concat("label ", k), text);
  }

  std::string path_;
  std::unique_ptr<GridBytes> bytes_;
  std::array<std::uint8_t, kMrcHeader> raw_{};
  bool swapped_ = false;
  RawGrid grid_;
  SourceInfo about_;
  Metadata metadata_;
};

class MrcSink final : public SpooledSink {
 public:
  using SpooledSink::SpooledSink;

 private:
  static constexpr std::int64_t kAtOnce = 4 << 20;

  void encode(const std::string& temporary) override {
    OutputFile file(temporary, OutputFile::Use::open, temporary);
    const InputFile raw(raw_path());
    std::vector<std::uint8_t> part;
    double least = HUGE_VAL, most = -HUGE_VAL, sum = 0, squares = 0, count = 0;
    const auto each = [&](auto take) {
      for (std::int64_t at = 0; at < bytes(); at += kAtOnce) {
        beat();
        part.resize(static_cast<std::size_t>(std::min(kAtOnce, bytes() - at)));
        raw.read(at, std::ssize(part), part.data());
        take();
      }
    };
    each([&] {
      for (std::size_t k = 0; k < part.size(); k += static_cast<std::size_t>(sample_bytes())) {
        double v = 0;
        if (sample_bytes() == 2) {
          std::uint16_t whole = 0;
          std::memcpy(&whole, part.data() + k, sizeof whole);
          v = whole;
        } else {
          float real = 0;
          std::memcpy(&real, part.data() + k, sizeof real);
          v = static_cast<double>(real);
        }
        if (!std::isfinite(v)) continue;
        least = std::min(least, v);
        most = std::max(most, v);
        sum += v;
        squares += v * v;
        count += 1;
      }
    });
    const double mean = count > 0 ? sum / count : 0;
    const double deviation = count > 0 ? std::sqrt(std::max(0.0, squares / count - mean * mean)) : -1;
    // 0, -1, -2: not known.
    const std::vector<std::uint8_t> head =
        count > 0 ? header(least, most, mean, deviation) : header(0, -1, -2, -1);
    file.append(head.data(), std::ssize(head));
    each([&] { file.append(part.data(), std::ssize(part)); });
    file.close();
  }

  std::vector<std::uint8_t> header(double least, double most, double mean, double deviation) const {
    const ImageSpace& space = record().space;
    std::vector<std::uint8_t> out(static_cast<std::size_t>(kMrcHeader));
    const auto put = [&](std::size_t at, auto value) { std::memcpy(out.data() + at, &value, sizeof value); };
    PlaceTexts texts = record().metadata.text;
    move_place(texts, space);
    const std::vector<double> place = numbers_of(texts, kTranslation, 3);
    for (std::size_t d = 0; d < 3; ++d) {  // x, y, z
      const ImageSpace::Axis& axis = space.grid[2 - d];
      const auto n = static_cast<std::int32_t>(space.box.extent(2 - d));
      const double unit = meters_of(axis.unit) / kAngstrom;
      put(4 * d, n);
      put(28 + 4 * d, n);
      put(64 + 4 * d, static_cast<std::int32_t>(d + 1));
      put(52 + 4 * d, 90.0F);
      if (axis.spacing > 0 && unit > 0) put(40 + 4 * d, static_cast<float>(axis.spacing * unit * n));
      if (!place.empty() && unit > 0) put(196 + 4 * d, static_cast<float>(place[2 - d] * unit));
    }
    put(12, static_cast<std::int32_t>(record().bits == 16 ? 6 : 2));
    put(76, static_cast<float>(least));
    put(80, static_cast<float>(most));
    put(84, static_cast<float>(mean));
    put(88, static_cast<std::int32_t>(space.box.extent(0) > 1 ? 1 : 0));
    put(108, static_cast<std::int32_t>(20140));
    std::memcpy(out.data() + 208, "MAP DD", 6);
    put(216, static_cast<float>(deviation));
    std::int32_t labels = 0;
    for (const auto& [key, text] : texts)
      if (key.starts_with("label ") && labels < static_cast<std::int32_t>(kMostLabels)) {
        std::memcpy(out.data() + 224 + kLabel * static_cast<std::size_t>(labels), text.data(),
                    std::min(text.size(), kLabel));
        ++labels;
      }
    put(220, labels);
    return out;
  }
};

}  // namespace

ImageFormat mrc_format() {
  ImageFormat f;
  f.name = "MRC";
  f.suffixes = {".mrc", ".mrcs", ".rec", ".st", ".map"};
  f.parts = true;
  f.open = [](const std::string& file, const std::string& part) {
    return Mrc(file, part.empty() ? "" : part.substr(1)).source();
  };
  f.create = [](const std::string& file, const ImageRecord& record, const Communicator&) {
    return std::make_unique<MrcSink>(file, record);
  };
  f.bits = {16, 32};
  f.channels = {1};
  f.volumes = true;
  f.picture = false;
  return f;
}

}  // namespace tessera::io
