// SPDX-License-Identifier: BSD-3-Clause
// NIfTI-1 and -2. Source: nifti1.h and nifti2.h of the NIfTI Data Format Working Group.
#include <zlib.h>

#include <algorithm>
#include <array>
#include <bit>
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

namespace tessera::io {
namespace {

constexpr std::size_t kHeader1 = 348, kHeader2 = 540;
constexpr std::int64_t kShortest = 352;  // where samples may begin

struct NiftiType {
  int code;
  const char* type;
  int samples, bytes;  // of a voxel, of a sample
};
constexpr NiftiType kNiftiTypes[] = {{2, "uint8", 1, 1},    {4, "int16", 1, 2},     {8, "int32", 1, 4},
                                     {16, "float32", 1, 4}, {64, "float64", 1, 8},  {128, "uint8", 3, 1},
                                     {256, "int8", 1, 1},   {512, "uint16", 1, 2},  {768, "uint32", 1, 4},
                                     {1024, "int64", 1, 8}, {1280, "uint64", 1, 8}, {2304, "uint8", 4, 1}};

// What both headers say, whatever their widths.
struct NiftiHeader {
  std::array<std::int64_t, 8> dim{};
  std::array<double, 8> pixdim{};
  int type = 0, units = 0, qform = 0, sform = 0;
  double offset = 0, slope = 0, inter = 0;
  std::array<std::array<double, 4>, 3> rows{};  // sform
  std::array<double, 6> quaternion{};           // b, c, d, offsets
  std::string description;
};

NiftiHeader header_of(const HeaderBytes& h, bool second) {
  NiftiHeader out;
  for (std::size_t k = 0; k < 8; ++k) {
    out.dim[k] = second ? h.at<std::int64_t>(16 + 8 * k) : h.at<std::int16_t>(40 + 2 * k);
    out.pixdim[k] = second ? h.at<double>(104 + 8 * k) : static_cast<double>(h.at<float>(76 + 4 * k));
  }
  out.type = second ? h.at<std::int16_t>(12) : h.at<std::int16_t>(70);
  out.offset = second ? static_cast<double>(h.at<std::int64_t>(168)) : static_cast<double>(h.at<float>(108));
  out.slope = second ? h.at<double>(176) : static_cast<double>(h.at<float>(112));
  out.inter = second ? h.at<double>(184) : static_cast<double>(h.at<float>(116));
  out.units = second ? h.at<std::int32_t>(500) : 0;
  out.qform = second ? h.at<std::int32_t>(344) : h.at<std::int16_t>(252);
  out.sform = second ? h.at<std::int32_t>(348) : h.at<std::int16_t>(254);
  for (std::size_t k = 0; k < 6; ++k)
    out.quaternion[k] = second ? h.at<double>(352 + 8 * k) : static_cast<double>(h.at<float>(256 + 4 * k));
  for (std::size_t r = 0; r < 3; ++r)
    for (std::size_t c = 0; c < 4; ++c)
      out.rows[r][c] = second ? h.at<double>(400 + 32 * r + 8 * c)
                              : static_cast<double>(h.at<float>(280 + 16 * r + 4 * c));
  out.description = second ? h.text(240, 80) : h.text(148, 80);
  return out;
}

// The rows of the affine: of the sform, else of the qform; empty where there is neither.
std::vector<double> affine_of(const NiftiHeader& h) {
  std::vector<double> out;
  if (h.sform > 0) {
    for (const auto& row : h.rows) out.insert(out.end(), row.begin(), row.end());
  } else if (h.qform > 0) {
    const double b = h.quaternion[0], c = h.quaternion[1], d = h.quaternion[2];
    const double a = std::sqrt(std::max(0.0, 1 - b * b - c * c - d * d));
    const double r[3][3] = {{a * a + b * b - c * c - d * d, 2 * (b * c - a * d), 2 * (b * d + a * c)},
                            {2 * (b * c + a * d), a * a + c * c - b * b - d * d, 2 * (c * d - a * b)},
                            {2 * (b * d - a * c), 2 * (c * d + a * b), a * a + d * d - c * c - b * b}};
    const double size[3] = {h.pixdim[1], h.pixdim[2], h.pixdim[3] * (h.pixdim[0] < 0 ? -1 : 1)};
    for (std::size_t i = 0; i < 3; ++i) {
      for (std::size_t j = 0; j < 3; ++j) out.push_back(r[i][j] * size[j]);
      out.push_back(h.quaternion[3 + i]);
    }
  }
  if (std::any_of(out.begin(), out.end(), [](double v) { return !std::isfinite(v); })) out.clear();
  return out;
}

class Nifti {
 public:
  Nifti(const std::string& path, const std::string& part)
      : path_(path), bytes_(std::make_unique<GridBytes>(path)) {
    std::uint8_t raw[kHeader2] = {};
    TESSERA_VALIDATE(bytes_->size() >= kShortest, "cannot read ", path, " (it has ", bytes_->size(),
                     " bytes, the shortest NIfTI has ", kShortest, ") is it complete?");
    bytes_->read(0, std::min<std::int64_t>(bytes_->size(), kHeader2), raw);
    const HeaderBytes plain(raw, false), turned(raw, true);
    const auto size_is = [&](std::size_t n) {
      const auto wanted = static_cast<std::int32_t>(n);
      swapped_ = turned.at<std::int32_t>(0) == wanted;
      return swapped_ || plain.at<std::int32_t>(0) == wanted;
    };
    const bool second =
        !size_is(kHeader1) && size_is(kHeader2) && bytes_->size() >= static_cast<std::int64_t>(kHeader2);
    const std::string magic(reinterpret_cast<const char*>(raw) + (second ? 4 : 344), 3);
    TESSERA_VALIDATE((second || size_is(kHeader1)) && magic == (second ? "n+2" : "n+1"), "cannot read ", path,
                     " (its header is not that of a NIfTI file in one piece) convert it to .nii");
    const HeaderBytes& h = swapped_ ? turned : plain;
    header_ = header_of(h, second);
    if (!second) header_.units = raw[123];
    read_type();
    read_axes(part);
    read_scale();
    describe();
  }

