// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tessera/io/image_source.hpp"

namespace tessera::io {

/// How samples lie in the files of a series: the same in all.
struct DicomPixels {
  std::int64_t rows = 0, columns = 0, channels = 1;
  std::int64_t bytes = 2;  // of a sample
  int stored = 16, high = 15;
  bool with_sign = false, planar = false, has_padding = false;
  std::array<double, 2> padding{};  // from, to: stored numbers that are no samples
  std::string type() const;
  friend bool operator==(const DicomPixels&, const DicomPixels&) = default;
};

struct DicomSlice {
  std::string path;
  std::int64_t offset = 0;  // of its first sample
  double slope = 1, intercept = 0;
};

/// A volume, or a picture.
struct DicomStack {
  DicomPixels pixels;
  std::vector<DicomSlice> slices;
  SourceInfo info;  // what the files say; box, channels and type follow from the others
  Metadata metadata;
};

/// `path`: a file, of whose frames `part` may name one (/3), or /slices; or a folder, of whose series it may name one.
/// Slices stand along their normal, evenly. InputError. Not collective.
DicomStack dicom_stack(const std::string& path, const std::string& part);

/// Files of a folder that begin as DICOM's do, ascending by name.
enum class DicomFiles { first, all };
std::vector<std::string> dicom_files(const std::string& folder, DicomFiles which);

/// The series of a folder, or frames of a file, as ImageFormat::list has them; nothing where there is one.
std::vector<std::pair<std::string, std::string>> list_dicom(const std::string& path);

}  // namespace tessera::io
