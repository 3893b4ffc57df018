// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/io/image_format.hpp"

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "formats.hpp"
#include "tessera/core/error.hpp"
#include "tessera/io/posix_file.hpp"

namespace tessera {
namespace {

// "a, b or c"
std::string listed(const std::vector<std::string>& words, const char* last) {
  std::string text;
  for (std::size_t k = 0; k < words.size(); ++k)
    text += (k == 0 ? "" : k + 1 == words.size() ? concat(' ', last, ' ') : ", ") + words[k];
  return text;
}

std::string file_of(const std::string& path) { return path.substr(0, path.rfind(":/")); }

const ImageFormat* by_suffix(const std::string& file) {
  std::string name = std::filesystem::path(file).filename().string();
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (const ImageFormat& f : image_formats())
    for (const std::string& suffix : f.suffixes)
      if (name.size() > suffix.size() && name.ends_with(suffix)) return &f;
  return nullptr;
}

// The format whose folder this is; null for any other.
const ImageFormat* by_mark(const std::string& folder) {
  std::error_code none;
  if (!std::filesystem::is_directory(folder, none)) return nullptr;
  for (const ImageFormat& f : image_formats())
    if (f.folder_mark && !f.folder_mark(folder).empty()) return &f;
  return nullptr;
}

// The format of what the file holds, whatever its suffix says.
const ImageFormat& inside(const ImagePath& path) {
  if (const ImageFormat* const folder = by_mark(path.file)) return *folder;
  if (path.format->folder_mark) {
    std::error_code none;
    TESSERA_VALIDATE(std::filesystem::exists(path.file, none), "cannot read ", path.file,
                     " (there is none) check the path; relative paths start at the job file");
    throw InputError(concat("cannot read ", path.file, " (", path.format->name, " is a folder",
                            std::filesystem::is_directory(path.file, none) ? ", and this one has no metadata"
                                                                           : ", and this is a file",
                            ") name the folder of a store; unpack it where it is zipped"));
  }
  if (!path.format->knows) return *path.format;
  std::string head(10, '\0');
  {
    const io::InputFile file(path.file);  // its messages name what is wrong with the path
    head.resize(static_cast<std::size_t>(std::min<std::int64_t>(file.size(), std::ssize(head))));
    file.read(0, std::ssize(head), head.data());
  }
  if (path.format->knows(head, true)) return *path.format;
  std::vector<std::string> names;
  for (const ImageFormat& f : image_formats()) {
    if (!f.knows || !f.open) continue;
    if (f.knows(head, false)) return f;
    names.push_back(f.name);
  }
  throw InputError(
      concat("cannot read ", path.file, " (it is neither ", listed(names, "nor"), " inside) convert it"));
}

std::unique_ptr<ImageSource> open_as(const ImageFormat& format, const ImagePath& path) {
  TESSERA_VALIDATE(format.parts || path.part.empty(), path.file, " is a ", format.name,
                   " file (it has no part ", path.part.empty() ? "" : path.part.substr(1),
                   ") name the file alone");
  return format.open(path.file, path.part);
}

}  // namespace

bool ImageFormat::writes(std::int64_t n) const {
  return std::find(bits.begin(), bits.end(), n) != bits.end();
}
bool ImageFormat::holds_channels(std::int64_t count) const {
  return count >= 1 &&
         (channels.empty() || std::find(channels.begin(), channels.end(), count) != channels.end());
}

std::vector<ImageFormat>& image_formats() {
  static std::vector<ImageFormat> formats = [] {
    std::vector<ImageFormat> rows{io::png_format(),  io::jpeg_format(),  io::tiff_format(),
                                  io::fits_format(), io::npy_format(),   io::hdf5_format(),
                                  io::zarr_format(), io::nifti_format(), io::mrc_format()};
    for (ImageFormat& kind : io::hdf5_kinds()) rows.push_back(std::move(kind));
    for (const ImageFormat& kind : {io::viewer_format(), io::packed_fits_format(), io::dicom_format(),
                                    io::dicom_series_format(), io::txm_format()})
      rows.push_back(kind);
    return rows;
  }();
  return formats;
}

const ImageFormat* find_format(const std::string& path) {
  const ImageFormat* const whole = by_suffix(file_of(path));
  return whole && whole->parts ? whole : by_suffix(path);
}

const ImageFormat& output_format(const std::string& path) {
  const ImageFormat* const f = by_suffix(path);
  TESSERA_VALIDATE(f && f->create, path, " is no known kind of file (by its suffix) use ",
                   suffix_list([](const ImageFormat& one) { return one.create != nullptr; }));
  return *f;
}

bool is_picture(const std::string& path) {
  const ImageFormat* const f = by_suffix(path);
  return f && f->create && f->picture && f->writes(8);
}

std::string suffix_list(const std::function<bool(const ImageFormat&)>& take) {
  std::vector<std::string> suffixes;
  for (const ImageFormat& f : image_formats())
    if (take(f)) suffixes.push_back(f.suffixes.front());
  return listed(suffixes, "or");
}

ImagePath image_path(const std::string& path) {
  const std::string file = file_of(path);
  if (const ImageFormat* const whole = by_suffix(file); whole && whole->parts && whole->open)
    return {whole, file, file.size() < path.size() ? path.substr(file.size() + 1) : ""};
  if (const ImageFormat* const folder = by_mark(file))
    return {folder, file, file.size() < path.size() ? path.substr(file.size() + 1) : ""};
  const ImageFormat* const format = by_suffix(path);
  std::vector<std::string> known;
  for (const ImageFormat& f : image_formats())
    if (f.open && !f.suffixes.empty()) known.push_back(f.suffixes.front());
  known.push_back("FILE.h5:/dataset");
  TESSERA_VALIDATE(format && format->open, "cannot read ", path, " (the suffix says the format) use ",
                   listed(known, "or"));
  return {format, path};
}

std::string standing_file(const std::string& path) {
  std::error_code none;
  const std::string file = file_of(path);
  for (const std::string& name : {path, file})
    if (std::filesystem::is_regular_file(name, none)) return name;
  const ImageFormat* const folder = by_mark(file);
  return folder ? folder->folder_mark(file) : "";
}

std::unique_ptr<ImageSource> open_image(const std::string& path) {
  const ImagePath named = image_path(path);
  return open_as(inside(named), named);
}

std::unique_ptr<ImageSink> create_image(const std::string& path, const ImageRecord& record) {
  const ImageFormat& format = output_format(path);
  require_writable(format, path, record);
  return format.create(path, record, Communicator());
}

void require_writable(const ImageFormat& f, const std::string& path, const ImageRecord& record) {
  std::vector<std::string> bits;
  for (const int n : f.bits) bits.push_back(std::to_string(n));
  TESSERA_VALIDATE(f.writes(record.bits), "cannot write ", path, " with ", record.bits, " bits (", f.name,
                   " has ", listed(bits, "or"), ") choose one of them");
  const ImageSpace& space = record.space;
  TESSERA_VALIDATE(f.holds_channels(space.channels), "cannot write ", path, " with ", space.channels,
                   " channels (a picture is gray or RGB) write HDF5");
  TESSERA_VALIDATE(f.volumes || space.box.extent(0) == 1, "cannot write ", path, " with ",
                   space.box.extent(0), " slices (", f.name, " has one) write .tif or HDF5");
  const std::int64_t height = space.box.extent(1), width = space.box.extent(2);
  TESSERA_VALIDATE(!space.box.empty() && (f.side == 0 || (height <= f.side && width <= f.side)),
                   "cannot write ", path, ", ", height, " x ", width, " pixels (the format has 1 to ", f.side,
                   " a side) use .tif or HDF5");
}

std::string image_library() {
  std::vector<std::string> names;
  for (const ImageFormat& f : image_formats())
    if (!f.library.empty() && std::find(names.begin(), names.end(), f.library) == names.end())
      names.push_back(f.library);
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

namespace io {

double full_scale(const std::string& type) { return type == "uint8" ? 255 : type == "uint16" ? 65535 : 1; }

}  // namespace io
}  // namespace tessera
