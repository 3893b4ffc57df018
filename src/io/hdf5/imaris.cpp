// SPDX-License-Identifier: BSD-3-Clause
// Imaris' files: a pyramid of levels, in each of which a time point and a channel are a dataset.
// Source: Imaris 5.5 file format, https://imaris.oxinst.com/support/imaris-file-format
#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "hdf5/hdf5_choice.hpp"
#include "places.hpp"
#include "stored_image.hpp"
#include "tessera/core/error.hpp"

namespace tessera::io {
namespace {

// Attributes are lists of single characters; some end in 0.
std::string word_at(const Hdf5File& file, const std::string& object, const char* key) {
  std::string out;
  for (const std::string& letter : file.text_attributes(object, key)) {
    if (letter.empty()) break;
    out += letter;
  }
  out = out.substr(0, out.find('\0'));
  while (!out.empty() && out.back() == ' ') out.pop_back();
  return out;
}

// A number as text, or as one; infinity where there is none.
double real_at(const Hdf5File& file, const std::string& object, const char* key) {
  const std::string text = word_at(file, object, key);
  if (text.empty()) return file.number_attribute(object, key).value_or(HUGE_VAL);
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  return *end == '\0' && std::isfinite(value) ? value : HUGE_VAL;
}

constexpr const char* kLevels = "/DataSet";
constexpr const char* kImaris = "/DataSetInfo/Image";
constexpr const char* kSides[] = {"Z", "Y", "X"};

class Imaris {
 public:
  Imaris(const Hdf5File& file, const std::string& path, const std::string& part)
      : file_(file), path_(path), where_(part.empty() ? path : concat(path, ":", part)) {
    levels_ = count(kLevels, "ResolutionLevel ");
    TESSERA_VALIDATE(levels_ > 0, "cannot read ", path,
                     " (its group DataSet has no ResolutionLevel 0) was it copied whole?");
    read_words(part);
    const std::string group = concat(kLevels, "/ResolutionLevel ", level_);
    times_ = count(group, "TimePoint ");
    choose_time();
    group_ = concat(group, "/TimePoint ", time_);
    channels_ = count(group_, "Channel ");
    TESSERA_VALIDATE(channels_ > 0, "cannot read ", where_, " (", group_,
                     " has no Channel 0) was it copied whole?");
    TESSERA_VALIDATE(channel_ < channels_, where_, ": there is no c", channel_, " (it has ", channels_,
                     channels_ == 1 ? " channel" : " channels", ", counted from 0) name one of them");
  }

  Hdf5Stack stack() {
    Hdf5Stack out;
    for (std::int64_t c = std::max<std::int64_t>(0, channel_); c < (channel_ < 0 ? channels_ : channel_ + 1);
         ++c) {
      out.datasets.push_back(concat(group_, "/Channel ", c, "/Data"));
      out.info.channel_names.push_back(word_at(file_, concat("/DataSetInfo/Channel ", c), "Name"));
    }
    const auto& names = out.info.channel_names;
    if (std::all_of(names.begin(), names.end(), [](const std::string& n) { return n.empty(); }))
      out.info.channel_names.clear();
    for (const std::string& set : out.datasets) take(set, out);
    describe(out);
    out.says = concat("level ", level_, " of ", levels_,
                      times_ > 1 ? concat(", time point ", time_, " of ", times_) : "");
    return out;
  }

 private:
  // Members NAME0, NAME1, ... without a gap.
  std::int64_t count(const std::string& group, const std::string& name) const {
    std::int64_t n = 0;
    while (file_.has(concat(group, "/", name, n))) ++n;
    return n;
  }

  void read_words(std::string part) {
    if (part.starts_with("/DataSet/")) {  // as HDF5 has it
      for (const auto& [name, word] : {std::pair{"/DataSet/ResolutionLevel ", "/"},
                                       {"/TimePoint ", "/t"},
                                       {"/Channel ", "/c"},
                                       {"/Data", ""}})
        if (const std::size_t at = part.find(name); at != std::string::npos)
          part.replace(at, std::string_view(name).size(), word);
    }
    std::vector<std::string> words = words_of_part(part);
    std::erase(words, "");
    for (std::size_t k = 0; k < words.size(); ++k) {
      const std::string& word = words[k];
      const std::int64_t level = k == 0 ? index_of_word(word) : -1, number = index_of_word(word.substr(1));
      std::int64_t* const to = word[0] == 't'   ? &time_
                               : word[0] == 'c' ? &channel_
                               : word[0] == 'z' ? &slice_
                                                : nullptr;
      TESSERA_VALIDATE(level >= 0 || (to && number >= 0), where_, ": there is no ", word,
                       " in it (a level comes first, counted from 0, then positions: 1/t0/c1/z4) correct the "
                       "path");
      (level >= 0 ? level_ : *to) = level >= 0 ? level : number;
    }
    TESSERA_VALIDATE(level_ < levels_, where_, ": there is no level ", level_, " (it has ", levels_,
                     levels_ == 1 ? " level" : " levels", ", counted from 0) name one of them");
  }

  void choose_time() {
    TESSERA_VALIDATE(time_ < std::max<std::int64_t>(1, times_), where_, ": there is no t", time_, " (it has ",
                     times_, times_ == 1 ? " time point" : " time points",
                     ", counted from 0) name one of them");
    TESSERA_VALIDATE(times_ <= 1 || time_ >= 0, where_, " has ", times_,
                     " time points (one image is reconstructed) name one, counted from 0: ", path_, ":/",
                     level_ > 0 ? concat(level_, "/") : "", "t0");
    time_ = std::max<std::int64_t>(0, time_);
  }

