// SPDX-License-Identifier: BSD-3-Clause
// Scans and volumes of Zeiss' X-ray microscopes. Source: dxchange (read_txrm), txrm2tiff; there is no description of the
// format by those who made it.
#include "txm/txm_image.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <string>

#include "formats.hpp"
#include "stored_image.hpp"
#include "tessera/core/error.hpp"
#include "tessera/core/phase.hpp"

namespace tessera::io {
namespace {

constexpr std::int64_t kMostSide = 1'000'000, kMostImages = 10'000'000, kInFolder = 100;
constexpr const char* kReference = "ReferenceData/Image";

[[noreturn]] void refuse_txm(const CompoundFile& file, const std::string& problem, const std::string& why,
                             const std::string& what) {
  throw InputError(concat("cannot read ", file.path(), ": ", problem, " (", why, ") ", what));
}

// The first numbers of a stream; as many as it has.
template <class T>
std::vector<T> entries(const CompoundFile& file, const std::string& name, std::int64_t most) {
  const std::int64_t n = std::min(most, file.size(name) / static_cast<std::int64_t>(sizeof(T)));
  std::vector<T> out(static_cast<std::size_t>(n));
  if (n > 0) file.read(file.stream(name), 0, n * static_cast<std::int64_t>(sizeof(T)), out.data());
  return out;
}

std::int64_t whole(const CompoundFile& file, const std::string& name, std::int64_t most) {
  const std::vector<std::int32_t> v = entries<std::int32_t>(file, name, 1);
  if (v.empty())
    refuse_txm(file, concat("it has no ", name), "the size of its images is not known", "is it complete?");
  if (v[0] < 1 || v[0] > most)
    refuse_txm(file, concat("its ", name, " is ", v[0]), concat("1 to ", most, " are possible"),
               "is it complete?");
  return v[0];
}

// As short as it is written: 0.65 and not 0.64999998.
double real(float v) { return std::isfinite(v) ? std::stod(fmt::format("{}", v)) : 0; }
double real(const CompoundFile& file, const std::string& name) {
  const std::vector<float> v = entries<float>(file, name, 1);
  return v.empty() ? 0 : real(v[0]);
}

// Millimeters, without the sign that a stage gives them. `moves`: grows true where views differ.
double distance(const CompoundFile& file, const std::string& name, std::int64_t images, bool& moves) {
  constexpr float kSame = 1e-3F;
  const std::vector<float> v = entries<float>(file, name, images);
  if (v.empty()) return 0;
  moves = moves || std::any_of(v.begin(), v.end(),
                               [&](float one) { return !(std::abs(one - v[0]) <= kSame * std::abs(v[0])); });
  return std::abs(real(v[0]));
}

// ImageInfo/XrayGeometry is 1 of a cone, as CIL reads it; a zone plate makes rays parallel, as mbirjax has it.
std::optional<bool> spreads(const CompoundFile& file) {
  const std::vector<std::int32_t> said = entries<std::int32_t>(file, "ImageInfo/XrayGeometry", 1);
  if (!said.empty()) return said[0] == 1;
  for (const std::string& name : file.names(""))
    if (name.find("configzoneplates/") != std::string::npos) return false;
  return std::nullopt;
}

std::string type_of(const CompoundFile& file, const std::string& name) {
  const std::vector<std::int32_t> v = entries<std::int32_t>(file, name, 1);
  if (!v.empty() && v[0] == 5) return "uint16";
  if (!v.empty() && v[0] == 10) return "float32";
  refuse_txm(file, v.empty() ? concat("it has no ", name) : concat("its ", name, " is ", v[0]),
             "5, uint16, and 10, float32, are read", "export it as one of these");
}

// Image k, counted from 0.
std::string image_name(std::int64_t k) {
  return fmt::format("ImageData{}/Image{}", k / kInFolder + 1, k + 1);
}

class TxmSource final : public ImageSource {
 public:
  TxmSource(const std::string& path, const std::string& part) : file_(path), about_(txm_info(file_)) {
    std::string type = about_.type;
    const std::vector<std::string> words = words_of_part(part);
    if (words.size() == 1 && words[0] == "reference" && about_.reference) {
      reference_ = true;
      if (file_.has("ReferenceData/DataType")) type = type_of(file_, "ReferenceData/DataType");
    } else if (!words.empty()) {
      first_ = words.size() == 1 ? index_of_word(words[0]) : -1;
      if (first_ < 0 || first_ >= about_.images)
        refuse_txm(
            file_, concat("there is no ", part),
            concat("it has ", about_.images, about_.images == 1 ? " image" : " images, counted from 0",
                   about_.reference ? ", and a reference" : ""),
            concat("name one: ", path, ":/0", about_.reference ? concat(", or ", path, ":/reference") : ""));
    }
    const bool one = reference_ || !words.empty() || about_.images == 1;
    info_.box = Box({0, 0, 0}, {one ? 1 : about_.images, about_.rows, about_.columns});
    info_.axes = one ? Axes::picture : Axes::volume;
    info_.channels = 1;
    info_.type = type;
    info_.full_scale = full_scale(type);
    sample_ = type == "uint16" ? 2 : 4;
    if (about_.pixel > 0)
      for (std::size_t d = about_.angles.empty() && !one ? 0 : 1; d < 3; ++d) {
        info_.grid[d].spacing = about_.pixel;
        info_.grid[d].unit = "\u00b5m";
      }
  }

