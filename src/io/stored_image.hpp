// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tessera/core/box.hpp"
#include "tessera/io/image_file.hpp"

namespace tessera::io {

/// An image as its file stores it, before an orientation is applied: one class per library that decodes.
class StoredImage {
 public:
  /// Takes a part of a row: channel, slice, row, first column, values as in the file (NaN: missing), how many.
  using Sink = std::function<void(std::int64_t, const Index3&, const double*, std::int64_t)>;

  virtual ~StoredImage() = default;
  /// height, width, tile: as stored.
  const ImageInfo& info() const { return info_; }
  /// Every sample of the slices, rows and columns once, in any order. Where !random_access, rows above the
  /// last read make the decoder start again.
  virtual void read(const Box& stored, const Sink& sink) = 0;
  virtual std::vector<std::uint8_t> profile() { return {}; }  // ICC

 protected:
  void add_note(const std::string& text) { info_.note += (info_.note.empty() ? "" : ", ") + text; }
  ImageInfo info_;
};

/// `part` is what follows FILE:/ in a job. InputError where the file or the part of it cannot be read.
std::unique_ptr<StoredImage> open_png(const std::string& path);
std::unique_ptr<StoredImage> open_jpeg(const std::string& path);
std::unique_ptr<StoredImage> open_tiff(const std::string& path, const std::string& part);
std::unique_ptr<StoredImage> open_fits(const std::string& path, const std::string& part);

/// The words of a part, "c1/z2" is {c1, z2}.
std::vector<std::string> words_of_part(const std::string& part);
/// A number counted from 0, -1 for anything else.
std::int64_t index_of_word(const std::string& word);

}  // namespace tessera::io
