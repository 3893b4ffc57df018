// SPDX-License-Identifier: BSD-3-Clause
#include "zarr/zarr_choice.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <filesystem>

#include "array_axes.hpp"
#include "stored_image.hpp"
#include "tessera/core/error.hpp"
#include "zarr/zarr_plate.hpp"
#include "zarr/zarr_sink.hpp"

namespace tessera::io {
namespace {

using ZarrJson = nlohmann::json;
namespace fs = std::filesystem;

const ZarrJson& at_key(const ZarrJson& object, const char* key) {
  static const ZarrJson none;
  const auto found = object.is_object() ? object.find(key) : object.end();
  return object.is_object() && found != object.end() ? *found : none;
}
std::string word_of(const ZarrJson& value) { return value.is_string() ? value.get<std::string>() : ""; }

// Attributes of OME: of format 3 below the key ome.
const ZarrJson& ome_of(const ZarrNode& node) {
  const ZarrJson& ome = at_key(node.attributes, "ome");
  return ome.is_object() ? ome : node.attributes;
}

// Which of them an axis is: by its type, else its name; axes of space without a known name are x, y, z from the last.
std::vector<ZarrAxis> axes_of(const ZarrJson& list, std::size_t count) {
  std::vector<ZarrAxis> out;
  if (!list.is_array()) {  // before 0.3 all five
    for (const char c : std::string("tczyx").substr(count < 5 ? 5 - count : 0))
      out.push_back({std::string(1, c), c});
    return out;
  }
  for (const ZarrJson& one : list) {
    ZarrAxis axis{one.is_string() ? one.get<std::string>() : word_of(at_key(one, "name"))};
    std::string kind = word_of(at_key(one, "type")), name = axis.name;
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
    axis.unit = short_unit(word_of(at_key(one, "unit")));
    if (kind == "time" || (kind.empty() && name == "t")) axis.letter = 't';
    if (kind == "channel" || (kind.empty() && name == "c")) axis.letter = 'c';
    if ((kind == "space" || kind.empty()) && (name == "z" || name == "y" || name == "x"))
      axis.letter = name[0];
    if (kind == "space" && axis.letter == '?') axis.letter = 's';
    out.push_back(std::move(axis));
  }
  std::string free = "zyx";  // the last is taken first
  for (const ZarrAxis& axis : out) std::erase(free, axis.letter);
  for (auto axis = out.rbegin(); axis != out.rend(); ++axis) {
    if (axis->letter != 's') continue;
    axis->letter = free.empty() ? '?' : free.back();
    if (!free.empty()) free.pop_back();
  }
  return out;
}

std::vector<double> finite_numbers(const ZarrJson& list, std::size_t count) {
  std::vector<double> out;
  if (list.is_array() && list.size() == count)
    for (const ZarrJson& n : list)
      if (n.is_number() && std::isfinite(n.get<double>())) out.push_back(n.get<double>());
  return out.size() == count ? out : std::vector<double>();
}

// Scales and translations in their order, onto what is there.
void transform(const ZarrJson& list, std::vector<ZarrAxis>& axes, bool& placed) {
  if (!list.is_array()) return;
  for (const ZarrJson& one : list) {
    const std::string type = word_of(at_key(one, "type"));
    const std::vector<double> v = finite_numbers(at_key(one, type.c_str()), axes.size());
    for (std::size_t d = 0; d < v.size(); ++d) {
      if (type == "scale") {
        axes[d].scale = (axes[d].scale > 0 ? axes[d].scale : 1) * v[d];
        axes[d].translation *= v[d];
      }
      if (type == "translation") axes[d].translation += v[d];
    }
    placed = placed || (type == "translation" && !v.empty());
  }
}

bool leads_out(const std::string& text) {
  const fs::path path(text);
  return path.is_absolute() ||
         std::any_of(path.begin(), path.end(), [](const fs::path& p) { return p == ".."; });
}

std::vector<std::string> paths_of(const ZarrJson& scales, const std::string& folder) {
  std::vector<std::string> out;
  const ZarrJson& sets = at_key(scales, "datasets");
  if (sets.is_array())
    for (const ZarrJson& one : sets) out.push_back(word_of(at_key(one, "path")));
  for (const std::string& path : out)
    TESSERA_VALIDATE(!path.empty() && !leads_out(path), "cannot read ", folder,
                     ": its multiscales name the dataset '", path,
                     "' (a level is an array below it) write it again");
  TESSERA_VALIDATE(!out.empty(), "cannot read ", folder,
                   ": its multiscales name no dataset (each level is one) write it again");
  return out;
}

std::string joined_words(const std::vector<std::string>& words, std::size_t from, std::size_t count,
                         const char* between = "/") {
  std::string out;
  for (std::size_t k = from; k < std::min(words.size(), from + count); ++k)
    out += (out.empty() ? "" : between) + words[k];
  return out;
}

// What a group holds, to be named.
std::string nodes_in(const std::string& folder) {
  constexpr std::size_t kNamed = 8;
  std::vector<std::string> names;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder, none))
    if (!zarr_mark(entry.path().string()).empty()) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  const std::size_t all = names.size();
  names.resize(std::min(all, kNamed));
  return joined_words(names, 0, kNamed, ", ") + (all > kNamed ? concat(" and ", all - kNamed, " more") : "");
}