  std::vector<std::pair<std::string, std::string>> about() override {
    std::vector<std::pair<std::string, std::string>> out;
    const std::vector<double>& a = about_.angles;
    if (!a.empty())
      out.emplace_back("angles", fmt::format("{} from {:g} to {:g} degrees", a.size(), a.front(), a.back()));
    if (about_.source > 0) out.emplace_back("source", fmt::format("{:g} mm from the axis", about_.source));
    if (about_.detector > 0)
      out.emplace_back("detector", fmt::format("{:g} mm from the axis", about_.detector));
    if (about_.reference) out.emplace_back("reference", "an image of the beam alone, :/reference");
    return out;
  }

  void read(const Box& box, double* planar) override {
    std::vector<std::uint8_t> raw;
    const std::int64_t columns = box.extent(2), row_bytes = about_.columns * sample_;
    const bool all = columns == about_.columns;
    for (std::int64_t z = box.lo()[0]; z < box.hi()[0]; ++z) {
      beat();
      open_image_of(z);
      // Whole rows lie one behind the other.
      const std::int64_t rows = box.extent(1),
                         at_once = all ? std::max<std::int64_t>(1, kBandBytes / row_bytes) : 1;
      for (std::int64_t y = 0; y < rows; y += at_once) {
        const std::int64_t n = std::min(at_once, rows - y);
        raw.resize(static_cast<std::size_t>(n * columns * sample_));
        file_.read(stream_, (box.lo()[1] + y) * row_bytes + box.lo()[2] * sample_, std::ssize(raw),
                   raw.data());
        for (std::int64_t k = 0; k < n * columns; ++k) *planar++ = value(raw.data() + k * sample_);
      }
    }
  }

 private:
  double value(const std::uint8_t* bytes) const {
    if (sample_ == 2) {
      std::uint16_t v = 0;
      std::memcpy(&v, bytes, sizeof v);
      return v;
    }
    float v = 0;
    std::memcpy(&v, bytes, sizeof v);
    return static_cast<double>(v);
  }
  void open_image_of(std::int64_t z) {
    if (open_ == z) return;
    const std::string name = reference_ ? kReference : image_name(first_ + z);
    stream_ = file_.stream(name);
    if (const std::int64_t wanted = about_.rows * about_.columns * sample_; stream_.size < wanted)
      refuse_txm(file_, concat(name, " has ", stream_.size, " bytes"),
                 concat(about_.rows, " x ", about_.columns, " samples of ", info_.type, " take ", wanted),
                 "is it complete?");
    open_ = z;
  }

  CompoundFile file_;
  TxmInfo about_;
  bool reference_ = false;
  std::int64_t first_ = 0, sample_ = 2, open_ = -1;
  CompoundFile::Stream stream_;
};

}  // namespace

TxmInfo txm_info(const CompoundFile& file) {
  TxmInfo out;
  out.columns = whole(file, "ImageInfo/ImageWidth", kMostSide);
  out.rows = whole(file, "ImageInfo/ImageHeight", kMostSide);
  const std::int64_t planned = whole(file, "ImageInfo/NoOfImages", kMostImages);
  const std::vector<std::int32_t> taken = entries<std::int32_t>(file, "ImageInfo/ImagesTaken", 1);
  out.images = !taken.empty() && taken[0] > 0 ? std::min<std::int64_t>(taken[0], planned) : planned;
  out.type = type_of(file, "ImageInfo/DataType");
  for (const std::int64_t k : {std::int64_t{0}, out.images - 1})
    if (!file.has(image_name(k)))
      refuse_txm(file, concat("it has no ", image_name(k)),
                 concat("it says that it has ", out.images, " images"), "is it complete?");
  out.pixel = std::max(0.0, real(file, "ImageInfo/PixelSize"));
  for (const float a : entries<float>(file, "ImageInfo/Angles", out.images))
    out.angles.push_back(static_cast<double>(a));
  if (std::ssize(out.angles) != out.images || out.images < 2) out.angles.clear();
  out.source = distance(file, "ImageInfo/StoRADistance", out.images, out.moves);
  out.detector = distance(file, "ImageInfo/DtoRADistance", out.images, out.moves);
  out.cone = spreads(file);
  const std::int64_t samples = out.rows * out.columns;
  out.reference = file.size(kReference) >= samples * (out.type == "uint16" ? 2 : 4) ||
                  (file.has("ReferenceData/DataType") && file.size(kReference) >= 2 * samples);
  return out;
}

namespace {
constexpr const char* kTxm = "TXM";
}  // namespace

bool is_txm(const ImagePath& path) { return path.format && path.format->name == kTxm; }

ImageFormat txm_format() {
  ImageFormat f;
  f.name = kTxm;
  f.suffixes = {".txrm", ".txm", ".xrm"};
  f.parts = true;
  f.knows = [](std::string_view head, bool) { return CompoundFile::knows(head); };
  f.open = [](const std::string& file, const std::string& part) {
    return std::make_unique<TxmSource>(file, part.empty() ? "" : part.substr(1));
  };
  f.list = [](const std::string& path) {
    const CompoundFile file(path);
    const TxmInfo about = txm_info(file);
    std::vector<std::pair<std::string, std::string>> out;
    for (std::int64_t k = 0; about.images > 1 && k < about.images; ++k)
      out.emplace_back(concat("/", k),
                       about.angles.empty()
                           ? "image"
                           : fmt::format("{:g} degrees", about.angles[static_cast<std::size_t>(k)]));
    return out;
  };
  return f;
}

}  // namespace tessera::io
