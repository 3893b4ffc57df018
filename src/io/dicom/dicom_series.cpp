// SPDX-License-Identifier: BSD-3-Clause
#include "dicom/dicom_series.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <numeric>
#include <optional>

#include "dicom/dicom_data.hpp"
#include "places.hpp"
#include "stored_image.hpp"
#include "tessera/core/error.hpp"
#include "tessera/core/phase.hpp"

namespace tessera::io {
namespace {

namespace fs = std::filesystem;
using Point = std::array<double, 3>;

constexpr double kSameDirection = 1e-3, kEvenGaps = 0.01;

// A frame with its place.
struct Frame {
  DicomSlice slice;
  std::optional<Point> place;                 // of the middle of its first pixel
  std::optional<std::array<double, 6>> axes;  // directions along a row, and down a column
  std::array<double, 2> spacing{};            // between rows, between columns; 0: not said
  double along = 0;                           // the normal
};

// A file as far as its header tells.
struct Header {
  std::string path, series;
  std::int64_t number = 0;
  DicomFile file;
  DicomPixels pixels;
  std::int64_t frames = 1;
};

template <std::size_t N>
std::optional<std::array<double, N>> exactly(const std::vector<double>& v) {
  if (v.size() != N) return std::nullopt;
  std::array<double, N> out{};
  std::copy(v.begin(), v.end(), out.begin());
  return out;
}

double dot(const Point& a, const Point& b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }
Point less(const Point& a, const Point& b) { return {a[0] - b[0], a[1] - b[1], a[2] - b[2]}; }
Point row_of(const std::array<double, 6>& axes) { return {axes[0], axes[1], axes[2]}; }
Point column_of(const std::array<double, 6>& axes) { return {axes[3], axes[4], axes[5]}; }
Point normal_of(const std::array<double, 6>& axes) {
  const Point r = row_of(axes), c = column_of(axes);
  return {r[1] * c[2] - r[2] * c[1], r[2] * c[0] - r[0] * c[2], r[0] * c[1] - r[1] * c[0]};
}

DicomPixels pixels_of(const DicomSet& set, const std::string& path) {
  DicomPixels p;
  const auto refuse = [&](const std::string& what, const char* why, const char* how) {
    throw InputError(concat("cannot read ", path, ": ", what, " (", why, ") ", how));
  };
  p.rows = dicom_short(set, 0x00280010, 0);
  p.columns = dicom_short(set, 0x00280011, 0);
  p.channels = dicom_short(set, 0x00280002, 1);
  const std::int64_t bits = dicom_short(set, 0x00280100, 0);
  p.stored = static_cast<int>(dicom_short(set, 0x00280101, bits));
  p.high = static_cast<int>(dicom_short(set, 0x00280102, p.stored - 1));
  p.with_sign = dicom_short(set, 0x00280103, 0) == 1;
  p.planar = p.channels > 1 && dicom_short(set, 0x00280006, 0) == 1;
  p.bytes = bits / 8;
  if (p.rows < 1 || p.columns < 1)
    refuse(concat("it has ", p.rows, " rows and ", p.columns, " columns"), "1 or more are needed",
           "is it an image?");
  if (bits != 8 && bits != 16 && bits != 32)
    refuse(concat("its samples have ", bits, " bits"), "8, 16 and 32 are read", "convert it");
  if (p.stored < 1 || p.stored > bits || p.high >= bits || p.high < p.stored - 1)
    refuse(concat("its samples are ", p.stored, " bits up to bit ", p.high, " of ", bits), "they do not fit",
           "is it complete?");
  const std::string colors = dicom_text(set, 0x00280004);
  const bool gray = colors == "MONOCHROME1" || colors == "MONOCHROME2";
  if (!(gray && p.channels == 1) && !(colors == "RGB" && p.channels == 3))
    refuse(concat("its colors are ", colors.empty() ? "not said" : colors, " of ", p.channels,
                  p.channels == 1 ? " sample" : " samples"),
           "MONOCHROME1, MONOCHROME2 and RGB are read", "convert it");
  if (set.count(0x00280120) > 0) {
    const auto padded = [&](std::uint32_t tag, std::int64_t otherwise) {
      const std::int64_t n = dicom_short(set, tag, otherwise);
      return static_cast<double>(p.with_sign && n > 32767 ? n - 65536 : n);
    };
    const double from = padded(0x00280120, 0), to = set.count(0x00280121) > 0 ? padded(0x00280121, 0) : from;
    p.padding = {std::min(from, to), std::max(from, to)};
    p.has_padding = true;
  }
  return p;
}

// Of a file with samples; nothing for one of another kind (a report, a plan, a directory).
std::optional<Header> header_of(const std::string& path) {
  Header out;
  out.path = path;
  out.file = read_dicom(path);
  const DicomSet& set = out.file.set;
  if (out.file.pixel_bytes == 0) return std::nullopt;
  out.pixels = pixels_of(set, path);
  out.series = dicom_text(set, 0x0020000E);
  const std::vector<double> number = dicom_numbers(set, 0x00200011, 1),
                            frames = dicom_numbers(set, 0x00280008, 1);
  out.number = number.empty() ? 0 : static_cast<std::int64_t>(std::clamp(number[0], -1e9, 1e9));
  constexpr double kMostFrames = 1e5;
  TESSERA_VALIDATE(frames.empty() || (frames[0] >= 1 && frames[0] <= kMostFrames), "cannot read ", path,
                   " (it has ", frames[0], " frames, 1 to 100000 are read) is it complete?");
  out.frames = frames.empty() ? 1 : static_cast<std::int64_t>(frames[0]);
  const DicomPixels& p = out.pixels;
  const std::int64_t wanted = p.rows * p.columns * p.channels * p.bytes * out.frames;
  TESSERA_VALIDATE(out.file.pixel_bytes >= wanted, "cannot read ", path, " (its header says ", out.frames,
                   out.frames == 1 ? " frame of " : " frames of ", p.rows, " x ", p.columns, ", ", wanted,
                   " bytes, it has ", out.file.pixel_bytes, ") is it complete?");
  return out;
}

// What is said of a frame: by its own group of functions, by that of all frames, or by the file.
Frame frame_of(const Header& header, std::int64_t index) {
  const DicomSet& set = header.file.set;
  const DicomSet* const shared = dicom_item(set, 0x52009229);
  const DicomSet* own = nullptr;
  if (const auto each = set.find(0x52009230); each != set.end() && index < std::ssize(each->second.items))
    own = &each->second.items[static_cast<std::size_t>(index)];
  const auto said = [&](std::uint32_t sequence, std::uint32_t tag, std::size_t count) {
    for (const DicomSet* const group : {own, shared}) {
      const DicomSet* const item = group ? dicom_item(*group, sequence) : nullptr;
      std::vector<double> found = item ? dicom_numbers(*item, tag, count) : std::vector<double>();
      if (!found.empty()) return found;
    }
    return dicom_numbers(set, tag, count);
  };
  Frame out;
  const DicomPixels& p = header.pixels;
  out.slice.path = header.path;
  out.slice.offset = header.file.pixels + index * p.rows * p.columns * p.channels * p.bytes;
  out.place = exactly<3>(said(0x00209113, 0x00200032, 3));
  out.axes = exactly<6>(said(0x00209116, 0x00200037, 6));
  if (out.axes && !(std::abs(dot(row_of(*out.axes), row_of(*out.axes)) - 1) < 0.02 &&
                    std::abs(dot(column_of(*out.axes), column_of(*out.axes)) - 1) < 0.02 &&
                    std::abs(dot(row_of(*out.axes), column_of(*out.axes))) < 0.02))
    out.axes.reset();  // no directions
  if (const auto size = exactly<2>(said(0x00289110, 0x00280030, 2)); size && (*size)[0] > 0 && (*size)[1] > 0)
    out.spacing = *size;
  if (p.channels == 1) {
    if (const std::vector<double> v = said(0x00289145, 0x00281053, 1); !v.empty()) out.slice.slope = v[0];
    if (const std::vector<double> v = said(0x00289145, 0x00281052, 1); !v.empty()) out.slice.intercept = v[0];
  }
  TESSERA_VALIDATE(out.slice.slope != 0, "cannot read ", header.path,
                   " (RescaleSlope is 0, with which all values are one) correct it");
  return out;
}

std::string file_name(const Frame& frame) { return fs::path(frame.slice.path).filename().string(); }

bool same_directions(const std::array<double, 6>& a, const std::array<double, 6>& b) {
  for (std::size_t k = 0; k < 6; ++k)
    if (std::abs(a[k] - b[k]) > kSameDirection) return false;
  return true;
}

// Along the normal, each gap like the others; returns the step.
double sort_frames(std::vector<Frame>& frames, const std::string& path) {
  std::size_t without = 0;
  for (const Frame& f : frames) without += !f.place || !f.axes;
  TESSERA_VALIDATE(
      without == 0, "cannot read ", path, " (", without, " of its ", frames.size(),
      " slices have no place, ImagePositionPatient and ImageOrientationPatient) name a file of it, or "
      "write a volume");
  for (const Frame& f : frames)
    TESSERA_VALIDATE(same_directions(*f.axes, *frames[0].axes) && f.spacing == frames[0].spacing,
                     "cannot read ", path, " (", file_name(f), " and ", file_name(frames[0]),
                     " have other directions or sizes of pixels: an overview among slices) leave it out");
  const Point normal = normal_of(*frames[0].axes);
  for (Frame& f : frames) f.along = dot(*f.place, normal);
  std::stable_sort(frames.begin(), frames.end(),
                   [](const Frame& a, const Frame& b) { return a.along < b.along; });
  std::vector<double> gaps;
  for (std::size_t k = 1; k < frames.size(); ++k) gaps.push_back(frames[k].along - frames[k - 1].along);
  std::vector<double> sorted = gaps;
  std::nth_element(sorted.begin(), sorted.begin() + std::ssize(sorted) / 2, sorted.end());
  const double usual = sorted[sorted.size() / 2];
  for (std::size_t k = 0; k < gaps.size(); ++k) {
    const std::string pair = concat(file_name(frames[k]), " and ", file_name(frames[k + 1]));
    TESSERA_VALIDATE(gaps[k] > 1e-4, "cannot read ", path, " (", pair, " lie at one place, ",
                     fmt::format("{:g}", frames[k].along),
                     " mm along the normal) leave one out: times, echoes or "
                     "copies are images of their own");
    TESSERA_VALIDATE(std::abs(gaps[k] - usual) <= kEvenGaps * usual, "cannot read ", path,
                     " (its slices are ", fmt::format("{:g}", usual), " mm apart, ", pair, " ",
                     fmt::format("{:g}", gaps[k]),
                     ": uneven, or one is missing) complete it, or resample it");
  }
  const Point way = less(*frames.back().place, *frames[0].place);
  const double length = std::sqrt(dot(way, way)), straight = frames.back().along - frames[0].along;
  TESSERA_VALIDATE(straight >= length * (1 - 1e-5), "cannot read ", path,
                   " (its slices move along their planes, by ",
                   fmt::format("{:.3g}", std::acos(std::min(1.0, straight / length)) * 180 / std::acos(-1.0)),
                   " degrees: a tilted gantry) resample it");
  return straight / static_cast<double>(frames.size() - 1);
}

// Right and anterior from DICOM's left and posterior.
void describe_place(const Frame& first, double step, std::size_t count, DicomStack& out) {
  for (const std::size_t d : {std::size_t{1}, std::size_t{2}})
    if (first.spacing[d - 1] > 0) out.info.grid[d] = {out.info.grid[d].name, first.spacing[d - 1], "mm"};
  if (count > 1 && step > 0) out.info.grid[0] = {out.info.grid[0].name, step, "mm"};
  if (!first.place || !first.axes || first.spacing[0] <= 0) return;
  const Point row = row_of(*first.axes), column = column_of(*first.axes), normal = normal_of(*first.axes);
  std::vector<double> affine(12);
  for (std::size_t r = 0; r < 3; ++r) {
    const double turn = r < 2 ? -1 : 1;
    affine[4 * r] = turn * row[r] * first.spacing[1] + 0.0;
    affine[4 * r + 1] = turn * column[r] * first.spacing[0] + 0.0;
    affine[4 * r + 2] = turn * normal[r] * (step > 0 ? step : 1) + 0.0;
    affine[4 * r + 3] = turn * (*first.place)[r] + 0.0;
  }
  out.info.orientation = directions_of(affine);
  out.metadata.text.emplace_back(kAffine, number_text(affine));
}

void describe(const Header& header, DicomStack& out) {
  const DicomSet& set = header.file.set;
  const auto add = [&](const std::string& text) {
    out.info.note += concat(out.info.note.empty() ? "" : "; ", text);
  };
  if (dicom_text(set, 0x00280004) == "MONOCHROME1")
    add("its smallest values are white (MONOCHROME1): samples are taken as stored, not inverted");
  if (header.pixels.has_padding)
    add(fmt::format(
        "stored numbers {} are padding (PixelPaddingValue): missing ones",
        header.pixels.padding[0] == header.pixels.padding[1]
            ? fmt::format("of {:g}", header.pixels.padding[0])
            : fmt::format("from {:g} to {:g}", header.pixels.padding[0], header.pixels.padding[1])));
  if (out.info.grid[1].spacing <= 0)
    if (const auto size = exactly<2>(dicom_numbers(set, 0x00181164, 2));
        size && (*size)[0] > 0 && (*size)[1] > 0) {
      for (const std::size_t d : {std::size_t{1}, std::size_t{2}})
        out.info.grid[d] = {out.info.grid[d].name, (*size)[d - 1], "mm"};
      add("pixel sizes are those at the detector (ImagerPixelSpacing)");
    }
  // Nothing of the patient.
  for (const auto& [tag, key] : {std::pair{0x00080060U, "Modality"},
                                 {0x0008103EU, "SeriesDescription"},
                                 {0x00080070U, "Manufacturer"},
                                 {0x00281054U, "RescaleType"}})
    if (const std::string text = dicom_text(set, tag); !text.empty())
      out.metadata.text.emplace_back(key, text);
}

std::string series_text(const std::vector<Header>& files) {
  const DicomSet& set = files[0].file.set;
  const std::string about = dicom_text(set, 0x0008103E);
  return concat(dicom_text(set, 0x00080060), about.empty() ? "" : ", " + about, ", ", files.size(),
                files.size() == 1 ? " file" : " files");
}

// By the numbers of the series, then by their names.
std::vector<std::vector<Header>> all_series(const std::string& folder) {
  std::map<std::pair<std::int64_t, std::string>, std::vector<Header>> found;
  for (const std::string& path : dicom_files(folder, DicomFiles::all)) {
    beat();
    if (std::optional<Header> one = header_of(path))
      found[{one->number, one->series}].push_back(std::move(*one));
  }
  TESSERA_VALIDATE(!found.empty(), "cannot read ", folder,
                   " (its DICOM files hold no samples) name another folder");
  std::vector<std::vector<Header>> out;
  for (auto& [key, files] : found) out.push_back(std::move(files));
  return out;
}

std::vector<Frame> frames_of(const std::vector<Header>& files) {
  std::vector<Frame> out;
  for (const Header& file : files)
    for (std::int64_t k = 0; k < file.frames; ++k) out.push_back(frame_of(file, k));
  return out;
}

DicomStack stack_of(const Header& first, std::vector<Frame> frames, double step) {
  DicomStack out;
  out.pixels = first.pixels;
  describe_place(frames[0], step, frames.size(), out);
  describe(first, out);
  for (Frame& frame : frames) out.slices.push_back(std::move(frame.slice));
  return out;
}

DicomStack of_folder(const std::string& folder, const std::string& part) {
  std::vector<std::vector<Header>> series = all_series(folder);
  const std::vector<std::string> words = words_of_part(part);
  const std::int64_t number = words.size() == 1 ? index_of_word(words[0]) : -1;
  std::string names;
  for (std::size_t k = 0; k < series.size() && k < 8; ++k)
    names += concat(k > 0 ? "; " : "", folder, ":/", k, " ", series_text(series[k]));
  TESSERA_VALIDATE(words.empty() || (number >= 0 && number < std::ssize(series)), "cannot read ", folder,
                   ":/", part, " (it has ", names, ") name one of them");
  TESSERA_VALIDATE(number >= 0 || series.size() == 1, folder, " holds ", series.size(),
                   " series (one is read) name one: ", names);
  const std::vector<Header>& files = series[static_cast<std::size_t>(std::max<std::int64_t>(0, number))];
  for (const Header& file : files)
    TESSERA_VALIDATE(
        file.pixels == files[0].pixels, "cannot read ", folder, " (", fs::path(file.path).filename().string(),
        " is ", file.pixels.rows, " x ", file.pixels.columns, " of ", file.pixels.stored, " bits, ",
        fs::path(files[0].path).filename().string(), " ", files[0].pixels.rows, " x ",
        files[0].pixels.columns, " of ", files[0].pixels.stored, ") leave out what is no slice of it");
  std::vector<Frame> frames = frames_of(files);
  const double step = frames.size() > 1 ? sort_frames(frames, folder) : 0;
  return stack_of(files[0], std::move(frames), step);
}

DicomStack of_file(const std::string& path, const std::string& part) {
  const std::optional<Header> file = header_of(path);
  TESSERA_VALIDATE(file, "cannot read ", path, " (it holds no samples) name an image");
  const std::vector<std::string> words = words_of_part(part);
  const std::int64_t number = words.size() == 1 ? index_of_word(words[0]) : -1;
  const bool slices = words.size() == 1 && words[0] == "slices";
  TESSERA_VALIDATE(words.empty() || slices || (number >= 0 && number < file->frames), "cannot read ", path,
                   ":/", part, " (it has ", file->frames, file->frames == 1 ? " frame" : " frames",
                   ", counted from 0) name one: ", path, ":/0, or ", path, ":/slices");
  std::vector<Frame> frames = frames_of({*file});
  if (number >= 0) frames = {frames[static_cast<std::size_t>(number)]};
  const bool placed =
      std::all_of(frames.begin(), frames.end(), [](const Frame& f) { return f.place && f.axes; }) &&
      file->file.set.count(0x52009230) > 0;
  TESSERA_VALIDATE(
      frames.size() == 1 || placed || slices, path, " has ", frames.size(),
      " frames without places of their own (one image is reconstructed) name one, counted from 0: ", path,
      ":/0; ", path, ":/slices takes them as slices of a volume");
  const double step = frames.size() > 1 && placed && !slices ? sort_frames(frames, path) : 0;
  return stack_of(*file, std::move(frames), step);
}

}  // namespace

std::string DicomPixels::type() const { return concat(with_sign ? "int" : "uint", 8 * bytes); }

std::vector<std::string> dicom_files(const std::string& folder, DicomFiles which) {
  constexpr int kMostLooked = 256;  // of a folder that may be anything
  std::vector<std::string> names, out;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder, none))
    if (entry.is_regular_file(none)) names.push_back(entry.path().string());
  std::sort(names.begin(), names.end());
  int looked = 0;
  for (const std::string& name : names) {
    if (which == DicomFiles::first && (!out.empty() || ++looked > kMostLooked)) break;
    try {
      if (is_dicom(name)) out.push_back(name);
    } catch (const InputError&) {
      if (which == DicomFiles::all) throw;  // one that cannot be opened may be a slice
    }
  }
  return out;
}

DicomStack dicom_stack(const std::string& path, const std::string& part) {
  std::error_code none;
  const std::string words = part.empty() ? "" : part.substr(1);
  return fs::is_directory(path, none) ? of_folder(path, words) : of_file(path, words);
}

std::vector<std::pair<std::string, std::string>> list_dicom(const std::string& path) {
  std::vector<std::pair<std::string, std::string>> out;
  std::error_code none;
  if (!fs::is_directory(path, none)) {
    const std::optional<Header> file = header_of(path);
    for (std::int64_t k = 0; file && file->frames > 1 && k < std::min<std::int64_t>(file->frames, 256); ++k)
      out.emplace_back(concat("/", k), concat(file->pixels.rows, " x ", file->pixels.columns));
    return out;
  }
  const std::vector<std::vector<Header>> series = all_series(path);
  for (std::size_t k = 0; series.size() > 1 && k < series.size(); ++k)
    out.emplace_back(concat("/", k), series_text(series[k]));
  return out;
}

}  // namespace tessera::io
