// SPDX-License-Identifier: BSD-3-Clause
// tessera convert: an image, or a part of one, in another format.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <vector>

#include "command/command.hpp"
#include "job/same_files.hpp"
#include "tessera/core/error.hpp"
#include "tessera/core/units.hpp"
#include "tessera/domain/decomposition.hpp"
#include "tessera/io/distributed_image.hpp"
#include "tessera/io/files.hpp"
#include "tessera/io/image_format.hpp"
#include "tessera/io/keep_open.hpp"

namespace tessera {
namespace {

struct ConvertArguments {
  std::string in, out, region, version, compression, type = "auto";
  bool force = false;
};

// A block's memory: what is large lies in a file beside OUT that has no name, and leaves memory when others need it.
class Room {
 public:
  Room(std::int64_t bytes, const std::string& beside) : bytes_(static_cast<std::size_t>(bytes)) {
    constexpr std::int64_t kLarge = 1LL << 30;
    if (bytes == 0) return;
    int fd = -1;
    if (bytes > kLarge) {
      const std::string name = temporary_name(beside + ".room");
      fd = ::open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
      if (fd < 0) fail(beside);
      ::unlink(name.c_str());
      const int code = ::posix_fallocate(fd, 0, bytes);  // a full disk is an error now, not a signal later
      if (code != 0) ::close(fd);
      errno = code;
      if (code != 0) fail(beside);
    }
    at_ = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED,
                 fd, 0);
    if (fd >= 0) ::close(fd);
    if (at_ == MAP_FAILED) fail(beside);
  }
  ~Room() {
    if (at_ && at_ != MAP_FAILED) ::munmap(at_, bytes_);
  }
  Room(const Room&) = delete;
  Room& operator=(const Room&) = delete;
  void* data() const { return at_; }

 private:
  [[noreturn]] void fail(const std::string& beside) const {
    throw RunError(concat("no room for ", format_bytes(static_cast<double>(bytes_)), " beside ", beside, " (",
                          std::strerror(errno), ")"));
  }
  std::size_t bytes_;
  void* at_ = nullptr;
};

// "0:8,100:300,:" of slices, rows and columns, or of rows and columns alone.
Box region_of(const std::string& text, const Box& image) {
  std::vector<std::string> parts;
  for (std::size_t at = 0, end = 0; end != std::string::npos; at = end + 1)
    parts.push_back(text.substr(at, (end = text.find(',', at)) - at));
  const std::string how =
      "write FIRST:BEHIND of rows and columns, of a volume of slices first, for example --region "
      "100:300,0:256";
  TESSERA_VALIDATE(parts.size() == 3 || (parts.size() == 2 && image.extent(0) == 1), "--region is ", text,
                   " (", parts.size(), " ranges; the image is ", image, ") ", how);
  Index3 lo = image.lo(), hi = image.hi();
  for (std::size_t k = 0; k < parts.size(); ++k) {
    const std::size_t d = k + 3 - parts.size(), colon = parts[k].find(':');
    const auto number = [&](const std::string& word, std::int64_t& to) {
      if (word.empty()) return true;
      const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), to);
      return error == std::errc() && end == word.data() + word.size();
    };
    TESSERA_VALIDATE(colon != std::string::npos && number(parts[k].substr(0, colon), lo[d]) &&
                         number(parts[k].substr(colon + 1), hi[d]),
                     "--region is ", text, " (", parts[k], " is no range) ", how);
    TESSERA_VALIDATE(lo[d] >= 0 && lo[d] < hi[d] && hi[d] <= image.hi()[d], "--region is ", text, " (",
                     parts[k], " is no part of 0:", image.hi()[d], ") ", how);
  }
  return Box(lo, hi);
}

// Bits that OUT has for samples of a type: the same ones, else floats.
int bits_for(const std::string& type, const ImageFormat& format) {
  if (type == "uint8" && format.writes(8)) return 8;
  if ((type == "uint16" || type == "uint8") && format.writes(16)) return 16;
  const bool wide = type == "float64" || type.ends_with("int32") || type.ends_with("int64");
  if (wide && format.writes(64)) return 64;
  return format.writes(32) ? 32 : format.bits.back();
}

// Of a type that was asked for.
int bits_of(const ConvertArguments& a, const ImageFormat& format) {
  const int bits = std::stoi(a.type.substr(a.type.find_first_of("1368")));
  TESSERA_VALIDATE(format.writes(bits), "--type is ", a.type, " (", format.name,
                   " does not have it) leave it out, or "
                   "name another format");
  return bits;
}

