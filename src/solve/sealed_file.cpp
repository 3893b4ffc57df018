// SPDX-License-Identifier: BSD-3-Clause
#include "sealed_file.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "mix.hpp"
#include "tessera/core/error.hpp"
#include "tessera/core/phase.hpp"
#include "tessera/io/hdf5.hpp"
#include "tessera/io/posix_file.hpp"

namespace tessera {
namespace {

// At the end of a sealed file, little endian: pairs (begin, end) of bytes that are no pixels, checksum,
// number of pairs, and these eight bytes.
constexpr std::array<char, 8> kSeal = {'T', 'E', 'S', 'S', 'E', 'A', 'L', '1'};
constexpr std::int64_t kTail = 3 * 8;
constexpr std::uint64_t kMostRanges = 1 << 20;  // of 2^25 chunks or more; what a damaged number may ask for

struct Range {
  std::int64_t begin = 0, end = 0;
};
constexpr auto kRange = static_cast<std::int64_t>(sizeof(Range));

// Where a file's pixels lie, ascending, neighbors joined.
std::vector<Range> pixels(const std::string& path, const std::vector<std::string>& datasets) {
  const Hdf5File file = Hdf5File::open(path, Communicator());
  std::vector<Range> all;
  for (const std::string& name : datasets)
    for (const ChunkRun& r : chunk_runs(file.id(), name, path))
      all.push_back({r.begin, r.begin + r.count * r.bytes});
  std::sort(all.begin(), all.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
  std::vector<Range> joined;
  for (const Range& r : all)
    if (!joined.empty() && joined.back().end == r.begin)
      joined.back().end = r.end;
    else
      joined.push_back(r);
  return joined;
}

std::uint64_t checksum(const io::InputFile& file, const std::vector<Range>& ranges) {
  constexpr std::int64_t kPart = 1 << 20;
  std::uint64_t sum = mix(ranges.size());
  std::vector<unsigned char> bytes(kPart);
  for (const Range& r : ranges) {
    sum += mix(mix(static_cast<std::uint64_t>(r.begin)) ^ static_cast<std::uint64_t>(r.end));
    for (std::int64_t at = r.begin; at < r.end; at += kPart) {
      beat();
      const std::int64_t n = std::min(kPart, r.end - at);
      file.read(at, n, bytes.data());
      for (std::int64_t i = 0; i < n; ++i)
        sum += mix(mix(static_cast<std::uint64_t>(at + i)) ^ bytes[static_cast<std::size_t>(i)]);
    }
  }
  return sum;
}

}  // namespace

void seal_file(const std::string& path, const std::vector<std::string>& datasets) {
  std::vector<Range> ranges;
  std::array<std::uint64_t, 3> tail{};
  {
    const io::InputFile file(path);
    std::int64_t at = 0;
    for (const Range& r : pixels(path, datasets)) {
      if (r.begin > at) ranges.push_back({at, r.begin});
      at = r.end;
    }
    if (file.size() > at) ranges.push_back({at, file.size()});
    tail = {checksum(file, ranges), ranges.size(), 0};
    std::memcpy(&tail[2], kSeal.data(), kSeal.size());
  }
  io::OutputFile file(path, io::OutputFile::Use::open, path);
  file.seek_end();
  file.append(ranges.data(), static_cast<std::int64_t>(ranges.size()) * kRange);
  file.append(tail.data(), kTail);
  file.close();
}

void check_seal(const std::string& path) {
  const auto damaged = [&](bool good, const char* why) {
    if (!good) throw DamageError(concat(path, " is damaged (", why, ")"));
  };
  const io::InputFile file(path);
  std::array<std::uint64_t, 3> tail{};  // checksum, pairs, the eight bytes
  constexpr const char* kCut = "it has no end: it was cut, or never finished";
  damaged(file.size() > kTail, kCut);
  file.read(file.size() - kTail, kTail, tail.data());
  const auto most = static_cast<std::uint64_t>(file.size() - kTail) / sizeof(Range);
  damaged(std::memcmp(&tail[2], kSeal.data(), kSeal.size()) == 0 && tail[1] > 0 &&
              tail[1] <= std::min(most, kMostRanges),
          kCut);
  std::vector<Range> ranges(tail[1]);
  const std::int64_t bytes = static_cast<std::int64_t>(ranges.size()) * kRange,
                     seal = file.size() - kTail - bytes;
  file.read(seal, bytes, ranges.data());
  constexpr const char* kDiffers = "the checksum of its structure differs";
  std::int64_t at = 0;
  for (const Range& r : ranges) {
    damaged(at <= r.begin && r.begin < r.end && r.end <= seal, kDiffers);
    at = r.end;
  }
  damaged(checksum(file, ranges) == tail[0], kDiffers);
}

}  // namespace tessera
