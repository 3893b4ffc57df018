// SPDX-License-Identifier: BSD-3-Clause
#include "hdf5/hdf5_packed.hpp"

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "array_copy.hpp"
#include "tessera/core/error.hpp"
#include "tessera/core/phase.hpp"
#include "tessera/io/files.hpp"

namespace tessera::io {
namespace {

constexpr int kDeflate = 1;  // level: of floats with noise higher ones take twice as long for 1 %

// Whole reads and writes at a place; false with errno.
template <class Call, class Bytes>
bool whole_call(Call call, int fd, Bytes* bytes, std::int64_t count, std::int64_t at) {
  while (count > 0) {
    const ssize_t done = call(fd, bytes, static_cast<std::size_t>(count), at);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return false;
    bytes += done;
    at += done;
    count -= done;
  }
  return true;
}

}  // namespace

PackedChunks::PackedChunks(const std::string& path, const Box& image, std::int64_t channels, bool wide,
                           const Communicator& comm)
    : path_(path),
      image_(image),
      channels_(channels),
      wide_(wide),
      comm_(comm),
      side_(Hdf5File::chunk_side(image)) {
  for (std::size_t d = 0; d < 3; ++d) count_[d] = (image.extent(d) + side_[d] - 1) / side_[d];
  comm_.together([&] {
    const std::string name = temporary_name(concat(path_, ".packed", comm_.rank()));
    fd_ = ::open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd_ < 0) throw RunError(concat("cannot write ", path_, " (", std::strerror(errno), ")"));
    ::unlink(name.c_str());
  });
}

PackedChunks::~PackedChunks() {
  if (fd_ >= 0) ::close(fd_);
}

std::int64_t PackedChunks::index_of(std::int64_t channel, const Index3& first) const {
  std::int64_t out = channel;
  for (std::size_t d = 0; d < 3; ++d) out = out * count_[d] + first[d] / side_[d];
  return out;
}

template <class T>
void PackedChunks::pack_channel(const ArrayView& pixels, std::int64_t channel) {
  const Box& box = pixels.box;
  const std::int64_t all = side_[0] * side_[1] * side_[2];
  std::vector<T> values(static_cast<std::size_t>(all), T(0));  // zeros beyond the image
  for (std::int64_t z = 0; z < box.extent(0); ++z)
    for (std::int64_t y = 0; y < box.extent(1); ++y) {
      const Index3 lo = box.lo() + Index3{z, y, 0};
      pack(pixels, Box(lo, {lo[0] + 1, lo[1] + 1, box.hi()[2]}), channel, 1,
           values.data() + (z * side_[1] + y) * side_[2]);
    }
  std::vector<std::uint8_t> shuffled(values.size() * sizeof(T));
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(values.data());
  for (std::size_t b = 0; b < sizeof(T); ++b)
    for (std::size_t k = 0; k < values.size(); ++k)
      shuffled[b * values.size() + k] = bytes[k * sizeof(T) + b];
  uLongf size = compressBound(shuffled.size());
  std::vector<std::uint8_t> packed(size);
  if (compress2(packed.data(), &size, shuffled.data(), shuffled.size(), kDeflate) != Z_OK)
    throw RunError(concat("cannot write ", path_, " (zlib refuses a chunk)"));
  if (!whole_call(::pwrite, fd_, packed.data(), static_cast<std::int64_t>(size), end_))
    throw RunError(concat("cannot write ", path_, " (", std::strerror(errno), ")"));
  mine_.push_back({index_of(channel, box.lo()), end_, static_cast<std::int64_t>(size)});
  end_ += static_cast<std::int64_t>(size);
}

void PackedChunks::add(const ArrayView& pixels) {
  for (std::int64_t c = 0; c < channels_; ++c) {
    beat();
    if (wide_)
      pack_channel<double>(pixels, c);
    else
      pack_channel<float>(pixels, c);
  }
}

void PackedChunks::write(Hdf5File& file, const std::string& dataset) {
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(channels_ * count_[0] * count_[1] * count_[2]));
  for (const Place& p : mine_) sizes[static_cast<std::size_t>(p.index)] = p.bytes;
  comm_.all_reduce(sizes, Reduce::sum);
  const std::vector<std::int64_t> places = file.place_packed(dataset, image_, channels_, wide_, sizes);
  comm_.together([&] {
    std::vector<std::uint8_t> bytes;
    for (const Place& p : mine_) {
      beat();
      bytes.resize(static_cast<std::size_t>(p.bytes));
      if (!whole_call(::pread, fd_, bytes.data(), p.bytes, p.at))
        throw RunError(concat("cannot write ", path_, " (", std::strerror(errno), ")"));
      file.put_bytes(places[static_cast<std::size_t>(p.index)], bytes.data(), p.bytes);
    }
  });
}

}  // namespace tessera::io
