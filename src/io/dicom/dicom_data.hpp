// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tessera::io {

struct DicomValue;
/// Elements by their tag, group and element: 0x00280010.
using DicomSet = std::map<std::uint32_t, DicomValue>;
struct DicomValue {
  std::string bytes;            // as they stand in the file; empty where it is a sequence, or long
  std::vector<DicomSet> items;  // of a sequence
};

/// The header of a DICOM file, uncompressed and little endian: all elements before the samples.
/// Source: DICOM PS3.5 (data structures), PS3.10 (files).
struct DicomFile {
  DicomSet set;
  std::int64_t pixels = 0, pixel_bytes = 0;  // where the samples lie; 0 bytes: it has none
};

/// Not collective. InputError, with the name of a transfer syntax that is not read. Nothing is allocated by a length that
/// the file does not have.
DicomFile read_dicom(const std::string& path);
/// Whether a file begins as DICOM's do.
bool is_dicom(const std::string& path);

/// Text without blanks around it, of lists the whole; "" where there is none.
std::string dicom_text(const DicomSet& set, std::uint32_t tag);
/// Decimal texts; empty where there is none, or not `count` finite ones.
std::vector<double> dicom_numbers(const DicomSet& set, std::uint32_t tag, std::size_t count);
/// The first number of 2 bytes without sign; `otherwise` where there is none.
std::int64_t dicom_short(const DicomSet& set, std::uint32_t tag, std::int64_t otherwise);
/// The first item of a sequence; null where there is none.
const DicomSet* dicom_item(const DicomSet& set, std::uint32_t tag);

}  // namespace tessera::io
