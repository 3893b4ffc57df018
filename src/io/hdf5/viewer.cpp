// SPDX-License-Identifier: BSD-3-Clause
// BigDataViewer: a description in XML, and an HDF5 file with a pyramid per time point and setup.
// Source: Pietzsch et al., Nature Methods 12, 2015; https://imagej.net/plugins/bdv/
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include "formats.hpp"
#include "hdf5/hdf5_choice.hpp"
#include "places.hpp"
#include "stored_image.hpp"
#include "tessera/core/error.hpp"
#include "tessera/io/files.hpp"
#include "tessera/io/posix_file.hpp"
#include "xml_tree.hpp"

namespace tessera::io {
namespace {

namespace fs = std::filesystem;
using Affine = std::array<double, 12>;  // three rows of four: columns, rows, slices and 1 to x, y, z

constexpr std::int64_t kMostXml = 64 << 20;  // bytes

std::vector<double> finite_list(const std::string& text, std::size_t count) {
  std::vector<double> out = numbers_of({{"", text}}, "", count);
  if (!std::all_of(out.begin(), out.end(), [](double v) { return std::isfinite(v); })) out.clear();
  return out;
}

Affine times(const Affine& a, const Affine& b) {
  Affine out{};
  for (std::size_t r = 0; r < 3; ++r)
    for (std::size_t c = 0; c < 4; ++c) {
      for (std::size_t k = 0; k < 3; ++k) out[4 * r + c] += a[4 * r + k] * b[4 * k + c];
      if (c == 3) out[4 * r + 3] += a[4 * r + 3];
    }
  return out;
}

std::string pyramid_name(std::int64_t time, std::int64_t setup, std::int64_t level) {
  return fmt::format("/t{:05d}/s{:02d}/{}/cells", time, setup, level);
}

struct Setup {
  std::int64_t id = 0;
  std::string name, unit;
  std::vector<double> voxel;  // x, y, z; empty: not said
};

class Viewer {
 public:
  explicit Viewer(const std::string& path) : path_(path) {
    TESSERA_VALIDATE(InputFile(path).size() <= kMostXml, "cannot read ", path,
                     " (a description of more than 64 MiB) is it of BigDataViewer?");
    top_ = parse_xml(read_text(path));
    const XmlElement* const sequence = top_.name == "SpimData" ? top_.child("SequenceDescription") : nullptr;
    TESSERA_VALIDATE(sequence, "cannot read ", path,
                     " (it is no description of BigDataViewer, SpimData with a SequenceDescription) name an "
                     "image");
    const XmlElement* const loader = sequence->child("ImageLoader");
    const std::string format = loader ? loader->attribute("format") : "";
    TESSERA_VALIDATE(format == "bdv.hdf5" && loader->child("hdf5"), "cannot read ", path,
                     " (its images are of the kind ", format.empty() ? "that it does not say" : format,
                     ", bdv.hdf5 is read) export it to HDF5 in BigDataViewer, or to OME-Zarr");
    const XmlElement* const base = top_.child("BasePath");
    const XmlElement& file = *loader->child("hdf5");
    fs::path folder = fs::path(path).parent_path();
    if (base && base->attribute("type") != "absolute") folder /= base->text;
    if (base && base->attribute("type") == "absolute") folder = base->text;
    file_ = (file.attribute("type") == "absolute" ? fs::path(file.text) : folder / file.text)
                .lexically_normal()
                .string();
    read_setups(*sequence);
  }

  const std::string& file() const { return file_; }
  const std::vector<Setup>& setups() const { return setups_; }

  std::unique_ptr<ImageSource> open(const std::string& part) {
    where_ = part.empty() ? path_ : concat(path_, ":", part);
    Hdf5File file = Hdf5File::open(file_, Communicator());
    read_part(part);
    const Setup& setup = chosen(file);
    const std::string set = pyramid_name(time_, setup.id, level_);
    TESSERA_VALIDATE(file.has(set), where_, ": there is no ", set, " in ", file_,
                     " (a level, time point or setup that it does not have) name another one");
    const std::vector<std::int64_t> stored = shape_of(file, set);
    TESSERA_VALIDATE(stored.size() == 3, "cannot read ", file_, ":", set, " (it has ", stored.size(),
                     " axes of numbers, slices, rows and columns are needed) is it complete?");
    TESSERA_VALIDATE(slice_ < stored[0], where_, ": there is no z", slice_, " (it has ", stored[0],
                     stored[0] == 1 ? " slice" : " slices", ", counted from 0) name one of them");
    Hdf5Stack out{{set}, choose_in(file, file_, set, {"slices"}).about, {}, {}, {}, {}};
    out.about.channels = 1;
    out.about.axes = {-1, slice_ < 0 ? 0 : -1, 1, 2};
    out.about.box = Box({0, 0, 0}, {slice_ < 0 ? stored[0] : 1, stored[1], stored[2]});
    out.start = {static_cast<hsize_t>(std::max<std::int64_t>(0, slice_)), 0, 0};
    describe(file, setup, set, out);
    return stack_source(std::move(file), file_, std::move(out));
  }

