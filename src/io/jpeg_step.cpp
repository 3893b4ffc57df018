// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/io/jpeg_step.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "tessera/core/error.hpp"
#include "tessera/io/posix_file.hpp"

namespace tessera {
namespace {

// Row and column of an 8 x 8 block's k-th coefficient.
std::array<std::array<int, 2>, 64> zigzag() {
  std::array<std::array<int, 2>, 64> order{};
  std::size_t k = 0;
  for (int sum = 0; sum < 15; ++sum)
    for (int i = 0; i <= sum; ++i) {
      const int row = sum % 2 == 0 ? sum - i : i, column = sum - row;
      if (row < 8 && column < 8) order[k++] = {row, column};
    }
  return order;
}

JpegSteps steps_of(const unsigned char* table, bool wide) {
  double low = 0, high = 0;  // squares
  const auto order = zigzag();
  for (std::size_t k = 0; k < 64; ++k) {
    const double step = wide ? 256 * table[2 * k] + table[2 * k + 1] : table[k];
    if (order[k][0] < 4 && order[k][1] < 4) low += step * step;
    if (order[k][0] >= 4 && order[k][1] >= 4) high += step * step;
  }
  return {.low = std::sqrt(low / 16), .high = std::sqrt(high / 16)};
}

// Byte after byte; -1 behind the end.
class Bytes {
 public:
  explicit Bytes(const std::string& path) : file_(path) {}
  int get() {
    unsigned char c = 0;
    return read(1, &c) ? c : -1;
  }
  bool read(std::int64_t count, unsigned char* to) {
    constexpr std::int64_t kAtOnce = 1 << 12;
    while (count > 0) {
      if (next_ == std::ssize(ahead_)) {
        at_ += next_;
        ahead_.resize(static_cast<std::size_t>(std::min(kAtOnce, file_.size() - at_)));
        next_ = 0;
        if (ahead_.empty()) return false;
        file_.read(at_, std::ssize(ahead_), ahead_.data());
      }
      const std::int64_t n = std::min(count, std::ssize(ahead_) - next_);
      to = std::copy_n(ahead_.data() + next_, n, to);
      next_ += n;
      count -= n;
    }
    return true;
  }

 private:
  io::InputFile file_;
  std::int64_t at_ = 0, next_ = 0;  // in the file, in what was read ahead
  std::vector<unsigned char> ahead_;
};

JpegSteps read_steps(Bytes file) {
  constexpr int kStart = 0xD8, kTables = 0xDB, kScan = 0xDA, kFrame = 0xC0, kLastFrame = 0xC2;
  JpegSteps found;
  if (file.get() != 0xFF || file.get() != kStart) return {};
  for (;;) {
    int marker = file.get();
    while (marker == 0xFF) marker = file.get();  // fill bytes
    const int high = file.get(), low = file.get();
    if (low < 0) return {};
    if (marker == kScan) return found;
    const std::size_t length = static_cast<std::size_t>(256 * high + low);
    if (length < 2) return {};
    std::vector<unsigned char> segment(length - 2);
    if (!file.read(std::ssize(segment), segment.data())) return {};
    for (std::size_t at = 0; marker == kTables && at < segment.size();) {
      const bool wide = segment[at] >> 4 != 0;
      const std::size_t size = wide ? 128 : 64;
      if (at + 1 + size > segment.size()) return {};
      if ((segment[at] & 15) == 0) {
        const JpegSteps steps = steps_of(segment.data() + at + 1, wide);
        found.low = steps.low;
        found.high = steps.high;
      }
      at += 1 + size;
    }
    // Precision, height, width, components; of each its name, its samples across and down, its table.
    if (marker >= kFrame && marker <= kLastFrame && segment.size() >= 15 && segment[5] == 3)
      found.coarse_color = segment[7] != segment[10];
  }
}

}  // namespace

JpegSteps jpeg_steps(const std::string& path) {
  try {
    return read_steps(Bytes(path));
  } catch (const InputError&) {
    return {};  // a part of a file, or none
  }
}

}  // namespace tessera
