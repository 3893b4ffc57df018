// SPDX-License-Identifier: BSD-3-Clause
#include "tiff_choice.hpp"

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

}  // namespace

TiffChoice choose_in_tiff(const std::string& path, const std::string& part, const TiffAxes& a,
                          const std::vector<TiffPage>& pages) {
  const Words words = read_words(path, part);
  TiffChoice out;
  if (words.take == Take::page)
    TESSERA_VALIDATE(words.page < a.planes, "cannot read ", path, ":/", part, " (the file has ", a.planes,
                     a.planes == 1 ? " page" : " pages", ") pages are counted from 0");
  if (words.take == Take::page && !a.one_directory && !a.samples_are_planes)
    out.model = static_cast<std::size_t>(words.page);
  const TiffPage& first = pages[out.model];
  out.colors = words.colors;
  const auto note = [&](const std::string& text) { out.note += (out.note.empty() ? "" : ", ") + text; };

  // Planes of an array, unless the colors that its tags speak of are asked for, or meant.
  const bool array = a.samples_are_planes && !words.colors.value_or(false) &&
                     !(words.take == Take::nothing && a.may_be_colors);
  std::vector<std::uint16_t> samples;  // of a pixel that are kept
  for (std::uint16_t s = 0; s < first.samples; ++s)
    if (array || std::find(first.alpha.begin(), first.alpha.end(), s) == first.alpha.end())
      samples.push_back(s);
  TESSERA_VALIDATE(!samples.empty(), path,
                   " has alpha channels alone (there is no picture in it) convert it");
  if (a.samples_are_planes && !array)
    TESSERA_VALIDATE(words.take == Take::nothing && a.planes == first.samples, "cannot read ", path, ":/",
                     part, " (the colors of one page alone are read) leave out rgb");
  const std::int64_t n = array ? 1 : static_cast<std::int64_t>(samples.size());
  const std::int64_t planes = a.samples_are_planes && !array ? 1 : a.planes;
  const auto pixel = [&](std::int64_t plane) {
    std::vector<Plane> channels;
    if (array)
      channels.push_back({plane / first.samples, static_cast<std::uint16_t>(plane % first.samples)});
    else
      for (const std::uint16_t s : samples) channels.push_back({plane, s});
    return channels;
  };

  switch (words.take) {
    case Take::nothing:
      TESSERA_VALIDATE(planes == 1, path, " has ", planes, " pages (one image is read) ", ways(path, a, n),
                       a.samples_are_planes && a.planes == first.samples
                           ? concat(", or ", path, ":/rgb, the color picture that its tags speak of")
                           : "");
      out.slices = {pixel(0)};
      if (a.samples_are_planes)
        note(concat("separate planes are taken for the colors that its tags speak of (", path,
                    ":/all takes them as an array)"));
      break;
    case Take::page:
      out.slices = {pixel(words.page)};
      break;
    case Take::slices:
      for (std::int64_t p = 0; p < planes; ++p) out.slices.push_back(pixel(p));
      if (planes == 1 && n > 1) {
        out.slices.clear();
        for (const Plane& sample : pixel(0)) out.slices.push_back({sample});
      }
      break;
    case Take::channels:
      out.slices.resize(1);
      for (std::int64_t p = 0; p < planes; ++p)
        for (const Plane& sample : pixel(p)) out.slices[0].push_back(sample);
      break;
    case Take::all: {
      TESSERA_VALIDATE(a.problem.empty(), "cannot read ", path, ":/", part, " (", a.problem, ") ",
                       ways(path, a, n));
      TESSERA_VALIDATE(a.frames == 1 || words.t, path, ":/", part, " is ", a.counts(),
                       " (a volume is of one frame) say which: ", path, ":/t0 to ", path, ":/t", a.frames - 1,
                       ", or ", path, ":/slices, which takes frames as slices too");
      const std::int64_t channels = a.channels * n;
      const auto in_range = [&](const std::optional<std::int64_t>& at, std::int64_t count, const char* what) {
        TESSERA_VALIDATE(!at || *at < count, "cannot read ", path, ":/", part, " (it has ", count, ' ', what,
                         ", counted from 0) name one of them");
      };
      in_range(words.c, channels, "channels");
      in_range(words.z, a.slices, "slices");
      in_range(words.t, a.frames, "frames");
      for (std::int64_t z = words.z.value_or(0); z < (words.z ? *words.z + 1 : a.slices); ++z) {
        std::vector<Plane> slice;
        for (std::int64_t c = words.c.value_or(0); c < (words.c ? *words.c + 1 : channels); ++c)
          slice.push_back(pixel(a.plane(c / n, z, words.t.value_or(0)))[static_cast<std::size_t>(c % n)]);
        out.slices.push_back(std::move(slice));
      }
      if (a.channels > 1 || a.frames > 1 || a.one_directory)
        note(concat(a.counts(), ", as its ", a.from, " description says",
                    a.channels > 1 && a.slices == 1 && !words.c
                        ? concat(" (", path, ":/slices takes them as slices)")
                        : ""));
      break;
    }
  }
  if (planes == 1 && !a.problem.empty()) note(a.problem);
  if (array) note("separate samples, which its tags call colors, are taken as the planes of an array");
  if (samples.size() < first.samples) note("alpha channel dropped");
  const bool rgb = (first.photometric == PHOTOMETRIC_RGB || first.photometric == PHOTOMETRIC_YCBCR) && n == 3;
  if (n > 1 && !rgb && out.channels() > 1 && words.take != Take::channels)
    note(concat(n, " samples of a pixel are its channels (", path, ":/c0 is the first)"));
  return out;
}

}  // namespace tessera::io