  std::unique_ptr<ImageSource> source() {
    return raw_grid_source(std::move(bytes_), grid_, std::move(about_), std::move(metadata_));
  }

 private:
  [[noreturn]] void refuse(const std::string& problem, const std::string& why,
                           const std::string& what) const {
    throw InputError(concat("cannot read ", path_, ": ", problem, " (", why, ") ", what));
  }

  void read_type() {
    for (const NiftiType& known : kNiftiTypes)
      if (known.code == header_.type) voxel_ = known;
    if (voxel_.code == 0)
      refuse(concat("its datatype is ", header_.type),
             "real integers of 8 to 64 bits, float32, float64 and RGB are known", "convert it");
    grid_.type = voxel_.type;
    grid_.element = voxel_.bytes;
    grid_.swapped = swapped_ && voxel_.bytes > 1;
    const double offset = header_.offset;
    if (!(offset >= static_cast<double>(kShortest) && offset <= 1e15 && offset == std::floor(offset)))
      refuse(concat("its vox_offset is ", offset),
             concat("samples begin behind the header, at ", kShortest, " or later"), "write it again");
    grid_.offset = static_cast<std::int64_t>(offset);
  }

  // dim: how many, then columns, rows, slices, frames, values of a voxel; more of them of length 1.
  void read_axes(const std::string& part) {
    const std::int64_t axes = header_.dim[0];
    bool good = axes >= 1 && axes <= 7;
    std::array<std::int64_t, 8> n{};
    n.fill(1);
    std::int64_t all = 1;
    for (std::size_t k = 1; good && k <= static_cast<std::size_t>(axes); ++k) {
      n[k] = header_.dim[k];
      good = n[k] >= 1 && !__builtin_mul_overflow(all, n[k], &all) && all < (1LL << 56);
    }
    if (!good || n[6] * n[7] != 1)
      refuse(concat("its dim is ", number_text({header_.dim.begin(), header_.dim.end()})),
             "columns, rows, slices, frames and values of a voxel are known, each 1 or more",
             "write it again");
    std::int64_t frame = 0;
    const std::vector<std::string> words = words_of_part(part);
    if (!words.empty()) {
      frame = words.size() == 1 && words[0].starts_with('t') ? index_of_word(words[0].substr(1)) : -1;
      if (frame < 0 || frame >= n[4])
        refuse(concat("there is no ", part), concat("it has ", n[4], " frames, counted from 0"),
               concat("name one: ", path_, ":/t0"));
    }
    if (words.empty() && n[4] > 1)
      refuse(concat("it has ", n[4], " frames"), "one image is reconstructed",
             concat("name one, counted from 0: ", path_, ":/t0"));
    if (voxel_.samples > 1 && n[5] > 1)
      refuse("its voxels are lists of colors", "one of them is read", "convert it");
    const std::int64_t s = voxel_.samples, frames = n[1] * n[2] * n[3];
    grid_.extent = {s > 1 ? 3 : n[5], n[3], n[2], n[1]};
    grid_.stride = {s > 1 ? 1 : frames * n[4], s * n[1] * n[2], s * n[1], s};
    grid_.offset += frame * frames * s * voxel_.bytes;
    if (s == 4) about_.note = "alpha channel dropped";
  }

