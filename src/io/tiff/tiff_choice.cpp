// SPDX-License-Identifier: BSD-3-Clause
#include "tiff/tiff_choice.hpp"

#include <algorithm>

#include "stored_image.hpp"
#include "tessera/core/error.hpp"

namespace tessera::io {
namespace {

using Plane = TiffChoice::Plane;
enum class Take { nothing, page, all, slices, channels };

struct Words {
  Take take = Take::nothing;
  std::int64_t page = 0;
  std::optional<std::int64_t> c, z, t;
  std::optional<bool> colors;
};

Words read_words(const std::string& path, const std::string& part) {
  Words out;
  const auto refuse = [&](const std::string& word) {
    throw InputError(concat("cannot read ", path, ":/", part, " (", word.empty() ? "an empty word" : word,
                            " is no part of a TIFF: pages are counted from 0) write for example ", path,
                            ":/0, ", path, ":/all for all of them as a volume, or ", path,
                            ":/c1 for its second channel"));
  };
  for (const std::string& word : words_of_part(part)) {
    const auto take = [&](Take what) {
      if (out.take != Take::nothing && !(out.take == Take::all && what == Take::all)) refuse(word);
      out.take = what;
    };
    if (const std::int64_t page = index_of_word(word); page >= 0) {
      take(Take::page);
      out.page = page;
    } else if (word == "all") {
      take(Take::all);
    } else if (word == "slices") {
      take(Take::slices);
    } else if (word == "channels") {
      take(Take::channels);
    } else if (word == "index" || word == "rgb") {
      out.colors = word == "rgb";
    } else {
      const std::int64_t n = word.size() > 1 ? index_of_word(word.substr(1)) : -1;
      const char axis = n < 0 ? '?' : word[0];
      if (axis != 'c' && axis != 'z' && axis != 't') refuse(word);
      (axis == 'c' ? out.c : axis == 'z' ? out.z : out.t) = n;
      take(Take::all);
    }
  }
  return out;
}

// What can be written behind the file's name.
std::string ways(const std::string& path, const TiffAxes& a, std::int64_t samples) {
  if (a.planes == 1) return concat("write ", path, ", which is that plane");
  std::string text = concat("say which: ", path, ":/0 to ", path, ":/", a.planes - 1);
  if (!a.problem.empty()) return text + concat(", or ", path, ":/slices, all of them as slices of a volume");
  if (a.frames > 1)
    text += concat(", or ", path, ":/t0, the first of ", a.frames, " frames");
  else if (a.channels * samples > 1)
    text += concat(", ", path, ":/c0, its first channel, or ", path, ":/all, ", a.counts());
  else
    text += concat(", or ", path, ":/all, a volume of them");
  return text;
}

// Which planes of which pages are taken, step by step.
class Chooser {
 public:
  Chooser(const std::string& path, const std::string& part, const TiffAxes& axes,
          const std::vector<TiffPage>& pages)
      : path_(path), part_(part), a_(axes), words_(read_words(path, part)), first_(page_of(pages)) {
    out_.colors = words_.colors;
    // Planes of an array, unless the colors that its tags speak of are asked for, or meant.
    array_ = a_.samples_are_planes && !words_.colors.value_or(false) &&
             !(words_.take == Take::nothing && a_.may_be_colors);
    for (std::uint16_t s = 0; s < first_.samples; ++s)
      if (array_ || std::find(first_.alpha.begin(), first_.alpha.end(), s) == first_.alpha.end())
        samples_.push_back(s);
    TESSERA_VALIDATE(!samples_.empty(), path_,
                     " has alpha channels alone (there is no picture in it) convert it");
    if (a_.samples_are_planes && !array_)
      TESSERA_VALIDATE(words_.take == Take::nothing && a_.planes == first_.samples, "cannot read ", path_,
                       ":/", part_, " (the colors of one page alone are read) leave out rgb");
    per_pixel_ = array_ ? 1 : static_cast<std::int64_t>(samples_.size());
    planes_ = a_.samples_are_planes && !array_ ? 1 : a_.planes;
  }

  TiffChoice choose() {
    switch (words_.take) {
      case Take::nothing:
        take_picture();
        break;
      case Take::page:
        out_.slices = {pixel(words_.page)};
        break;
      case Take::slices:
        for (std::int64_t p = 0; p < planes_; ++p) out_.slices.push_back(pixel(p));
        if (planes_ == 1 && per_pixel_ > 1) {
          out_.slices.clear();
          for (const Plane& sample : pixel(0)) out_.slices.push_back({sample});
        }
        break;
      case Take::channels:
        out_.slices.resize(1);
        for (std::int64_t p = 0; p < planes_; ++p)
          for (const Plane& sample : pixel(p)) out_.slices[0].push_back(sample);
        break;
      case Take::all:
        take_all();
        break;
    }
    say_what_was_taken();
    return std::move(out_);
  }

