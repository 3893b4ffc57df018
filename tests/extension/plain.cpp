// SPDX-License-Identifier: BSD-3-Clause
// A file format: a header of text, then the samples. It says type, pixel size and one note.
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tessera/core/error.hpp"
#include "tessera/io/files.hpp"
#include "tessera/io/image_format.hpp"

namespace tessera {
namespace {

// plain image
// size 3 1 60 83        channels, slices, rows, columns
// type float32          or uint8
// pixel 1 0.5 0.5 um    along slices, rows and columns; may be missing
// note any text         may be missing
//
// An empty line ends it. Samples follow, channel after channel, as they lie in memory.

class PlainSource final : public ImageSource {
 public:
  explicit PlainSource(const std::string& path) : path_(path), file_(path, std::ios::binary) {
    std::string line, key;
    std::getline(file_, line);
    TESSERA_VALIDATE(line == "plain image", "cannot read ", path, " (its first line differs) write it again");
    std::int64_t channels = 0;
    Index3 size{};
    while (std::getline(file_, line) && !line.empty()) {
      std::istringstream words(line);
      words >> key;
      if (key == "size") words >> channels >> size[0] >> size[1] >> size[2];
      if (key == "type") words >> info_.type;
      if (key == "pixel")
        for (ImageSpace::Axis& axis : info_.grid) words >> axis.spacing;
      if (std::string unit; key == "pixel" && words >> unit)
        for (ImageSpace::Axis& axis : info_.grid) axis.unit = unit;
      if (key == "note") metadata_.text.emplace_back("note", line.substr(5));
    }
    TESSERA_VALIDATE(channels > 0 && size[0] > 0 && size[1] > 0 && size[2] > 0 && channels < 1000 &&
                         size[0] < 100000 && size[1] < 100000 && size[2] < 100000,
                     path, " has no size (channels, slices, rows, columns) write one");
    TESSERA_VALIDATE(info_.type == "uint8" || info_.type == "float32", path, " is of the type ", info_.type,
                     " (uint8 and float32 are known) convert it");
    info_.box = Box({0, 0, 0}, size);
    info_.axes = size[0] > 1 ? Axes::volume : Axes::picture;
    info_.channels = channels;
    info_.full_scale = info_.type == "uint8" ? 255 : 1;
    sample_ = info_.type == "uint8" ? 1 : 4;
    first_ = file_.tellg();
  }

  Metadata metadata() override { return metadata_; }

  void read(const Box& box, double* planar) override {
    const std::int64_t n = box.extent(2);
    std::vector<char> row(static_cast<std::size_t>(n * sample_));
    for (std::int64_t c = 0; c < info_.channels; ++c)
      for (std::int64_t z = box.lo()[0]; z < box.hi()[0]; ++z)
        for (std::int64_t y = box.lo()[1]; y < box.hi()[1]; ++y) {
          const Index3 size = info_.box.extents();
          const std::int64_t at = ((c * size[0] + z) * size[1] + y) * size[2] + box.lo()[2];
          file_.seekg(first_ + at * sample_);
          TESSERA_VALIDATE(file_.read(row.data(), std::ssize(row)), path_,
                           " ends before its last sample (it was cut) write it again");
          for (std::int64_t x = 0; x < n; ++x) *planar++ = value(row.data() + x * sample_);
        }
  }

 private:
  double value(const char* bytes) const {
    if (sample_ == 1) return static_cast<unsigned char>(*bytes);
    float value = 0;
    std::memcpy(&value, bytes, sizeof value);
    return value;
  }

  std::string path_;
  std::ifstream file_;
  std::int64_t sample_ = 1, first_ = 0;  // bytes of one, place of the first
  Metadata metadata_;
};

class PlainSink final : public ImageSink {
 public:
  PlainSink(const std::string& path, const ImageRecord& record)
      : path_(path), part_(temporary_name(path + ".part")), record_(record), file_(part_, std::ios::binary) {
    const ImageSpace& space = record.space;
    const Index3 size = space.box.extents();
    file_ << "plain image\nsize " << space.channels << ' ' << size[0] << ' ' << size[1] << ' ' << size[2]
          << "\ntype " << (record.bits == 8 ? "uint8" : "float32") << '\n';
    if (space.grid[1].spacing > 0)
      file_ << "pixel " << space.grid[0].spacing << ' ' << space.grid[1].spacing << ' '
            << space.grid[2].spacing << ' ' << space.grid[1].unit << '\n';
    for (const auto& [key, text] : record.metadata.text)
      if (key == "note") file_ << "note " << text << '\n';
    file_ << '\n';
    first_ = file_.tellp();
    if (!file_) throw RunError("cannot write " + path);
  }
  ~PlainSink() override {
    std::error_code none;
    std::filesystem::remove(part_, none);
  }

  void write(const Box& band, const float* planar) override {
    const Box& whole = record_.space.box;
    const Index3 at = band.lo() - whole.lo(), size = whole.extents();
    for (std::int64_t c = 0; c < record_.space.channels; ++c) {
      file_.seekp(first_ + ((c * size[0] + at[0]) * size[1] + at[1]) * size[2] * (record_.bits / 8));
      for (std::int64_t k = 0; k < band.pixels(); ++k, ++planar)
        if (record_.bits == 8)
          file_.put(static_cast<char>(whole_number(*planar, 8)));
        else
          file_.write(reinterpret_cast<const char*>(planar), sizeof *planar);
    }
    if (!file_) throw RunError("cannot write " + path_);
  }

  void finish() override {
    file_.close();
    if (!file_) throw RunError("cannot write " + path_);
    write_whole(path_, [&](const std::string& temporary) { std::filesystem::rename(part_, temporary); });
  }

 private:
  std::string path_, part_;
  ImageRecord record_;
  std::ofstream file_;
  std::int64_t first_ = 0;
};

}  // namespace

ImageFormat plain() {
  return {
      .name = "plain",
      .suffixes = {".plain"},
      .open = [](const std::string& file, const std::string&) { return std::make_unique<PlainSource>(file); },
      .create = [](const std::string& file, const ImageRecord& record,
                   const Communicator&) { return std::make_unique<PlainSink>(file, record); },
      .bits = {8, 32},
      .volumes = true};
}

}  // namespace tessera