  void read_scale() {
    if (header_.slope == 0 || !std::isfinite(header_.slope)) return;
    if (!std::isfinite(header_.inter))
      refuse(concat("its scl_slope is ", header_.slope, ", its scl_inter is none"),
             "values are slope * number + inter", "correct them");
    grid_.slope = header_.slope;
    grid_.inter = header_.inter;
  }

  void describe() {
    std::vector<double> affine = affine_of(header_);
    std::array<double, 3> size{header_.pixdim[3], header_.pixdim[2], header_.pixdim[1]};
    for (std::size_t d = 0; d < 3 && !affine.empty() && header_.sform > 0; ++d) {
      const std::size_t c = 2 - d;
      size[d] =
          std::sqrt(affine[c] * affine[c] + affine[4 + c] * affine[4 + c] + affine[8 + c] * affine[8 + c]);
    }
    const int length = header_.units & 7;
    const std::string unit = length == 1 ? "m" : length == 2 ? "mm" : length == 3 ? "\u00b5m" : "";
    // Sizes of 1 without a unit are what writers put where nobody said any.
    const bool said = !unit.empty() || size != std::array<double, 3>{1, 1, 1};
    for (std::size_t d = 0; d < 3 && said; ++d) {
      if (!std::isfinite(size[d]) || size[d] == 0) continue;
      about_.grid[d].spacing = std::abs(size[d]);
      about_.grid[d].unit = unit;
    }
    about_.orientation = directions_of(affine);
    if (!affine.empty()) metadata_.text.emplace_back(kAffine, number_text(affine));
    if (!header_.description.empty()) metadata_.text.emplace_back("descrip", header_.description);
  }

  std::string path_;
  std::unique_ptr<GridBytes> bytes_;
  bool swapped_ = false;
  NiftiHeader header_;
  NiftiType voxel_{};
  RawGrid grid_;
  SourceInfo about_;
  Metadata metadata_;
};

class NiftiSink final : public SpooledSink {
 public:
  NiftiSink(const std::string& path, const ImageRecord& record)
      : SpooledSink(path, record), packed_(path.size() > 3 && path.ends_with("z")) {}

 private:
  static constexpr std::int64_t kAtOnce = 4 << 20;

  void encode(const std::string& temporary) override {
    OutputFile plain(temporary, OutputFile::Use::open, temporary);
    gzFile file = packed_ ? gzopen(temporary.c_str(), "wb5") : nullptr;
    if (packed_ && !file) fail("zlib cannot open it");
    std::unique_ptr<gzFile_s, int (*)(gzFile)> closes(file, gzclose);
    const auto put = [&](const std::uint8_t* bytes, std::int64_t count) {
      beat();
      if (!packed_)
        plain.append(bytes, count);
      else if (gzwrite(file, bytes, static_cast<unsigned>(count)) != count)
        fail("zlib cannot write");
    };
    const std::vector<std::uint8_t> head = header();
    put(head.data(), std::ssize(head));
    // Channel after channel; in the raw file they stand beside each other.
    const std::int64_t channels = record().space.channels, sample = sample_bytes();
    const InputFile raw(raw_path());
    const std::int64_t pixels = bytes() / (channels * sample);
    const std::int64_t most = std::max<std::int64_t>(1, kAtOnce / (channels * sample));
    std::vector<std::uint8_t> from, to;
    for (std::int64_t c = 0; c < channels; ++c)
      for (std::int64_t at = 0; at < pixels; at += most) {
        const std::int64_t n = std::min(most, pixels - at);
        from.resize(static_cast<std::size_t>(n * channels * sample));
        raw.read(at * channels * sample, std::ssize(from), from.data());
        to.resize(static_cast<std::size_t>(n * sample));
        for (std::int64_t k = 0; k < n; ++k)
          std::memcpy(to.data() + k * sample, from.data() + (k * channels + c) * sample,
                      static_cast<std::size_t>(sample));
        put(to.data(), std::ssize(to));
      }
    if (packed_ && gzclose(closes.release()) != Z_OK) fail("zlib cannot write its end");
    plain.close();
  }