ImageRecord record_of(const ConvertArguments& a, const SourceInfo& info, const Communicator& comm) {
  const ImageFormat& format = output_format(a.out);
  ImageRecord record = record_from(a.in, comm);
  record.space = info;
  record.space.box = a.region.empty() ? info.box : region_of(a.region, info.box);
  record.version = a.version;
  record.compression = a.compression;
  TESSERA_VALIDATE(a.compression.empty() || format.name == "HDF5", "--compression is ", a.compression, " (",
                   a.out, " is ", format.name, ", which has its own) name an OUT.h5, or leave it out");
  record.bits = a.type == "auto" ? bits_for(info.type, format) : bits_of(a, format);
  TESSERA_VALIDATE(a.version.empty() || format.name == "OME-Zarr", "--zarr is ", a.version, " (", a.out,
                   " is ", format.name, ") name an OUT.ome.zarr, or leave it out");
  TESSERA_VALIDATE(a.type != "auto" || record.bits >= 32 || info.type == "uint8" || info.type == "uint16" ||
                       info.type == "bool",
                   a.in, " holds ", info.type, " (", format.name,
                   " has 8 and 16 bits without sign, which are other values) "
                   "write .tif, HDF5 or OME-Zarr, or --type uint8, which clamps and rounds");
  if (info.says_scale && record.bits >= 32) {
    record.says_scale = true;
    record.factor = info.full_scale;
    record.offset = info.offset;
    record.curve = info.light.curve;
  }
  return record;
}

void say(const ConvertArguments& a, const SourceInfo& info, const ImageRecord& record) {
  const std::string held = record.bits < 32 ? concat("uint", record.bits) : concat("float", record.bits);
  if (!info.note.empty()) std::printf("note: %s: %s\n", a.in.c_str(), info.note.c_str());
  const bool exact = record.bits == 64 || (info.type != "float64" && !info.type.ends_with("int32") &&
                                           !info.type.ends_with("int64"));
  if (held != info.type)
    std::printf("note: %s is %s, %s holds it as %s%s\n", a.in.c_str(), info.type.c_str(), a.out.c_str(),
                held.c_str(), exact ? "" : ", rounded to 24 bits");
  const Index3 size = record.space.box.extents();
  std::printf("%s: %lld channel%s, %lld x %lld x %lld, %s\n", a.out.c_str(),
              static_cast<long long>(record.space.channels), record.space.channels == 1 ? "" : "s",
              static_cast<long long>(size[0]), static_cast<long long>(size[1]),
              static_cast<long long>(size[2]), held.c_str());
}

template <class T>
void scale(void* values, std::int64_t count, double by) {
  auto* const v = static_cast<T*>(values);
  for (std::int64_t k = 0; k < count; ++k) v[k] = static_cast<T>(static_cast<double>(v[k]) * by);
}

int execute(const ConvertArguments& a, const Communicator& comm) {
  const KeepOpen reading;
  comm.together([&] {
    output_format(a.out);
    TESSERA_VALIDATE(a.force || comm.rank() != 0 || !std::filesystem::exists(a.out), a.out,
                     " exists (convert never overwrites) name another file, or add --force");
  });
  require_same_files({file_of(a.in)}, comm);
  const SourceInfo info = image_source_info(a.in, comm);
  const ImageRecord record = record_of(a, info, comm);
  comm.together([&] { require_writable(output_format(a.out), a.out, record); });
  const Decomposition cut = Decomposition::choose(
      record.space.box, {1, 1, 1}, comm.size(), [](const Box& x) { return static_cast<double>(x.pixels()); });
  const Box mine = cut.block(comm.rank());
  const bool wide = record.bits == 64;
  const std::int64_t count = mine.pixels() * info.channels;
  std::unique_ptr<Room> room;
  comm.together([&] { room = std::make_unique<Room>(count * (wide ? 8 : 4), a.out); });
  const ArrayView block{room->data(),
                        mine,
                        info.channels,
                        mine.pixels(),
                        {mine.extent(1) * mine.extent(2), mine.extent(2), 1},
                        wide ? ElementType::float64 : ElementType::float32,
                        Device{},
                        nullptr};
  read_image(a.in, cut.layout(), block, comm);
  // Whole numbers are given as parts of the largest one of the type.
  if (record.bits < 32) scale<float>(block.data, count, 1.0 / (record.bits == 8 ? 255 : 65535));
  write_image(a.out, record, cut.layout(), block, comm);
  if (comm.rank() == 0) say(a, info, record);
  return 0;
}

}  // namespace

Command convert_command(CLI::App& app) {
  const auto a = std::make_shared<ConvertArguments>();
  CLI::App* options = app.add_subcommand("convert", "an image, or a part of it, in another format");
  options->add_option("IN", a->in, "FILE, FILE.h5:/dataset, FILE.tif:/all, FILE.zarr:/1, ...")->required();
  options->add_option("OUT", a->out, "its suffix says the format; type, pixel sizes and names go along")
      ->required();
  options->add_option("--region", a->region, "FIRST:BEHIND of rows and columns, of a volume of slices first");
  options->add_option("--type", a->type, "of samples (default: as in IN, where OUT can hold it)")
      ->check(one_of({"auto", "uint8", "uint16", "float32", "float64"}))
      ->capture_default_str();
  options->add_option("--zarr", a->version, "version of OME-Zarr (default 0.5)")
      ->check(one_of({"0.4", "0.5"}));
  options->add_option("--compression", a->compression, "of HDF5 (default: none)")->check(one_of({"gzip"}));
  options->add_flag("--force", a->force, "overwrite OUT");
  options->footer("Example: tessera convert stack.ome.zarr:/1 small.tif --region 10:20,0:512,0:512");
  return {options, [a](const Launch& launch) { return execute(*a, launch.comm); }, Watched::together};
}

}  // namespace tessera