 private:
  const TiffPage& page_of(const std::vector<TiffPage>& pages) {
    if (words_.take == Take::page)
      TESSERA_VALIDATE(words_.page < a_.planes, "cannot read ", path_, ":/", part_, " (the file has ",
                       a_.planes, a_.planes == 1 ? " page" : " pages", ") pages are counted from 0");
    if (words_.take == Take::page && !a_.one_directory && !a_.samples_are_planes)
      out_.model = static_cast<std::size_t>(words_.page);
    return pages[out_.model];
  }

  void note(const std::string& text) { out_.note += (out_.note.empty() ? "" : ", ") + text; }

  // The planes of one pixel's samples.
  std::vector<Plane> pixel(std::int64_t plane) const {
    if (array_) return {{plane / first_.samples, static_cast<std::uint16_t>(plane % first_.samples)}};
    std::vector<Plane> channels;
    for (const std::uint16_t s : samples_) channels.push_back({plane, s});
    return channels;
  }

  void take_picture() {
    TESSERA_VALIDATE(planes_ == 1, path_, " has ", planes_, " pages (one image is read) ",
                     ways(path_, a_, per_pixel_),
                     a_.samples_are_planes && a_.planes == first_.samples
                         ? concat(", or ", path_, ":/rgb, the color picture that its tags speak of")
                         : "");
    out_.slices = {pixel(0)};
    if (a_.samples_are_planes)
      note(concat("separate planes are taken for the colors that its tags speak of (", path_,
                  ":/all takes them as an array)"));
  }

  // By what its description says: a volume of one frame, or the channels, slices and frame that are named.
  void take_all() {
    TESSERA_VALIDATE(a_.problem.empty(), "cannot read ", path_, ":/", part_, " (", a_.problem, ") ",
                     ways(path_, a_, per_pixel_));
    TESSERA_VALIDATE(a_.frames == 1 || words_.t, path_, ":/", part_, " is ", a_.counts(),
                     " (a volume is of one frame) say which: ", path_, ":/t0 to ", path_, ":/t",
                     a_.frames - 1, ", or ", path_, ":/slices, which takes frames as slices too");
    const std::int64_t channels = a_.channels * per_pixel_;
    const auto in_range = [&](const std::optional<std::int64_t>& at, std::int64_t count, const char* what) {
      TESSERA_VALIDATE(!at || *at < count, "cannot read ", path_, ":/", part_, " (it has ", count, ' ', what,
                       ", counted from 0) name one of them");
    };
    in_range(words_.c, channels, "channels");
    in_range(words_.z, a_.slices, "slices");
    in_range(words_.t, a_.frames, "frames");
    for (std::int64_t z = words_.z.value_or(0); z < (words_.z ? *words_.z + 1 : a_.slices); ++z) {
      std::vector<Plane> slice;
      for (std::int64_t c = words_.c.value_or(0); c < (words_.c ? *words_.c + 1 : channels); ++c)
        slice.push_back(pixel(
            a_.plane(c / per_pixel_, z, words_.t.value_or(0)))[static_cast<std::size_t>(c % per_pixel_)]);
      out_.slices.push_back(std::move(slice));
    }
    if (a_.channels > 1 || a_.frames > 1 || a_.one_directory)
      note(concat(a_.counts(), ", as its ", a_.from, " description says",
                  a_.channels > 1 && a_.slices == 1 && !words_.c
                      ? concat(" (", path_, ":/slices takes them as slices)")
                      : ""));
  }

  void say_what_was_taken() {
    if (planes_ == 1 && !a_.problem.empty()) note(a_.problem);
    if (array_) note("separate samples, which its tags call colors, are taken as the planes of an array");
    if (samples_.size() < first_.samples) note("alpha channel dropped");
    const bool rgb =
        (first_.photometric == PHOTOMETRIC_RGB || first_.photometric == PHOTOMETRIC_YCBCR) && per_pixel_ == 3;
    if (per_pixel_ > 1 && !rgb && out_.channels() > 1 && words_.take != Take::channels)
      note(concat(per_pixel_, " samples of a pixel are its channels (", path_, ":/c0 is the first)"));
  }

  const std::string &path_, &part_;
  const TiffAxes& a_;
  TiffChoice out_;
  Words words_;
  const TiffPage& first_;
  bool array_ = false;
  std::vector<std::uint16_t> samples_;  // of a pixel that are kept
  std::int64_t per_pixel_ = 1, planes_ = 1;
};

}  // namespace

TiffChoice choose_in_tiff(const std::string& path, const std::string& part, const TiffAxes& axes,
                          const std::vector<TiffPage>& pages) {
  return Chooser(path, part, axes, pages).choose();
}

}  // namespace tessera::io