  // NIfTI-1, or NIfTI-2 where a side is longer than its numbers reach.
  std::vector<std::uint8_t> header() const {
    const ImageSpace& space = record().space;
    const Index3 n = space.box.extents();
    const bool second = std::max({n[0], n[1], n[2], space.channels}) > 32767;
    std::vector<std::uint8_t> out(second ? kHeader2 + 4 : static_cast<std::size_t>(kShortest));
    const auto put = [&](std::size_t at, auto value) { std::memcpy(out.data() + at, &value, sizeof value); };
    const auto real = [&](std::size_t first, std::size_t wide, std::size_t k, double value) {
      if (second)
        put(wide + 8 * k, value);
      else
        put(first + 4 * k, static_cast<float>(value));
    };
    put(0, static_cast<std::int32_t>(second ? kHeader2 : kHeader1));
    std::memcpy(out.data() + (second ? 4 : 344), second ? "n+2\0\r\n\032\n" : "n+1", second ? 8 : 4);
    const std::array<std::int64_t, 8> dim{
        space.channels > 1 ? 5 : n[0] > 1 ? 3 : 2, n[2], n[1], n[0], 1, space.channels, 1, 1};
    for (std::size_t k = 0; k < 8; ++k) {
      if (second)
        put(16 + 8 * k, dim[k]);
      else
        put(40 + 2 * k, static_cast<std::int16_t>(dim[k]));
    }
    const int bits = record().bits;
    put(second ? 12 : 70, static_cast<std::int16_t>(bits == 8 ? 2 : bits == 16 ? 512 : 16));
    put(second ? 14 : 72, static_cast<std::int16_t>(bits));
    if (second)
      put(168, static_cast<std::int64_t>(out.size()));
    else
      put(108, static_cast<float>(out.size()));
    real(112, 176, 0, 1);  // slope
    put_grid(real, out, second);
    return out;
  }

  template <class Real>
  void put_grid(const Real& real, std::vector<std::uint8_t>& out, bool second) const {
    const ImageSpace& space = record().space;
    // Lengths in millimeters; others, and sizes without a unit, as they are.
    bool lengths = true, known = true;
    for (std::size_t d = space.box.extent(0) > 1 ? 0 : 1; d < 3; ++d) {
      known = known && space.grid[d].spacing > 0;
      lengths = lengths && meters_of(space.grid[d].unit) > 0;
    }
    PlaceTexts places = record().metadata.text;
    move_place(places, space);
    std::vector<double> affine = numbers_of(places, kAffine, 12), place = numbers_of(places, kTranslation, 3);
    const bool ours = affine.empty();
    if (ours) affine.assign(12, 0);
    real(76, 104, 0, 1);
    for (std::size_t d = 0; d < 3; ++d) {
      const double unit = lengths && known && ours ? meters_of(space.grid[d].unit) / 1e-3 : 1;
      const double size = space.grid[d].spacing > 0 ? space.grid[d].spacing * (unit > 0 ? unit : 1) : 1;
      real(76, 104, 3 - d, size);
      if (ours) affine[4 * (2 - d) + 2 - d] = size;
      if (ours && !place.empty()) affine[4 * (2 - d) + 3] = place[d] * (unit > 0 ? unit : 1);
    }
    for (std::size_t k = 4; k < 8; ++k) real(76, 104, k, 1);
    const std::string unit = ours && lengths && known ? "mm" : space.grid[2].unit;
    const int code = unit == "m" ? 1 : unit == "mm" ? 2 : meters_of(unit) == 1e-6 ? 3 : 0;
    if (second) {
      std::memcpy(out.data() + 500, &code, sizeof code);
    } else {
      out[123] = static_cast<std::uint8_t>(code);
    }
    const std::int32_t form = 2;
    const auto form16 = static_cast<std::int16_t>(form);
    std::memcpy(out.data() + (second ? 348 : 254), second ? static_cast<const void*>(&form) : &form16,
                second ? 4 : 2);
    for (std::size_t k = 0; k < 12; ++k) real(280, 400, k, affine[k]);
    for (const auto& [key, text] : places)
      if (key == "descrip")
        std::memcpy(out.data() + (second ? 240 : 148), text.data(), std::min<std::size_t>(text.size(), 79));
  }

  bool packed_;
};

}  // namespace

ImageFormat nifti_format() {
  ImageFormat f;
  f.name = "NIfTI";
  f.suffixes = {".nii.gz", ".nii"};
  f.parts = true;
  f.knows = [](std::string_view head, bool named) {
    using namespace std::string_view_literals;
    return head.starts_with("\x5c\x01\0\0"sv) || head.starts_with("\0\0\x01\x5c"sv) ||
           head.starts_with("\x1c\x02\0\0"sv) || head.starts_with("\0\0\x02\x1c"sv) ||
           (named && head.starts_with("\x1f\x8b"sv));
  };
  f.open = [](const std::string& file, const std::string& part) {
    return Nifti(file, part.empty() ? "" : part.substr(1)).source();
  };
  f.create = [](const std::string& file, const ImageRecord& record, const Communicator&) {
    return std::make_unique<NiftiSink>(file, record);
  };
  f.bits = {8, 16, 32};
  f.volumes = true;
  f.picture = false;
  return f;
}

}  // namespace tessera::io