  /// Time points of the HDF5 file, ascending.
  static std::vector<std::int64_t> times_in(const Hdf5File& file) {
    std::vector<std::int64_t> out;
    for (const std::string& name : file.list("/"))
      if (const std::int64_t n = name.starts_with("t") ? index_of_word(name.substr(1)) : -1; n >= 0)
        out.push_back(n);
    std::sort(out.begin(), out.end());
    return out;
  }

 private:
  void read_setups(const XmlElement& sequence) {
    if (const XmlElement* const list = sequence.child("ViewSetups"))
      for (const XmlElement& one : list->children) {
        if (one.name != "ViewSetup") continue;
        Setup setup{index_of_word(one.word("id")), one.word("name"), "", {}};
        TESSERA_VALIDATE(setup.id >= 0, "cannot read ", path_, " (a ViewSetup has the id '", one.word("id"),
                         "', a number from 0 is needed) write it again");
        if (const XmlElement* const voxel = one.child("voxelSize")) {
          setup.unit = voxel->word("unit");
          setup.voxel = finite_list(voxel->word("size"), 3);
        }
        setups_.push_back(std::move(setup));
      }
    TESSERA_VALIDATE(!setups_.empty(), "cannot read ", path_, " (it has no ViewSetup) write it again");
  }

  void read_part(const std::string& part) {
    std::vector<std::string> words = words_of_part(part);
    std::erase(words, "");
    for (std::size_t k = 0; k < words.size(); ++k) {
      const std::string& word = words[k];
      const std::int64_t level = index_of_word(word), number = index_of_word(word.substr(1));
      std::int64_t* const to = level >= 0       ? &level_
                               : word[0] == 's' ? &setup_
                               : word[0] == 't' ? &time_
                               : word[0] == 'z' ? &slice_
                                                : nullptr;
      TESSERA_VALIDATE(to && (level >= 0 || number >= 0), where_, ": there is no ", word,
                       " in it (a level, counted from 0, a setup, a time point and a slice are named: "
                       "1/s0/t0/z4) correct the path");
      *to = level >= 0 ? level : number;
    }
  }

  const Setup& chosen(const Hdf5File& file) {
    const std::vector<std::int64_t> times = times_in(file);
    TESSERA_VALIDATE(!times.empty(), "cannot read ", file_,
                     " (it has no t00000) is it the file that BigDataViewer wrote?");
    TESSERA_VALIDATE(time_ >= 0 || times.size() == 1, where_, " has ", times.size(),
                     " time points (one image is reconstructed) name one: ", path_, ":/t", times[0]);
    if (time_ < 0) time_ = times[0];
    std::string names;
    const Setup* found = nullptr;
    for (const Setup& one : setups_) {
      names += concat(names.empty() ? "" : ", ", "s", one.id, one.name.empty() ? "" : " " + one.name);
      if (one.id == setup_ || (setup_ < 0 && setups_.size() == 1)) found = &one;
    }
    TESSERA_VALIDATE(setup_ < 0 || found, where_, ": there is no s", setup_, " (it has ", names,
                     ") name one of them");
    TESSERA_VALIDATE(found, where_, " has ", setups_.size(), " setups, ", names,
                     " (channels, angles or tiles; one is read) name one: ", path_, ":/s", setups_[0].id);
    return *found;
  }

  // The transformations of a view, of which the last is applied first. Nothing where there is none.
  std::optional<Affine> registration(const Setup& setup) const {
    const XmlElement* const list = top_.child("ViewRegistrations");
    if (!list) return std::nullopt;
    for (const XmlElement& one : list->children) {
      if (index_of_word(one.attribute("timepoint")) != time_ ||
          index_of_word(one.attribute("setup")) != setup.id)
        continue;
      Affine out{1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0};
      bool any = false;
      for (const XmlElement& step : one.children) {
        if (step.name != "ViewTransform") continue;
        const std::vector<double> m = finite_list(step.word("affine"), 12);
        if (m.empty()) return std::nullopt;
        Affine next{};
        std::copy(m.begin(), m.end(), next.begin());
        out = times(out, next);
        any = true;
      }
      return any ? std::optional(out) : std::nullopt;
    }
    return std::nullopt;
  }