class Chooser {
 public:
  Chooser(std::string file, const std::string& part)
      : file_(std::move(file)), part_(part), words_(words_of_part(part)) {
    std::erase(words_, "");
  }

  ZarrChoice choose() {
    ZarrNode node = zarr_node(file_);
    TESSERA_VALIDATE(node.format != 0, "cannot read ", file_,
                     " (the folder has no zarr.json, .zarray or .zgroup) name the folder of a Zarr store");
    if (node.array) {  // perhaps a level, of which the group above says more
      const fs::path path = fs::path(file_).lexically_normal();
      const fs::path self = path.filename().empty() ? path.parent_path() : path;
      const ZarrNode above = zarr_node(self.parent_path().string());
      if (const ZarrJson& list = at_key(ome_of(above), "multiscales"); list.is_array() && !list.empty()) {
        const ZarrJson& scales = list[0];
        const std::vector<std::string> paths = paths_of(scales, above.folder);
        const auto found = std::find(paths.begin(), paths.end(), self.filename().string());
        if (found != paths.end()) return level(above, static_cast<std::size_t>(found - paths.begin()));
      }
    }
    while (!node.array) {
      const ZarrJson& list = at_key(ome_of(node), "multiscales");
      if (list.is_array() && !list.empty() && !is_child(node)) return of_multiscales(node);
      node = child(node);
    }
    return pick({.array = std::move(node)});
  }

 private:
  std::string here() const { return part_.empty() ? file_ : concat(file_, ":", part_); }

  bool is_child(const ZarrNode& node) const {  // labels and what else stands beside the levels
    if (next_ >= words_.size() || leads_out(words_[next_])) return false;
    const std::vector<std::string> paths = paths_of(at_key(ome_of(node), "multiscales")[0], node.folder);
    const bool level = std::any_of(paths.begin(), paths.end(), [&](const std::string& path) {
      return path == words_[next_] || path.starts_with(words_[next_] + "/");
    });
    return !level && !zarr_mark(node.folder + "/" + words_[next_]).empty();
  }

  void refuse_plate(const ZarrNode& node) const {
    const ZarrPlate plate = zarr_plate(node);
    if (!plate.is() || plate.fields.empty()) return;
    const std::string above = joined_words(words_, 0, next_);
    const std::string first = concat("/", above, above.empty() ? "" : "/", plate.fields.front().path);
    throw InputError(concat(here(), " is a ", plate.text(),
                            " (one image is reconstructed at a time) name a field: ", file_, ":", first,
                            "; of all of them `tessera info ", here(),
                            " --table problem.measurements` makes the table of a sweep"));
  }

  ZarrNode child(const ZarrNode& node) {
    std::string name = next_ < words_.size() ? words_[next_++] : "";
    if (name.empty() && !at_key(ome_of(node), "bioformats2raw.layout").is_null()) {
      TESSERA_VALIDATE(zarr_mark(node.folder + "/1").empty(), file_, " holds several images (",
                       nodes_in(node.folder), ") name one: ", file_, ":/0");
      name = "0";
    }
    if (name.empty()) refuse_plate(node);
    const std::string held = nodes_in(node.folder);
    const std::string above = joined_words(words_, 0, next_);
    TESSERA_VALIDATE(!name.empty(), here(), " is a group (", held.empty() ? "it holds nothing" : "it holds ",
                     held, ") name an array or an image of it: ", file_, ":/", above,
                     above.empty() ? "" : "/",
                     held.empty() ? "NAME" : held.substr(0, held.find_first_of(", ")));
    const std::string folder = node.folder + "/" + name;
    TESSERA_VALIDATE(!leads_out(name) && !zarr_mark(folder).empty(), "there is no ", name, " in ",
                     node.folder, " (", held.empty() ? "it holds nothing" : "it holds ", held,
                     ") name one of them");
    return zarr_node(folder);
  }

