// SPDX-License-Identifier: BSD-3-Clause
#include "zarr/zarr_sink.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <set>
#include <vector>

#include "array_copy.hpp"
#include "tessera/core/error.hpp"
#include "tessera/core/phase.hpp"
#include "tessera/io/files.hpp"
#include "tessera/io/posix_file.hpp"
#include "zarr/zarr_array.hpp"
#include "zarr/zarr_layout.hpp"

namespace tessera::io {
namespace {

namespace fs = std::filesystem;

// Dense values of a chunk's pixels of one channel, cut to the image.
using Values = std::function<std::vector<double>(std::int64_t channel, const Box& box)>;

std::uint16_t rounded(double value, double top) {
  return static_cast<std::uint16_t>(std::lround(value > 0 ? std::min(value, top) : 0));  // NaN compares false
}

class ZarrSink final : public ImageSink {
 public:
  ZarrSink(const std::string& path, const ImageRecord& record, const Communicator& comm)
      : path_(fs::path(path).lexically_normal().string()), record_(record), comm_(comm), layout_(record) {
    if (path_.ends_with('/')) path_.pop_back();
    std::string name = comm_.rank() == 0 ? temporary_name(path_) : "";
    part_ = comm_.broadcast(name, 0);
    range_.assign(static_cast<std::size_t>(record_.space.channels), {HUGE_VAL, -HUGE_VAL});
    comm_.together([&] {
      if (comm_.rank() != 0) return;
      std::error_code error, none;  // folders above it are not made
      TESSERA_VALIDATE(
          !fs::is_directory(path_, none) || fs::is_empty(path_, none) || !zarr_mark(path_).empty(), path_,
          " is a folder that is no Zarr store (it would be removed) name another one");
      if (fs::create_directory(part_, error); error) fail(error.message());
      for (std::size_t k = 0; k < layout_.levels().size(); ++k) put(layout_.array_metadata(k));
    });
  }

  ~ZarrSink() override {
    std::error_code none;
    if (comm_.rank() == 0) fs::remove_all(part_, none);
  }

  Index3 chunk() const override { return layout_.levels()[0].file; }

  // Values as they are stored; of whole numbers in [0, 1] those of the type.
  void write_chunk(const ArrayView& block) override {
    const Index3 back = Index3{} - record_.space.box.lo();
    const Box box = block.box.shift(back);
    ArrayView moved = block;
    moved.box = box;
    Index3 file{};
    for (std::size_t d = 0; d < 3; ++d) file[d] = box.lo()[d] / chunk()[d];
    write_file(0, file, [&](std::int64_t c, const Box& part) {
      std::vector<double> values(static_cast<std::size_t>(part.pixels()));
      pack(moved, part, c, 1, values.data());
      auto& [least, most] = range_[static_cast<std::size_t>(c)];
      for (double& v : values) {
        if (record_.bits < 32) v = whole_number(static_cast<float>(v), record_.bits);
        if (!std::isfinite(v)) continue;
        least = std::min(least, v);
        most = std::max(most, v);
      }
      return values;
    });
  }

  void finish() override {
    for (std::size_t k = 1; k < layout_.levels().size(); ++k) comm_.together([&] { write_level(k); });
    std::vector<double> least, most;
    for (const auto& [lo, hi] : range_) {
      least.push_back(lo);
      most.push_back(hi);
    }
    comm_.all_reduce(least, Reduce::min);
    comm_.all_reduce(most, Reduce::max);
    for (std::size_t c = 0; c < range_.size(); ++c)
      range_[c] =
          least[c] <= most[c] ? std::array<double, 2>{least[c], most[c]} : std::array<double, 2>{0, 1};
    comm_.together([&] {
      if (comm_.rank() == 0) put(layout_.group_metadata(fs::path(path_).stem().stem().string(), range_));
    });
    comm_.together([&] { sync_all(); });
    comm_.together([&] {
      if (comm_.rank() == 0) put_in_place();
    });
  }

 private:
  [[noreturn]] void fail(const std::string& why) const {
    throw RunError(concat("cannot write ", path_, " (", why, ")"));
  }
  void make_folder(const std::string& folder) const {
    std::error_code error;
    fs::create_directories(folder, error);
    if (error) fail(error.message());
  }
  void put(const std::vector<std::pair<std::string, std::string>>& files) const {
    for (const auto& [name, text] : files) {
      make_folder(fs::path(part_ + "/" + name).parent_path().string());
      OutputFile file(part_ + "/" + name, OutputFile::Use::make, path_);
      file.append(text.data(), std::ssize(text));
      file.close();
    }
  }

  // Samples of a chunk in its whole extent, packed.
  ZarrBytes packed(const ZarrLevel& level, const Box& box, const std::vector<double>& values) const {
    const Box whole(box.lo(), box.lo() + level.chunk);
    ZarrBytes out(static_cast<std::size_t>(whole.pixels() * layout_.element()));
    const double* from = values.data();
    for (std::int64_t z = 0; z < box.extent(0); ++z)
      for (std::int64_t y = 0; y < box.extent(1); ++y) {
        std::uint8_t* to = out.data() + (z * level.chunk[1] + y) * level.chunk[2] * layout_.element();
        for (std::int64_t x = 0; x < box.extent(2); ++x, to += layout_.element()) store(*from++, to);
      }
    return encode(layout_.codecs(), std::move(out), layout_.element());
  }
  void store(double value, std::uint8_t* to) const {
    const auto as = [&](auto sample) { std::memcpy(to, &sample, sizeof sample); };
    if (record_.bits == 8)
      as(static_cast<std::uint8_t>(rounded(value, 255)));
    else if (record_.bits == 16)
      as(rounded(value, 65535));
    else if (record_.bits == 32)
      as(static_cast<float>(value));
    else
      as(value);
  }