  // Level 0's pixel of the center of a level's pixel i is f i + (f - 1) / 2.
  void describe(const Hdf5File& file, const Setup& setup, const std::string& set, Hdf5Stack& out) const {
    const std::vector<double> factors = viewer_factors(file, set);  // slices, rows, columns
    const auto factor = [&](std::size_t d) { return factors.empty() ? 1 : factors[d]; };
    if (!setup.voxel.empty() && *std::min_element(setup.voxel.begin(), setup.voxel.end()) > 0)
      for (std::size_t d = 0; d < 3; ++d) {
        out.info.grid[d].spacing = setup.voxel[2 - d] * factor(d);
        out.info.grid[d].unit = setup.unit;
      }
    if (const std::optional<Affine> world = registration(setup)) {
      const auto slice = static_cast<double>(std::max<std::int64_t>(0, slice_));
      Affine level{};
      for (std::size_t k = 0; k < 3; ++k) {  // x, y, z
        const double f = factor(2 - k);
        level[4 * k + k] = f;
        level[4 * k + 3] = (f - 1) / 2 + (k == 2 ? f * slice : 0);
      }
      const Affine placed = times(*world, level);
      out.metadata.text.emplace_back(kAffine, number_text({placed.begin(), placed.end()}));
    }
    if (!setup.name.empty()) {
      out.info.channel_names = {setup.name};
      out.metadata.text.emplace_back("setup", setup.name);
    }
    out.says = concat(file_, ", setup ", setup.id, ", time point ", time_, ", level ", level_);
  }

  std::string path_, file_, where_;
  XmlElement top_;
  std::vector<Setup> setups_;
  std::int64_t level_ = 0, setup_ = -1, time_ = -1, slice_ = -1;
};

std::vector<std::pair<std::string, std::string>> list_views(const std::string& path) {
  constexpr std::size_t kMostViews = 256;
  std::vector<std::pair<std::string, std::string>> out;
  const Viewer viewer(path);
  const Hdf5File file = Hdf5File::open(viewer.file(), Communicator());
  for (const std::int64_t time : Viewer::times_in(file))
    for (const Setup& setup : viewer.setups())
      for (std::int64_t level = 0; out.size() < kMostViews; ++level) {
        const std::vector<std::int64_t> shape = shape_of(file, pyramid_name(time, setup.id, level));
        if (shape.empty()) break;
        out.emplace_back(concat("/", level, "/s", setup.id, "/t", time), shape_text(shape));
      }
  return out;
}

}  // namespace

std::vector<double> viewer_factors(const Hdf5File& file, const std::string& dataset) {
  const std::vector<std::string> words =
      words_of_part(dataset.substr(std::min<std::size_t>(1, dataset.size())));
  if (words.size() != 4 || words[3] != "cells" || words[0].empty() || words[0][0] != 't' ||
      words[1].empty() || words[1][0] != 's')
    return {};
  const std::int64_t level = index_of_word(words[2]);
  const std::string places = "/" + words[1] + "/resolutions";
  if (level < 0 || index_of_word(words[0].substr(1)) < 0 || !file.has(places)) return {};
  const std::vector<std::int64_t> shape = shape_of(file, places);
  constexpr std::int64_t kMostLevels = 64;
  if (shape.size() != 2 || shape[1] != 3 || level >= shape[0] || shape[0] > kMostLevels) return {};
  std::vector<double> all(static_cast<std::size_t>(3 * shape[0]));
  const H5Handle set(H5Dopen2(file.id(), places.c_str(), H5P_DEFAULT), H5Dclose);
  if (H5Dread(set.get(), H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, all.data()) < 0) {
    H5Eclear2(H5E_DEFAULT);
    return {};
  }
  std::vector<double> out;
  for (std::size_t d = 3; d-- > 0;) {
    const double f = all[static_cast<std::size_t>(3 * level) + d];
    if (!(std::isfinite(f) && f > 0)) return {};
    out.push_back(f);
  }
  return out;
}

ImageFormat viewer_format() {
  ImageFormat f;
  f.name = "BigDataViewer";
  f.suffixes = {".xml"};
  f.parts = true;
  f.open = [](const std::string& file, const std::string& part) { return Viewer(file).open(part); };
  f.list = list_views;
  f.picture = false;
  return f;
}

}  // namespace tessera::io
