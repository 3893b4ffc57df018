// SPDX-License-Identifier: BSD-3-Clause
#include "sealed_file.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "mix.hpp"
#include "tessera/core/error.hpp"
#include "tessera/io/files.hpp"
#include "tessera/io/hdf5.hpp"

namespace tessera {
namespace {

namespace fs = std::filesystem;

// At the end of a sealed file, little endian: pairs (begin, end) of bytes that are no pixels, checksum,
// number of pairs, and these eight bytes.
constexpr std::array<char, 8> kSeal = {'T', 'E', 'S', 'S', 'E', 'A', 'L', '1'};
constexpr std::int64_t kTail = 3 * 8;

struct Range {
  std::uint64_t begin = 0, end = 0;
};

/// Where the chunks of one dataset lie.
///
/// HDF5 walks through all chunks to find one: asking for each of the 49152 of 3 x 65536 x 65536 takes 53 s.
/// They were allocated all at once in their order, so where the last of some lies right behind the others'
/// bytes, nothing but these lies between.
class Chunks {
 public:
  Chunks(hid_t file, const std::string& dataset, const std::string& path)
      : path_(path),
        set_(check_h5(H5Dopen2(file, dataset.c_str(), H5P_DEFAULT), "H5Dopen", path), H5Dclose),
        space_(check_h5(H5Dget_space(set_.get()), "H5Dget_space", path), H5Sclose) {}
  void append_to(std::vector<Range>& ranges) const {
    hsize_t count = 0;
    check_h5(H5Dget_num_chunks(set_.get(), space_.get(), &count), "H5Dget_num_chunks", path_);
    if (count > 0) append(ranges, 0, at(0), count - 1, at(count - 1));
  }

 private:
  Range at(hsize_t index) const {
    std::array<hsize_t, 4> offset{};
    unsigned filters = 0;
    haddr_t begin = 0;
    hsize_t size = 0;
    check_h5(H5Dget_chunk_info(set_.get(), space_.get(), index, offset.data(), &filters, &begin, &size),
             "H5Dget_chunk_info", path_);
    return {begin, begin + size};
  }
  void append(std::vector<Range>& ranges, hsize_t first, Range a, hsize_t last, Range b) const {
    if (b.end == a.begin + (last - first + 1) * (a.end - a.begin)) {
      ranges.push_back({a.begin, b.end});
      return;
    }
    const hsize_t middle = (first + last) / 2;
    append(ranges, first, a, middle, middle == first ? a : at(middle));
    append(ranges, middle + 1, middle + 1 == last ? b : at(middle + 1), last, b);
  }

  std::string path_;
  H5Handle set_, space_;
};

// Where a file's pixels lie, ascending, neighbors joined.
std::vector<Range> pixels(const std::string& path, const std::vector<std::string>& datasets) {
  const Hdf5File file = Hdf5File::open(path, Communicator());
  std::vector<Range> chunks;
  for (const std::string& name : datasets) Chunks(file.id(), name, path).append_to(chunks);
  std::sort(chunks.begin(), chunks.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
  std::vector<Range> joined;
  for (const Range& r : chunks)
    if (!joined.empty() && joined.back().end == r.begin)
      joined.back().end = r.end;
    else
      joined.push_back(r);
  return joined;
}

std::uint64_t checksum(std::ifstream& file, const std::vector<Range>& ranges) {
  std::uint64_t sum = mix(ranges.size());
  std::vector<char> bytes;
  for (const Range& r : ranges) {
    sum += mix(mix(r.begin) ^ r.end);
    bytes.resize(r.end - r.begin);
    file.seekg(static_cast<std::streamoff>(r.begin));
    file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    for (std::size_t i = 0; i < bytes.size(); ++i)
      sum += mix(mix(r.begin + i) ^ static_cast<unsigned char>(bytes[i]));
  }
  return sum;
}

}  // namespace

void seal_file(const std::string& from, const std::string& to, const std::vector<std::string>& datasets) {
  const std::uint64_t size = fs::file_size(from);
  std::vector<Range> ranges;
  std::uint64_t at = 0;
  for (const Range& r : pixels(from, datasets)) {
    if (r.begin > at) ranges.push_back({at, r.begin});
    at = r.end;
  }
  if (size > at) ranges.push_back({at, size});
  std::ifstream read(from, std::ios::binary);
  const std::uint64_t sum = checksum(read, ranges), count = ranges.size();
  if (!read) throw RunError(concat("cannot read ", from, " back (to make its checksum) check the disk"));
  write_whole(to, [&](const std::string& temporary) {
    fs::rename(from, temporary);
    std::ofstream file(temporary, std::ios::binary | std::ios::app);
    const auto put = [&](const void* bytes, std::size_t n) {
      file.write(static_cast<const char*>(bytes), static_cast<std::streamsize>(n));
    };
    put(ranges.data(), ranges.size() * sizeof(Range));
    put(&sum, 8);
    put(&count, 8);
    put(kSeal.data(), 8);
    file.close();
    if (!file) throw RunError(concat("cannot write ", to, " (its seal) is the disk full?"));
  });
}

void check_seal(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  TESSERA_VALIDATE(file, "cannot read ", path, " (it cannot be opened) check its rights");
  const auto size = static_cast<std::int64_t>(file.tellg());
  std::array<std::uint64_t, 3> tail{};  // checksum, pairs, the eight bytes
  bool good = size > kTail;
  if (good) {
    file.seekg(size - kTail);
    file.read(reinterpret_cast<char*>(tail.data()), kTail);
    const auto most = static_cast<std::uint64_t>(size - kTail) / sizeof(Range);
    good = file && std::memcmp(&tail[2], kSeal.data(), 8) == 0 && tail[1] > 0 && tail[1] <= most;
  }
  TESSERA_VALIDATE(good, path, " is damaged (it has no end: it was cut, or never finished)");
  std::vector<Range> ranges(tail[1]);
  const std::int64_t seal = size - kTail - static_cast<std::int64_t>(ranges.size() * sizeof(Range));
  file.seekg(seal);
  file.read(reinterpret_cast<char*>(ranges.data()),
            static_cast<std::streamsize>(ranges.size() * sizeof(Range)));
  std::uint64_t at = 0;
  for (const Range& r : ranges) {
    good = good && at <= r.begin && r.begin < r.end && r.end <= static_cast<std::uint64_t>(seal);
    at = r.end;
  }
  TESSERA_VALIDATE(good && checksum(file, ranges) == tail[0] && file, path,
                   " is damaged (the checksum of its structure differs)");
}

}  // namespace tessera
