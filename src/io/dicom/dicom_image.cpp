// SPDX-License-Identifier: BSD-3-Clause
// DICOM: a file with frames, or a folder of slices as a volume.
// Source: DICOM PS3.3, C.7.6.2 (image plane), C.7.6.3 (pixels), C.7.6.16 (functional groups), C.11.1 (rescale).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <memory>
#include <numeric>

#include "array_copy.hpp"
#include "dicom/dicom_series.hpp"
#include "formats.hpp"
#include "places.hpp"
#include "stored_image.hpp"
#include "tessera/core/error.hpp"
#include "tessera/core/phase.hpp"
#include "tessera/io/posix_file.hpp"

namespace tessera::io {
namespace {

class DicomSource final : public ImageSource {
 public:
  explicit DicomSource(DicomStack stack) : stack_(std::move(stack)) {
    info_ = stack_.info;
    const DicomPixels& p = stack_.pixels;
    info_.box = Box({0, 0, 0}, {std::ssize(stack_.slices), p.rows, p.columns});
    info_.axes = info_.box.extent(0) > 1 ? Axes::volume : Axes::picture;
    info_.channels = p.channels;
    const bool plain = std::all_of(stack_.slices.begin(), stack_.slices.end(),
                                   [](const DicomSlice& s) { return s.slope == 1 && s.intercept == 0; });
    info_.type = plain ? p.type() : p.bytes == 4 ? "float64" : "float32";
    info_.full_scale = full_scale(info_.type);
  }

  Metadata metadata() override { return stack_.metadata; }
  std::vector<std::pair<std::string, std::string>> about() override {
    const DicomPixels& p = stack_.pixels;
    std::vector<std::pair<std::string, std::string>> out{
        {"packed", fmt::format("not packed, {} of {} bits", p.stored, 8 * p.bytes)}};
    const DicomSlice& first = stack_.slices[0];
    if (first.slope != 1 || first.intercept != 0)
      out.emplace_back(
          "stored", fmt::format("{}, value = {:g} * number + {:g}", p.type(), first.slope, first.intercept));
    return out;
  }

  void read(const Box& box, double* planar) override {
    const DicomPixels& p = stack_.pixels;
    const std::int64_t row = p.columns * p.channels * p.bytes, width = box.extent(2);
    std::vector<std::uint8_t> raw;
    for (std::int64_t z = 0; z < box.extent(0); ++z) {
      const DicomSlice& slice = stack_.slices[static_cast<std::size_t>(box.lo()[0] + z)];
      const InputFile file(slice.path);
      // Planes of colors lie one behind the other, or the samples of a pixel do.
      const std::int64_t planes = p.planar ? p.channels : 1, own = p.planar ? row / p.channels : row;
      for (std::int64_t c = 0; c < planes; ++c)
        for (std::int64_t y = 0; y < box.extent(1); ++y) {
          const std::int64_t at = slice.offset + (c * p.rows + box.lo()[1] + y) * own;
          raw.resize(static_cast<std::size_t>(own));
          beat();
          file.read(at, own, raw.data());
          for (std::int64_t k = 0; k < (p.planar ? 1 : p.channels); ++k) {
            const std::int64_t channel = p.planar ? c : k, step = p.planar ? 1 : p.channels;
            double* const to = planar + ((channel * box.extent(0) + z) * box.extent(1) + y) * width;
            for (std::int64_t x = 0; x < width; ++x)
              to[x] = value(raw.data() + ((box.lo()[2] + x) * step + k) * p.bytes, slice);
          }
        }
    }
  }

 private:
  double value(const std::uint8_t* bytes, const DicomSlice& slice) const {
    const DicomPixels& p = stack_.pixels;
    std::uint32_t word = 0;
    for (std::int64_t b = 0; b < p.bytes; ++b) word |= static_cast<std::uint32_t>(bytes[b]) << (8 * b);
    word >>= p.high + 1 - p.stored;
    const std::uint32_t all = p.stored == 32 ? ~0U : (1U << p.stored) - 1;
    word &= all;
    const bool below = p.with_sign && (word >> (p.stored - 1) & 1U) != 0;
    const double number = static_cast<double>(word) - (below ? std::exp2(p.stored) : 0);
    if (p.has_padding && number >= p.padding[0] && number <= p.padding[1])
      return std::numeric_limits<double>::quiet_NaN();
    return slice.slope * number + slice.intercept;
  }

  DicomStack stack_;
};

std::unique_ptr<ImageSource> open_dicom(const std::string& path, const std::string& part) {
  return std::make_unique<DicomSource>(dicom_stack(path, part));
}

}  // namespace

ImageFormat dicom_format() {
  ImageFormat f;
  f.name = "DICOM";
  f.suffixes = {".dcm", ".dicom"};
  f.parts = true;
  f.open = open_dicom;
  f.list = list_dicom;
  f.picture = false;
  return f;
}

ImageFormat dicom_series_format() {
  ImageFormat f = dicom_format();
  f.name = "DICOM series";
  f.suffixes.clear();
  f.folder_mark = [](const std::string& folder) {
    const std::vector<std::string> files = dicom_files(folder, DicomFiles::first);
    return files.empty() ? "" : files[0];
  };
  return f;
}

}  // namespace tessera::io