  ZarrChoice of_multiscales(const ZarrNode& group) {
    const ZarrJson& scales = at_key(ome_of(group), "multiscales")[0];
    const std::vector<std::string> paths = paths_of(scales, group.folder);
    std::size_t which = 0;
    if (next_ < words_.size()) {
      const auto named = std::find_if(paths.begin(), paths.end(), [&](const std::string& path) {
        const auto n = static_cast<std::size_t>(std::count(path.begin(), path.end(), '/')) + 1;
        return joined_words(words_, next_, n) == path;
      });
      const std::int64_t number = index_of_word(words_[next_]);
      if (named != paths.end()) {
        which = static_cast<std::size_t>(named - paths.begin());
        next_ += static_cast<std::size_t>(std::count(named->begin(), named->end(), '/')) + 1;
      } else if (number >= 0) {
        TESSERA_VALIDATE(number < std::ssize(paths), here(), ": there is no level ", number,
                         " (levels are counted from 0; it has ", paths.size(), ": ",
                         joined_words(paths, 0, 8, ", "), ") name one of them");
        which = static_cast<std::size_t>(number);
        ++next_;
      }
    }
    return level(group, which);
  }

  ZarrChoice level(const ZarrNode& group, std::size_t which) {
    const ZarrJson& ome = ome_of(group);
    const ZarrJson& list = at_key(ome, "multiscales");
    const ZarrJson& scales = list[0];
    const std::vector<std::string> paths = paths_of(scales, group.folder);
    const std::string path = paths[which];
    levels_ = joined_words(paths, 0, 8, ", ");
    ZarrChoice out{.array = zarr_node(group.folder + "/" + path)};
    TESSERA_VALIDATE(out.array.array, "cannot read ", group.folder, ": its level ", path,
                     " is no array (its multiscales name it) was the store copied whole?");
    const std::size_t count = at_key(out.array.about, "shape").size();
    out.axes = axes_of(at_key(scales, "axes"), count);
    out.says = "its multiscales";
    TESSERA_VALIDATE(out.axes.size() == count, "cannot read ", group.folder, ": its multiscales name ",
                     out.axes.size(), " axes (the array ", path, " has ", count, ") write it again");
    transform(at_key(at_key(scales, "datasets")[which], "coordinateTransformations"), out.axes, out.placed);
    transform(at_key(scales, "coordinateTransformations"), out.axes, out.placed);
    const ZarrJson& channels = at_key(at_key(ome, "omero"), "channels");
    bool named = false;
    if (channels.is_array())
      for (const ZarrJson& one : channels) {
        out.channel_names.push_back(word_of(at_key(one, "label")));
        named = named || !out.channel_names.back().empty();
      }
    if (!named) out.channel_names.clear();
    out.ours = at_key(group.attributes, kOurs);
    out.finest = which == 0;
    if (list.size() > 1) out.note = concat("the first of ", list.size(), " multiscales is read");
    if (!at_key(ome, "image-label").is_null() || !at_key(group.attributes, "image-label").is_null())
      out.note += concat(out.note.empty() ? "" : ", ", "its values are labels");
    return pick(std::move(out));
  }

  // Words that are left name positions along axes.
  ZarrChoice pick(ZarrChoice choice) {
    const ZarrJson& shape = at_key(choice.array.about, "shape");
    if (choice.axes.empty()) name_plain(choice);
    for (; next_ < words_.size(); ++next_) {
      const std::string& word = words_[next_];
      std::size_t which = choice.axes.size();
      std::int64_t number = -1;
      for (std::size_t d = 0; d < choice.axes.size(); ++d)
        for (const std::string& name : {choice.axes[d].name, std::string(1, choice.axes[d].letter)})
          if (!name.empty() && word.starts_with(name) && index_of_word(word.substr(name.size())) >= 0) {
            which = d;
            number = index_of_word(word.substr(name.size()));
          }
      std::string names;
      for (const ZarrAxis& axis : choice.axes) names += concat(names.empty() ? "" : ", ", axis.name, "0");
      TESSERA_VALIDATE(
          which < choice.axes.size(), here(), ": there is no ", word, " in it (",
          levels_.empty() ? "" : "levels are " + levels_ + "; ",
          names.empty() ? "nothing names its axes" : "positions along its axes are " + names + " and so on",
          ") correct the path");
      const std::int64_t length = shape[which].is_number_integer() ? shape[which].get<std::int64_t>() : 0;
      TESSERA_VALIDATE(number < length, here(), ": there is no ", word, " (the axis ",
                       choice.axes[which].name, " has ", length,
                       " positions, counted from 0) name one of them");
      choice.axes[which].picked = number;
    }
    for (std::size_t d = 0; d < choice.axes.size(); ++d) {
      ZarrAxis& axis = choice.axes[d];
      const bool image = std::string_view("czyx").find(axis.letter) != std::string_view::npos;
      const std::int64_t length = shape[d].is_number_integer() ? shape[d].get<std::int64_t>() : 0;
      if (image || axis.picked >= 0 || axis.letter == '-') continue;
      TESSERA_VALIDATE(length <= 1, here(), " has ", length, " positions along its axis ", axis.name,
                       " (one image is reconstructed) name one, counted from 0: ", file_, ":",
                       part_.empty() ? "" : part_, "/", axis.name.empty() ? "t" : axis.name, "0");
      axis.picked = 0;
    }
    return choice;
  }

