// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tessera/io/image_source.hpp"
#include "tessera/io/posix_file.hpp"

namespace tessera::io {

/// The bytes of a file, or of one that gzip packed, which is then unpacked into memory as it is opened.
class GridBytes {
 public:
  explicit GridBytes(const std::string& path);
  bool packed() const { return packed_; }
  std::int64_t size() const { return packed_ ? std::ssize(unpacked_) : file_.size(); }
  /// InputError where the file ends before.
  void read(std::int64_t offset, std::int64_t count, void* to) const;
  const std::string& path() const { return file_.path(); }

 private:
  InputFile file_;
  bool packed_ = false;
  std::vector<std::uint8_t> unpacked_;
};

/// Where the samples of an array lie behind a header: channels, slices, rows, columns.
struct RawGrid {
  std::int64_t offset = 0;  // of the first sample
  std::string type;         // as number_of() has it
  std::int64_t element = 1;
  bool swapped = false;
  std::array<std::int64_t, 4> extent{1, 1, 1, 1}, stride{};  // samples
  double slope = 1, inter = 0;                               // value = slope * number + inter
};

/// An array behind a header, read by boxes. `about`: all that the header says; box, channels and type follow from the
/// grid. InputError where the file is too short for it.
std::unique_ptr<ImageSource> raw_grid_source(std::unique_ptr<GridBytes> bytes, const RawGrid& grid,
                                             SourceInfo about, Metadata metadata);

/// Numbers of a header.
class HeaderBytes {
 public:
  HeaderBytes(const std::uint8_t* bytes, bool swapped) : bytes_(bytes), swapped_(swapped) {}
  template <class T>
  T at(std::size_t offset) const;
  std::string text(std::size_t offset, std::size_t count) const;  // to its first 0, without blanks behind

 private:
  const std::uint8_t* bytes_;
  bool swapped_;
};

}  // namespace tessera::io