  // A dataset, the first of them or one like it, without what fills its last chunks.
  void take(const std::string& set, Hdf5Stack& out) {
    TESSERA_VALIDATE(file_.has(set), "cannot read ", where_, " (there is no ", set, ") was it copied whole?");
    const std::vector<std::int64_t> stored = shape_of(file_, set);
    TESSERA_VALIDATE(stored.size() == 3, "cannot read ", path_, ":", set, " (it has ", stored.size(),
                     " axes of numbers, slices, rows and columns are needed) is it of Imaris?");
    Hdf5Choice one = choose_in(file_, path_, set, {"slices"});
    const std::string group = set.substr(0, set.rfind('/'));
    Index3 size{};
    for (std::size_t d = 0; d < 3; ++d) {
      double n = real_at(file_, group, concat("ImageSize", kSides[d]).c_str());
      if (n == HUGE_VAL && level_ == 0) n = real_at(file_, kImaris, kSides[d]);
      TESSERA_VALIDATE(n != HUGE_VAL, "cannot read ", path_, ":", set, " (nothing says its ImageSize",
                       kSides[d], ", and chunks are filled up) write it again");
      TESSERA_VALIDATE(n >= 1 && n <= static_cast<double>(stored[d]) && n == std::floor(n), "cannot read ",
                       path_, ":", set, " (ImageSize", kSides[d], " is ", n, ", stored are ", stored[d],
                       ") is it complete?");
      size[d] = static_cast<std::int64_t>(n);
    }
    TESSERA_VALIDATE(slice_ < size[0], where_, ": there is no z", slice_, " (it has ", size[0],
                     size[0] == 1 ? " slice" : " slices", ", counted from 0) name one of them");
    size_ = size;
    if (slice_ >= 0) size[0] = 1;
    one.about.axes = {-1, slice_ < 0 ? 0 : -1, 1, 2};
    one.about.channels = 1;
    one.about.box = Box({0, 0, 0}, size);
    out.start = {static_cast<hsize_t>(std::max<std::int64_t>(0, slice_)), 0, 0};
    TESSERA_VALIDATE(
        out.about.shape.empty() || (out.about.box == one.about.box && out.about.type == one.about.type),
        "cannot read ", where_, " (its channels differ: ", out.about.type, ", ", out.about.box, " and ",
        one.about.type, ", ", one.about.box, ") name one: ", path_, ":/c0");
    if (out.about.shape.empty()) out.about = one.about;
  }

  void describe(Hdf5Stack& out) const {
    const std::string unit = word_at(file_, kImaris, "Unit");
    std::vector<double> place;
    for (std::size_t d = 0; d < 3; ++d) {
      const std::string axis = std::to_string(2 - d);
      const double least = real_at(file_, kImaris, ("ExtMin" + axis).c_str()),
                   most = real_at(file_, kImaris, ("ExtMax" + axis).c_str());
      const double step = (most - least) / static_cast<double>(size_[d]);
      if (!(std::isfinite(step) && step > 0)) continue;
      out.info.grid[d].spacing = step;
      out.info.grid[d].unit = unit;
      place.push_back(least +
                      step * (0.5 + static_cast<double>(d == 0 ? std::max<std::int64_t>(0, slice_) : 0)));
    }
    if (place.size() == 3) out.metadata.text.emplace_back(kTranslation, number_text(place));
    for (const char* key : {"Name", "Description", "RecordingDate"})
      if (const std::string text = word_at(file_, kImaris, key); !text.empty())
        out.metadata.text.emplace_back(key, text);
  }

  const Hdf5File& file_;
  std::string path_, where_, group_;
  std::int64_t levels_ = 0, times_ = 0, channels_ = 0, level_ = 0, time_ = -1, channel_ = -1, slice_ = -1;
  Index3 size_{};
};

}  // namespace

std::vector<std::pair<std::string, std::string>> list_imaris(const Hdf5File& file) {
  constexpr std::size_t kMostParts = 256;
  std::vector<std::pair<std::string, std::string>> out;
  const auto group = [](std::int64_t level, std::int64_t time) {
    return concat(kLevels, "/ResolutionLevel ", level, "/TimePoint ", time);
  };
  for (std::int64_t level = 0; file.has(group(level, 0)) && out.size() < kMostParts; ++level)
    for (std::int64_t time = 0; file.has(group(level, time)) && out.size() < kMostParts; ++time) {
      std::int64_t channels = 0;
      while (file.has(concat(group(level, time), "/Channel ", channels))) ++channels;
      const std::string first = group(level, time) + "/Channel 0";
      std::string sides;
      for (const char* side : kSides)
        sides += concat(sides.empty() ? "" : " x ", word_at(file, first, concat("ImageSize", side).c_str()));
      out.emplace_back(concat("/", level, "/t", time),
                       concat(channels, channels == 1 ? " channel, " : " channels, ", sides));
    }
  return out;
}

bool is_imaris(const Hdf5File& file) {
  return file.has("/DataSet/ResolutionLevel 0") && file.has("/DataSetInfo");
}

std::unique_ptr<ImageSource> imaris_source(Hdf5File file, const std::string& path, const std::string& part) {
  Hdf5Stack stack = Imaris(file, path, part).stack();
  return stack_source(std::move(file), path, std::move(stack));
}

}  // namespace tessera::io
