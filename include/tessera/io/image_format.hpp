// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/comm/communicator.hpp"
#include "tessera/io/image_sink.hpp"
#include "tessera/io/image_source.hpp"

namespace tessera {

/// A kind of file: one row of a table, and one folder or file that knows it.
struct ImageFormat {
  std::string name;
  std::vector<std::string> suffixes{};  // lower case, with the dot; the first is the one that messages name
  /// FILE:/PART names one image of several: open() gets "/PART", or "" where a path names the file alone.
  bool parts = false;
  /// One file may hold the parts of a measurement (measurement_file.hpp).
  bool measurements = false;
  /// Whether a file that begins with these 10 bytes (fewer, where it is shorter) is of this kind; `named`: its
  /// suffix says so. A file named as one of the formats that have this is opened by the one that knows it.
  /// Empty: the suffix decides.
  std::function<bool(std::string_view head, bool named)> knows{};
  /// Of a format whose files are folders: the file inside that says so, or "". Such a folder may have any name.
  std::function<std::string(const std::string& folder)> folder_mark{};
  /// Not collective. InputError where the file or the part cannot be read. Empty: the format is only written.
  std::function<std::unique_ptr<ImageSource>(const std::string& file, const std::string& part)> open{};
  /// What else FILE:/PART can name: "/PART" and a few words each, for `tessera info`. Not collective; InputError as open().
  std::function<std::vector<std::pair<std::string, std::string>>(const std::string& file)> list{};
  /// Empty: the format is only read. Of a shared format collective, else called on rank 0 with a communicator
  /// of its own. The record is one that holds() and writes() allow.
  std::function<std::unique_ptr<ImageSink>(const std::string& file, const ImageRecord&, const Communicator&)>
      create{};
  bool shared = false;                   // every rank writes its own box
  std::vector<int> bits{};               // of a sample that is written: 8, 16, 32, 64
  std::int64_t side = 0;                 // most pixels a side, written; 0: any number
  std::vector<std::int64_t> channels{};  // that can be written; none: any number
  bool volumes = false;                  // several slices can be written
  bool picture = true;    // one in 8 bits is there to be looked at; else it holds measured values
  std::string library{};  // name and version of what reads pictures, for `tessera info`

  bool writes(std::int64_t bits) const;
  bool holds_channels(std::int64_t count) const;
};

/// All of them: what reads, writes and checks names goes by this table. A program may add rows before its
/// first job (tests/extension).
std::vector<ImageFormat>& image_formats();
/// By the suffix of the file, whatever part of it the path names; null for an unknown one.
const ImageFormat* find_format(const std::string& path);
/// Of a file that is to be written; InputError for any other.
const ImageFormat& output_format(const std::string& path);
/// One that can be written in 8 bits, to be looked at.
bool is_picture(const std::string& path);
/// First suffixes of the rows that `take` accepts: ".png, .jpg or .tif".
std::string suffix_list(const std::function<bool(const ImageFormat&)>& take);

/// What a path in a job names.
struct ImagePath {
  const ImageFormat* format = nullptr;
  std::string file;
  std::string part = {};  // "/2" of FILE.tif:/2, or empty
};
/// InputError for a suffix that no format has. Not collective.
ImagePath image_path(const std::string& path);
/// Not collective. The file that stands for what a path names, without its part: itself, or of a folder the mark of its
/// format; "" where neither is there. Its contents tell one image from another.
std::string standing_file(const std::string& path);
/// Not collective. The image that a path names, by what the file holds inside.
std::unique_ptr<ImageSource> open_image(const std::string& path);
/// Not collective. A file that this process writes alone. InputError for what the format does not have.
std::unique_ptr<ImageSink> create_image(const std::string& path, const ImageRecord& record);
/// InputError where `format` cannot hold the image.
void require_writable(const ImageFormat& format, const std::string& path, const ImageRecord& record);

std::string image_library();  // names and versions of what reads pictures

}  // namespace tessera
