// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tessera/core/box.hpp"
#include "tessera/io/image_source.hpp"

namespace tessera::io {

/// What the header of a picture says, as its file stores it: before an orientation is applied.
struct StoredInfo {
  std::int64_t height = 0, width = 0, depth = 1;
  std::int64_t channels = 1;   // without alpha
  std::string type = "uint8";  // of a sample: uint8, int8, ... uint64, int64, float16, float32, float64
  std::string note = {};       // what was dropped, applied, expanded or picked; for the user
  int orientation = 1;         // EXIF 2.3, tag 274
  bool random_access = false;  // regions can be decoded alone; else only from the top
  std::array<std::int64_t, 2> tile{1, 0};  // rows, columns that are decoded together; 0 columns: whole rows
  std::array<ImageSpace::Axis, 3> grid = ImageSpace().grid;
  std::vector<std::string> channel_names{};
  std::string directions{};  // which way axes point
  StoredLight light{};
  std::string packed{};  // how samples lie in the file, for `tessera info`
};

/// An image as its file stores it: one class per library that decodes.
class StoredImage {
 public:
  /// Takes a part of a row: channel, slice, row, first column, values as in the file (NaN: missing), how many.
  using Sink = std::function<void(std::int64_t, const Index3&, const double*, std::int64_t)>;

  virtual ~StoredImage() = default;
  const StoredInfo& info() const { return info_; }
  /// Every sample of the slices, rows and columns once, in any order. Where !random_access, rows above the
  /// last read make the decoder start again.
  virtual void read(const Box& stored, const Sink& sink) = 0;
  virtual Metadata metadata() { return {}; }

 protected:
  void add_note(const std::string& text) { info_.note += (info_.note.empty() ? "" : ", ") + text; }
  StoredInfo info_;
};

/// The picture as it is displayed: its orientation applied.
///
/// Memory: a row, a tile, or a band beyond what is read, and a strip as it is compressed; interlaced PNG and
/// progressive JPEG are held whole by their decoders, and so is a FITS that gzip packed.
std::unique_ptr<ImageSource> displayed(std::unique_ptr<StoredImage> stored);

/// The words of a part, "c1/z2" is {c1, z2}.
std::vector<std::string> words_of_part(const std::string& part);
/// A number counted from 0, -1 for anything else.
std::int64_t index_of_word(const std::string& word);

}  // namespace tessera::io