  // Names of format 3 and of xarray, where all are known.
  static void name_plain(ZarrChoice& choice) {
    const ZarrMeta meta = zarr_meta(choice.array);
    std::string seen;
    for (const std::string& name : meta.names) {
      std::string lower = name;
      std::transform(lower.begin(), lower.end(), lower.begin(),
                     [](unsigned char c) { return std::tolower(c); });
      const char letter = lower == "time" || lower == "t" ? 't' : '-';
      choice.axes.push_back({name, letter});
    }
  }

  std::string file_, part_, levels_;
  std::vector<std::string> words_;
  std::size_t next_ = 0;
};

struct UnitWord {
  const char *ome, *unit;
};
constexpr std::array<UnitWord, 8> kUnitWords{{{"micrometer", "\u00b5m"},
                                              {"nanometer", "nm"},
                                              {"millimeter", "mm"},
                                              {"centimeter", "cm"},
                                              {"meter", "m"},
                                              {"angstrom", "\u00c5"},
                                              {"inch", "in"},
                                              {"picometer", "pm"}}};

}  // namespace

std::string short_unit(const std::string& ome) {
  for (const UnitWord& one : kUnitWords)
    if (ome == one.ome) return one.unit;
  return ome;
}

std::string ome_unit(const std::string& unit) {
  static constexpr std::pair<const char*, const char*> kOther[] = {
      {"um", "micrometer"}, {"\u03bcm", "micrometer"}, {"micron", "micrometer"}, {"microns", "micrometer"},
      {"A", "angstrom"},    {"inches", "inch"},        {"\u212b", "angstrom"}};
  for (const UnitWord& one : kUnitWords)
    if (unit == one.unit) return one.ome;
  for (const auto& [other, ome] : kOther)
    if (unit == other) return ome;
  return unit;
}

ZarrChoice choose_zarr(const std::string& folder, const std::string& part) {
  return Chooser(folder, part).choose();
}

std::vector<std::pair<std::string, std::string>> list_zarr(const std::string& folder) {
  constexpr std::size_t kMost = 256;
  std::vector<std::pair<std::string, std::string>> out;
  const auto walk = [&](const auto& self, const std::string& below, int deep) -> void {
    const ZarrNode node = zarr_node(folder + below);
    if (node.format == 0 || out.size() >= kMost) return;
    if (node.array) {
      const ZarrMeta meta = zarr_meta(node);
      if (!below.empty()) out.emplace_back(below, concat(shape_text(meta.shape), ", ", meta.type));
      return;
    }
    std::vector<std::string> names;
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(node.folder, none))
      if (entry.is_directory(none)) names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    constexpr int kDeepest = 6;
    for (const std::string& name : names)
      if (deep < kDeepest) self(self, below + "/" + name, deep + 1);
  };
  // Of a plate its fields, each as what is read of it.
  if (const ZarrPlate plate = zarr_plate(zarr_node(folder)); plate.is() && !plate.fields.empty()) {
    for (const PlateField& field : plate.fields) {
      std::string about = concat(plate.plate ? "well " + field.well + ", " : "", "field ", field.field);
      try {
        const ZarrMeta meta = zarr_meta(choose_zarr(folder, "/" + field.path).array);
        about += concat(", ", shape_text(meta.shape), ", ", meta.type);
      } catch (const InputError&) {
        about += ", which cannot be read alone";  // several times, or not whole
      }
      out.emplace_back("/" + field.path, about);
    }
    return out;
  }
  walk(walk, "", 0);
  return out;
}

}  // namespace tessera::io