  // A file of every channel: a chunk, or a shard of them with its index behind.
  void write_file(std::size_t k, const Index3& file, const Values& values) {
    const ZarrLevel& level = layout_.levels()[k];
    Index3 first{}, last{};
    for (std::size_t d = 0; d < 3; ++d) {
      first[d] = file[d] * level.file[d];
      last[d] = first[d] + level.file[d];
    }
    for (std::int64_t c = 0; c < record_.space.channels; ++c) {
      const std::string name = part_ + "/" + layout_.key(k, c, file);
      if (const std::string folder = fs::path(name).parent_path().string(); made_.insert(folder).second)
        make_folder(folder);
      OutputFile out(name, OutputFile::Use::make, path_);
      ZarrBytes index;
      std::uint64_t at = 0;
      const auto number = [&](std::uint64_t n) {
        for (int b = 0; b < 8; ++b) index.push_back(static_cast<std::uint8_t>(n >> (8 * b)));
      };
      for (std::int64_t z = first[0]; z < last[0]; z += level.chunk[0])
        for (std::int64_t y = first[1]; y < last[1]; y += level.chunk[1])
          for (std::int64_t x = first[2]; x < last[2]; x += level.chunk[2]) {
            beat();
            const Box box =
                Box({0, 0, 0}, level.size).intersect(Box({z, y, x}, Index3{z, y, x} + level.chunk));
            if (box.empty()) {
              number(UINT64_MAX);
              number(UINT64_MAX);
              continue;
            }
            const ZarrBytes bytes = packed(level, box, values(c, box));
            out.append(bytes.data(), std::ssize(bytes));
            number(at);
            number(bytes.size());
            at += bytes.size();
          }
      if (layout_.sharded(k)) {
        index = encode({ZarrCodec::crc32c}, std::move(index), 1);
        out.append(index.data(), std::ssize(index));
      }
      out.close();
    }
  }

  // This rank's files of a level, from the one before, which all ranks have written.
  void write_level(std::size_t k) {
    const ZarrLevel& level = layout_.levels()[k];
    ZarrArray above(zarr_node(concat(part_, "/", k - 1)), ZarrArray::Missing::refuse);
    const Index3 count = level.files();
    std::int64_t turn = 0;
    for (std::int64_t z = 0; z < count[0]; ++z)
      for (std::int64_t y = 0; y < count[1]; ++y)
        for (std::int64_t x = 0; x < count[2]; ++x)
          if (turn++ % comm_.size() == comm_.rank())
            write_file(k, {z, y, x},
                       [&](std::int64_t c, const Box& box) { return means(above, level.step, c, box); });
  }

  // Of the samples that are numbers.
  std::vector<double> means(ZarrArray& above, const Index3& step, std::int64_t channel,
                            const Box& box) const {
    Index3 lo{}, size{};
    for (std::size_t d = 0; d < 3; ++d) {
      lo[d] = box.lo()[d] * step[d];
      size[d] = box.extent(d) * step[d];
    }
    std::vector<std::int64_t> start, count, stride;
    if (record_.space.channels > 1) start = {channel}, count = {1}, stride = {0};
    for (std::size_t d = record_.space.box.extent(0) > 1 ? 0 : 1; d < 3; ++d) {
      start.push_back(lo[d]);
      count.push_back(size[d]);
      stride.push_back(d == 0 ? size[1] * size[2] : d == 1 ? size[2] : 1);
    }
    std::vector<double> fine(static_cast<std::size_t>(size[0] * size[1] * size[2]));
    above.read(start, count, stride, fine.data());
    std::vector<double> sums(static_cast<std::size_t>(box.pixels())), numbers(sums.size());
    const double* from = fine.data();
    for (std::int64_t z = 0; z < size[0]; ++z)
      for (std::int64_t y = 0; y < size[1]; ++y)
        for (std::int64_t x = 0; x < size[2]; ++x, ++from) {
          if (std::isnan(*from)) continue;
          const auto k = static_cast<std::size_t>(
              ((z / step[0]) * box.extent(1) + y / step[1]) * box.extent(2) + x / step[2]);
          sums[k] += *from;
          numbers[k] += 1;
        }
    for (std::size_t k = 0; k < sums.size(); ++k) sums[k] /= numbers[k];  // 0 / 0 where there is none
    return sums;
  }

  // Many small files: the file system as a whole, once a rank.
  void sync_all() const {
    const int fd = ::open(part_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const int code = fd < 0 ? -1 : ::syncfs(fd);
    const int error = errno;
    if (fd >= 0) ::close(fd);
    if (code != 0) fail(std::strerror(error));
  }

  // What stood there goes only when the new one is whole.
  void put_in_place() {
    const std::string old = temporary_name(path_ + ".old");
    std::error_code error, none;
    const bool replaces = fs::exists(fs::symlink_status(path_, none));
    if (replaces) fs::rename(path_, old, error);
    if (error) fail(error.message());
    fs::rename(part_, path_, error);
    if (error) {
      if (replaces) fs::rename(old, path_, none);
      fail(error.message());
    }
    if (replaces) fs::remove_all(old, error);
  }

  std::string path_, part_;
  ImageRecord record_;
  Communicator comm_;
  ZarrLayout layout_;
  std::vector<std::array<double, 2>> range_;  // of each channel
  std::set<std::string> made_;
};

}  // namespace

std::unique_ptr<ImageSink> create_zarr(const std::string& path, const ImageRecord& record,
                                       const Communicator& comm) {
  return std::make_unique<ZarrSink>(path, record, comm);
}

}  // namespace tessera::io
